"""A submitted Python module: where it lies, how it is imported, what in it is the kernel, and how its errors read.

The same in the build box, where it is imported to compile what it compiles, and in the run box.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from sandbox.languages.python_extensions import Extension, Loader
from sandbox.protocol.devices import device_info
from sandbox.protocol.python_archive import CACHES, EXTENSIONS, SOURCES

MODULE = "submission"
MODEL, FUNCTIONS = "ModelNew", ("custom_kernel", "run", "solution")
LISTED_COUNT = 12
FRAME_COUNT, MESSAGE_LIMIT_CHARS = 6, 4000
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
EMULATED_VARIABLES = {"TRITON_INTERPRET": "1", "NUMBA_ENABLE_CUDASIM": "1"}


class NoEntry(Exception):
    """The module has no function that is surely the kernel; the sentence says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleDirectory:
    """The directory of one module: its source, the extensions compiled from it, and other compilers' caches."""

    directory: Path

    @property
    def sources(self) -> Path:
        """Where the submitted file lies, under the path that it was submitted with."""
        return self.directory / SOURCES

    @property
    def extensions(self) -> Path:
        """Where what `load_inline` compiled lies."""
        return self.directory / EXTENSIONS

    def environment(self, device_kind: str) -> dict[str, str]:
        """What is set before anything is imported."""
        device = device_info(device_kind)
        compiler = shutil.which(device.toolkit_program) if device.toolkit_program else None
        toolkit = {device.toolkit_variable: str(Path(compiler).resolve().parents[1])} if compiler else {}
        interpreters = EMULATED_VARIABLES if device.emulates_cuda else {}
        return {**self.caches(), "TORCH_EXTENSIONS_DIR": str(self.extensions), **toolkit, **interpreters}

    def caches(self) -> dict[str, str]:
        """The variables that name the directories of other compilers' caches."""
        return {name: str(self.directory / CACHES / part) for name, part in CACHE_VARIABLES.items()}


def install_extensions(text: str, provide: Callable[[Extension], Path]) -> None:
    """Answer `load_inline` and `load` by `provide`. Torch's module of them takes a while to import, so only for a text that names it."""
    if names_extensions(text):
        Loader(provide).install()


def names_extensions(text: str) -> bool:
    """Whether a module may compile extensions."""
    return "cpp_extension" in text


def import_file(path: Path) -> ModuleType:
    """Import the submitted file; its body runs here. Whatever that raises goes through."""
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    return module


def only_file(directory: Path) -> Path:
    """The one file below a directory."""
    files = [Path(at, name) for at, _, names in os.walk(directory) for name in names]
    if len(files) != 1:
        raise NoEntry(f"a submission in Python is one file, and this one has {len(files)}; join them")
    return files[0]


def find_entry(module: ModuleType, wanted: str) -> Any:
    """The function or class that is the kernel: by its usual names, or as the only one that it can be."""
    for name in (wanted, MODEL, *FUNCTIONS):
        found = getattr(module, name, None)
        if callable(found):
            return found
    names = [name for name, value in vars(module).items() if not name.startswith("_") and _is_own_function(module, value)]
    if len(names) == 1:
        return getattr(module, names[0])
    there = ", ".join(names[:LISTED_COUNT]) or "none"
    raise NoEntry(
        f"the module has no function '{wanted}', and no {MODEL}, {', '.join(FUNCTIONS)}; its public functions: {there}; "
        f"name one of them '{wanted}'"
    )


def ready(entry: Any) -> Callable[..., object]:
    """What is called with the inputs: a class is made first, once, without arguments."""
    made = entry() if inspect.isclass(entry) else entry
    if not callable(made):
        raise NoEntry(f"{entry.__name__}() makes a {type(made).__name__}, which can't be called with the inputs; give it a method forward")
    return made  # type: ignore[no-any-return]


def complaint(error: BaseException, sources: Path) -> str:
    """An exception of the submission as lines for people: where in its own file, and what."""
    if isinstance(error, SyntaxError) and _own(error.filename, sources):
        line = f"{_own(error.filename, sources)}:{error.lineno}: error: {type(error).__name__}: {error.msg}\n"
        shown = (error.text or "").rstrip("\n")
        return line + (f"{shown}\n{' ' * ((error.offset or 1) - 1)}^\n" if shown.isprintable() and shown else "")
    frames = _frames(error, sources)
    message = "".join(traceback.format_exception_only(error)).strip().replace(f"{sources}{os.sep}", "")[:MESSAGE_LIMIT_CHARS]
    if not frames:
        return f"error: {message}\n"
    lines = [f"{_own(frames[-1].filename, sources)}:{frames[-1].lineno}: error: {message}\n"]
    lines += [f"  {_own(one.filename, sources)}:{one.lineno}, in {one.name}: {one.line}\n" for one in frames[-FRAME_COUNT:]]
    return "".join(lines)


def explain(error: Exception, sources: Path) -> None:
    """Let an exception say where in the submission it was raised; one that says something else than its arguments stays as it is."""
    if type(error).__str__ in (Exception.__str__, BaseException.__str__):
        error.args = (complaint(error, sources).strip(),)


def where(error: BaseException, sources: Path) -> str:
    """The last line of the submission that an exception went through, as `file:line`; "" for none."""
    frames = _frames(error, sources)
    return f"{_own(frames[-1].filename, sources)}:{frames[-1].lineno}" if frames else ""


def _frames(error: BaseException, sources: Path) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if _own(frame.filename, sources)]


def _is_own_function(module: ModuleType, value: object) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == module.__name__


def _own(filename: str | None, sources: Path) -> str:
    """The file's path as it was submitted; "" for one that was not."""
    prefix = f"{sources}{os.sep}"
    return (filename or "").removeprefix(prefix) if (filename or "").startswith(prefix) else ""
