"""Stands for `torch.utils.cpp_extension.load_inline` and `load` in a box: the same words, our own builds.

In the build box the provider compiles; in the run box it only looks for what was compiled there, so that no compiler is called. Which of
the submission's flags count is for `sandbox/compilers/requested_flags.py` to say.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from sandbox.languages import cuda_errors
from sandbox.protocol import elf

MAIN, CUDA = "main.cpp", "cuda.cu"
CPP_HEAD, CUDA_HEAD = ("#include <torch/extension.h>",), ("#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>")
INIT = "PyInit_"
BINDING = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"
DECLARES_UNSEEN = re.compile(r'#\s*include\s*(?:"|<(?!torch/|ATen/|c10/|cuda)[^>]*\.)|##|\busing\b')  # C++ that may bring any name
# The flags that choose an architecture never count, and a module may give them only where there is a GPU.
ARCHITECTURE = re.compile(r"(?<!\S)--?(?:arch|code|gencode|generate-code|gpu-architecture|gpu-code)[=\s]\s*[^\s-]\S*")
Texts = str | Sequence[str] | None
Files = Callable[[Mapping[str, Any]], tuple[dict[str, tuple[str, ...]], tuple[str, ...]]]  # and directories of headers
_libraries: list[ctypes.CDLL] = []  # that this process has loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Extension to compile. files: each as texts that follow one another. cflags, cuda_cflags, ldflags: as the submission gave them."""

    name: str
    files: Mapping[str, tuple[str, ...]]
    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    is_module: bool = True
    key: str = field(init=False)

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and self.name.isascii()):
            raise ValueError(f"load_inline: name {self.name!r} is not an identifier; write letters, digits and '_'")
        flags = [self.cflags, ARCHITECTURE.sub("", " ".join(self.cuda_cflags)).split(), self.ldflags]
        message = json.dumps([self.name, sorted(self.files.items()), flags, self.is_module])
        object.__setattr__(self, "key", hashlib.sha256(message.encode("utf-8", "surrogatepass")).hexdigest()[:20])

    @property
    def path(self) -> str:
        """Where its library lies, below the directory of all of them."""
        return f"{self.name}-{self.key}/{self.name}.so"


class Loader:
    """The two functions. provide: from an extension to its library."""

    def __init__(self, provide: Callable[[Extension], Path]) -> None:
        self._provide = provide
        self._loaded: dict[str, ModuleType | None] = {}

    def install(self) -> None:
        """Put them in the place of torch's, with the same parameters."""
        import torch.utils.cpp_extension as torchs

        torchs.load_inline = self._in_place_of(torchs.load_inline, _inline_files)
        torchs.load = self._in_place_of(torchs.load, _written_files)

    def _in_place_of(self, function: Callable[..., object], files_of: Files) -> Callable[..., ModuleType | None]:
        signature = inspect.signature(function)

        def load(*arguments: object, **named: object) -> ModuleType | None:
            options = signature.bind(*arguments, **named).arguments
            files, include_dirs = files_of(options)
            words = {name: _texts(options.get(f"extra_{name}")) for name in ("cflags", "cuda_cflags", "ldflags")}
            include_dirs = (*_texts(options.get("extra_include_paths")), *include_dirs)
            is_module = bool(options.get("is_python_module", True))
            return self._load(Extension(name=options["name"], files=files, include_dirs=include_dirs, is_module=is_module, **words))

        return load

    def _load(self, extension: Extension) -> ModuleType | None:
        if extension.key not in self._loaded:
            # Load a library. By a descriptor, which works where files of the box's own may not be executed.
            path = self._provide(extension)
            content = path.read_bytes()
            opened = in_memory(extension.name, content)
            # One that is no module registers its operators when it is opened; torch.ops.load_library would need the file's real name.
            module = import_library(opened, content) if extension.is_module else None
            _libraries.append(ctypes.CDLL(opened))
            self._loaded[extension.key] = module
        return self._loaded[extension.key]


def _inline_files(options: Mapping[str, Any]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """C++ and CUDA texts, as torch takes them: functions get bindings, and headers of torch come first."""
    if options.get("sycl_sources") or options.get("with_sycl"):
        raise ValueError("load_inline: there is no SYCL here; give cuda_sources")
    cpp_head, cuda_head = ((), ()) if options.get("no_implicit_headers") else (CPP_HEAD, CUDA_HEAD)
    bindings = bindings_of(options.get("functions"), wrapped=options.get("with_pytorch_error_handling", True))
    files = {MAIN: (*cpp_head, *_texts(options["cpp_sources"]), *bindings)}
    if cuda_sources := _texts(options.get("cuda_sources")):
        files[CUDA] = (*cuda_head, *cuda_sources)
    return files, ()


def _written_files(options: Mapping[str, Any]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Files that the module has written; their directories are searched for headers."""
    if options.get("is_standalone"):
        raise ValueError("load: a program can't be graded; leave is_standalone out")
    files: dict[str, tuple[str, ...]] = {}
    paths = [Path(path) for path in _texts(options["sources"])]
    for path in paths:
        files[path.name if path.name not in files else f"{len(files)}_{path.name}"] = (path.read_text("utf-8"),)
    return files, tuple(dict.fromkeys(str(path.absolute().parent) for path in paths))


def bindings_of(functions: str | Sequence[str] | Mapping[str, str] | None, *, wrapped: bool) -> tuple[str, ...]:
    """The lines that bind functions; none where the texts bind their own."""
    if functions is None:
        return ()
    names = [functions] if isinstance(functions, str) else functions
    described = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
    called = "torch::wrap_pybind_function({})" if wrapped else "{}"
    lines = [f'm.def("{name}", {called.format(name)}, {json.dumps(sentence)});' for name, sentence in described.items()]
    return (BINDING, *lines, "}")


def undeclared(extension: Extension) -> str | None:
    """Return the first function to bind whose name the C++ texts do not have; None where there is none, or a header may declare it."""
    texts = extension.files.get(MAIN, ())
    before = "\n".join(texts[: texts.index(BINDING)]) if BINDING in texts else ""
    if BINDING not in texts or extension.include_dirs or DECLARES_UNSEEN.search(before) is not None:
        return None
    names = (match[1] for line in texts[texts.index(BINDING) :] if (match := re.match(r'm\.def\("(\w+)", ', line)) is not None)
    return next((name for name in names if re.search(rf"\b{name}\b", before) is None), None)


def libraries() -> Sequence[ctypes.CDLL]:
    """The libraries that this process has loaded."""
    return tuple(_libraries)


def take_error() -> str:
    """The last error of the CUDA runtimes in the libraries that this process has loaded, as "name: text", or ""; it is cleared."""
    return cuda_errors.of_any(map(cuda_errors.of_library, _libraries))()


def import_library(path: str, content: bytes) -> ModuleType | None:
    """Import the Python module that the library at path is, whatever the file is called; None where it is none."""
    name = next((symbol.removeprefix(INIT) for symbol in elf.exported_names(content) if symbol.startswith(INIT)), None)
    if name is None:
        return None
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def in_memory(name: str, content: bytes) -> str:
    """A path to bytes in memory. It stays open: the interpreter remembers libraries by their paths."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return f"/proc/self/fd/{descriptor}"


def built(directory: Path) -> Callable[[Extension], Path]:
    """Provide what was compiled in the build box, and nothing else."""

    def provide(extension: Extension) -> Path:
        path = directory / extension.path
        if not path.is_file():
            raise RuntimeError(
                f"load_inline: {extension.name!r} was not compiled with these sources when the module was imported in the build box, where "
                "it failed or was not called; call it at the top of the module, with the same arguments everywhere"
            )
        return path

    return provide


def execute_from_anywhere() -> None:
    """Let libraries that other compilers leave in the box's own directories be imported, though nothing there may be executed."""
    loader: Any = importlib.machinery.ExtensionFileLoader
    original = loader.create_module

    def create_module(self: Any, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        try:
            return original(self, spec)  # type: ignore[no-any-return]
        except ImportError as error:
            if "failed to map segment" not in str(error) or spec.origin is None:
                raise
            spec.origin = self.path = in_memory(spec.name, Path(spec.origin).read_bytes())
            return original(self, spec)  # type: ignore[no-any-return]

    loader.create_module = create_module


def _texts(texts: Texts) -> tuple[str, ...]:
    return () if not texts else (texts,) if isinstance(texts, str) else tuple(map(str, texts))
