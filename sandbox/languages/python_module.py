"""The files of a Python submission: where they lie, the main file, how they import each other, the entry, and how errors read.

The same in the build box and in the run box. The files are a package, so `from .kernels import add` works in the main file as well as
`from kernels import add`. A submitted file comes before a file of the problem, and both before what is installed.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from sandbox.languages.python_extensions import Extension, Loader
from sandbox.protocol.devices import device_info
from sandbox.protocol.python_archive import CACHES, EXTENSIONS, MAIN_FILE, MODULES, SOURCES

PACKAGE = "submitted"  # the name of the package that the files are
SUFFIX, INIT = ".py", "__init__.py"
WORK = "work"
# Where compilers that a module may use keep what they make, below CACHES.
CACHE_VARIABLES = {
    "TRITON_CACHE_DIR": "triton",
    "NUMBA_CACHE_DIR": "numba",
    "CUDA_CACHE_PATH": "cuda",
    "CUPY_CACHE_DIR": "cupy",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "XDG_CACHE_HOME": "other",
}
# Triton and Numba bring interpreters of their own.
SIMULATOR = "NUMBA_ENABLE_CUDASIM"
EMULATED_VARIABLES = {"TRITON_INTERPRET": "1", SIMULATOR: "1"}
MODEL, FUNCTIONS = "ModelNew", ("custom_kernel", "run", "solution")
LISTED_COUNT = 12
FRAME_COUNT, MESSAGE_LIMIT_CHARS = 6, 4000


class NoMainFile(Exception):
    """There is no file to import; the sentence says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleDirectory:
    """The directory of one submission: its files, the problem's, the extensions compiled from them, and other compilers' caches."""

    directory: Path
    sources: Path = field(init=False)  # the submitted files, under the paths that they were submitted with
    modules: Path = field(init=False)  # the problem's files that a submission may import
    extensions: Path = field(init=False)  # what `load_inline` compiled

    def __post_init__(self) -> None:
        for name, part in (("sources", SOURCES), ("modules", MODULES), ("extensions", EXTENSIONS)):
            object.__setattr__(self, name, self.directory / part)

    def environment(self, device_kind: str) -> dict[str, str]:
        """Return the variables that are set before anything is imported."""
        device = device_info(device_kind)
        compiler = shutil.which(device.toolkit_program) if device.toolkit_program else None
        toolkit = {device.toolkit_variable: str(Path(compiler).resolve().parents[1])} if compiler else {}
        interpreters = EMULATED_VARIABLES if device.emulates_cuda else {}
        return {**self.caches(), "TORCH_EXTENSIONS_DIR": str(self.extensions), **toolkit, **interpreters}

    def caches(self) -> dict[str, str]:
        """The variables that name the directories of other compilers' caches."""
        return {name: str(self.directory / CACHES / part) for name, part in CACHE_VARIABLES.items()}

    def main(self) -> Path:
        """The main file of what was unpacked here. Raises NoMainFile."""
        with suppress(OSError, ValueError):
            named = self.sources / (self.directory / MAIN_FILE).read_text("utf-8")
            if named.is_file() and named.resolve().is_relative_to(self.sources.resolve()):
                return named
        files = list(self._python_files(self.sources))
        if len(files) != 1:
            raise NoMainFile(f"the artifact has {len(files)} Python files and does not say which one is the main file")
        return files[0]

    def text(self) -> str:
        """All Python text, the problem's too: what a submission uses is looked for in it."""
        files = [path for part in (self.sources, self.modules) for path in self._python_files(part)]
        return "\n".join(path.read_text("utf-8", "replace") for path in files)

    def place_files(self, sources: Mapping[str, bytes], modules: Mapping[str, bytes]) -> None:
        """Write the submitted files, and those of the problem, which are then read only."""
        for files, directory in ((sources, self.sources), (modules, self.modules)):
            directory.mkdir(parents=True)
            for path, content in files.items():
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                (directory / path).write_bytes(content)
        seal(self.modules)

    def place_work(self, main: Path) -> Path:
        """Make the working directory: new files may be written there, and what lies next to the main file is found there."""
        work = self.directory / WORK
        work.mkdir()
        for path in main.parent.iterdir():
            (work / path.name).symlink_to(path)
        return work

    @staticmethod
    def _python_files(directory: Path) -> Iterator[Path]:
        return (Path(at, name) for at, _, names in sorted(os.walk(directory)) for name in sorted(names) if name.endswith(SUFFIX))


def seal(directory: Path, *, directory_mode: int = 0o555) -> None:
    """Make the files below a directory read only, and with this mode the directories too."""
    directory.mkdir(exist_ok=True)
    for at, _, names in os.walk(directory, topdown=False):
        for name in names:
            Path(at, name).chmod(0o444)
        Path(at).chmod(directory_mode)


def choose_main(paths: Sequence[str], texts: Mapping[str, str], entries: Collection[str]) -> str:
    """The path of the main file: the first Python file, or the only other one that defines an entry if the first does not.

    paths: in the order in which they were submitted. entries: the names that an entry may have. Raises NoMainFile.
    """
    files = [path for path in paths if path.endswith(SUFFIX)]
    if not files:
        raise NoMainFile(f"there is no Python file; name one of the files *{SUFFIX}")
    defining = [path for path in files if not defined_names(texts[path]).isdisjoint(entries)]
    return defining[0] if len(defining) == 1 else files[0]


def defined_names(text: str) -> set[str]:
    """The names that a module defines at its top level; none if it is not Python."""
    try:
        waiting: list[ast.AST] = [*ast.parse(text).body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    defined: set[str] = set()
    while waiting:
        match waiting.pop():
            case (
                ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store())
            ):
                defined.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                defined |= {alias.asname or alias.name for alias in names}
            case ast.Lambda() | ast.Expr():
                pass
            case node:
                waiting += ast.iter_child_nodes(node)
    return defined


def own_modules(sources: Path, modules: Path) -> list[str]:
    """The names by which the files of a submission and of its problem are imported, dotted for those in directories."""
    module_names = []
    for part in (sources, modules):
        for path in ModuleDirectory._python_files(part):
            parts = path.relative_to(part).with_suffix("").parts
            module_names.append(".".join(parts[:-1] if path.name == INIT else parts))
    return [name for name in dict.fromkeys(module_names) if name]


def import_main(main: Path, sources: Path, modules: Path | None = None) -> ModuleType:
    """Import the main file; its body runs here. Whatever that raises goes through."""
    parts = main.relative_to(sources).with_suffix("").parts
    _make_package(sources)
    directories = [str(directory) for directory in (main.parent, sources, modules) if directory is not None]
    sys.meta_path.insert(0, OwnFiles(directories, main=main.stem))
    sys.meta_path.append(OwnFiles(directories, main=main.stem, last=True))
    if all(part.isidentifier() for part in parts):
        return importlib.import_module(".".join((PACKAGE, *parts)))
    return _executed(f"{PACKAGE}.main", main)


class OwnFiles(MetaPathFinder):
    """Finds the files of a submission and of its problem by their names.

    The main file does not hide an installed module of the same name, such as triton.py, nor does a directory without __init__.py: these
    are found last.
    """

    def __init__(self, directories: Sequence[str], *, main: str, last: bool = False) -> None:
        self._directories, self._main, self._last = directories, main, last

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's spec; None where it is not one of these files."""
        if path is not None:
            return None
        spec = PathFinder.find_spec(fullname, self._directories, target)
        is_last = fullname == self._main or spec is None or spec.loader is None
        return spec if is_last is self._last else None


def _make_package(sources: Path) -> None:
    """Let the files be a package, so that they can import each other by relative names."""
    init = sources / INIT
    if init.is_file():
        _executed(PACKAGE, init, search=[str(sources)])
        return
    package = ModuleType(PACKAGE)
    package.__path__ = [str(sources)]
    sys.modules[PACKAGE] = package


def _executed(name: str, path: Path, search: list[str] | None = None) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=search)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class NoEntry(Exception):
    """The module has no function that is surely the kernel; the sentence says what to do."""


def install_extensions(text: str, provide: Callable[[Extension], Path]) -> None:
    """Answer `load_inline` and `load` by `provide`. Torch's module of them takes a while to import, so only for a text that names it."""
    if names_extensions(text):
        Loader(provide).install()


def names_extensions(text: str) -> bool:
    """Return whether a module may compile extensions."""
    return "cpp_extension" in text


def entries(wanted: str) -> tuple[str, ...]:
    """The names that an entry may have, best first."""
    return (wanted, MODEL, *FUNCTIONS)


def find_entry(module: ModuleType, wanted: str) -> Any:
    """The function or class that is the kernel: by its usual names, or as the only one that it can be."""
    for name in entries(wanted):
        entry = getattr(module, name, None)
        if callable(entry):
            return entry
    functions = {name: value for name, value in vars(module).items() if isinstance(value, FunctionType) and not name.startswith("_")}
    names = [name for name, value in functions.items() if value.__module__ == module.__name__]
    if len(names) == 1:
        return getattr(module, names[0])
    there = ", ".join(names[:LISTED_COUNT]) or "none"
    raise NoEntry(
        f"the module has no function '{wanted}', and no {MODEL}, {', '.join(FUNCTIONS)}; its public functions: {there}; "
        f"name one of them '{wanted}'"
    )


def ready(entry: Any) -> Callable[..., object]:
    """Return the callable that gets the inputs: an instance, made once without arguments, of an entry that is a class."""
    kernel = entry() if inspect.isclass(entry) else entry
    if not callable(kernel):
        raise NoEntry(
            f"{entry.__name__}() makes a {type(kernel).__name__}, which can't be called with the inputs; give it a method forward"
        )
    return kernel  # type: ignore[no-any-return]


def complaint(error: BaseException, sources: Path, sentence: str = "") -> str:
    """An exception of the submission as lines for people: where in its own files, and what. sentence: says it instead of its message."""
    if isinstance(error, SyntaxError) and _own(error.filename, sources):
        line = f"{_own(error.filename, sources)}:{error.lineno}: error: {type(error).__name__}: {error.msg}\n"
        shown = (error.text or "").rstrip("\n")
        return line + (f"{shown}\n{' ' * ((error.offset or 1) - 1)}^\n" if shown.isprintable() and shown else "")
    frames = _frames(error, sources)
    message = sentence or "".join(traceback.format_exception_only(error)).strip()
    for part in (sources, sources.parent / MODULES):
        message = message.replace(f"{part}{os.sep}", "")
    message = message[:MESSAGE_LIMIT_CHARS]
    if not frames:
        return f"error: {message}\n"
    lines = [f"{_own(frames[-1].filename, sources)}:{frames[-1].lineno}: error: {message}\n"]
    lines += [f"  {_own(frame.filename, sources)}:{frame.lineno}, in {frame.name}: {frame.line}\n" for frame in frames[-FRAME_COUNT:]]
    return "".join(lines)


def explain(error: Exception, sources: Path) -> None:
    """Let an exception say where in the submission it was raised; one that says something else than its arguments stays as it is."""
    text = complaint(error, sources).strip()
    if type(error).__str__ in (Exception.__str__, BaseException.__str__) and not text.startswith("error: "):
        error.args = (text,)


def where(error: BaseException, sources: Path) -> str:
    """The last line of the submission that an exception went through, as `file:line`; "" for none."""
    frames = _frames(error, sources)
    return f"{_own(frames[-1].filename, sources)}:{frames[-1].lineno}" if frames else ""


def _frames(error: BaseException, sources: Path) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if _own(frame.filename, sources)]


def _own(filename: str | None, sources: Path) -> str:
    """The file's path as it was submitted, or the name of a file of the problem; "" for any other."""
    for part in (sources, sources.parent / MODULES):
        prefix = f"{part}{os.sep}"
        if (filename or "").startswith(prefix):
            return (filename or "").removeprefix(prefix)
    return ""
