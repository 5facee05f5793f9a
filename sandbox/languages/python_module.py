"""A submitted Python module: what in it is the kernel, and how its errors read.

The same in the build box, where it is imported to compile what it compiles, and in the run box.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from sandbox.languages.python_extensions import Extension, Loader
from sandbox.protocol.python_archive import MODULES

MODEL, FUNCTIONS = "ModelNew", ("custom_kernel", "run", "solution")
LISTED_COUNT = 12
FRAME_COUNT, MESSAGE_LIMIT_CHARS = 6, 4000


class NoEntry(Exception):
    """The module has no function that is surely the kernel; the sentence says what to do."""


def install_extensions(text: str, provide: Callable[[Extension], Path]) -> None:
    """Answer `load_inline` and `load` by `provide`. Torch's module of them takes a while to import, so only for a text that names it."""
    if names_extensions(text):
        Loader(provide).install()


def names_extensions(text: str) -> bool:
    """Whether a module may compile extensions."""
    return "cpp_extension" in text


def entries(wanted: str) -> tuple[str, ...]:
    """The names that an entry may have, best first."""
    return (wanted, MODEL, *FUNCTIONS)


def find_entry(module: ModuleType, wanted: str) -> Any:
    """The function or class that is the kernel: by its usual names, or as the only one that it can be."""
    for name in entries(wanted):
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
    """The file's path as it was submitted, or the name of a file of the problem; "" for any other."""
    for part in (sources, sources.parent / MODULES):
        prefix = f"{part}{os.sep}"
        if (filename or "").startswith(prefix):
            return (filename or "").removeprefix(prefix)
    return ""
