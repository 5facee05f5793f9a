"""The languages of submissions: what server, judge and box have to know of each.  Data and text rules; builds and loads nothing.

A language is one module that builds and loads kernels (see `sandbox/languages/__init__.py` for what it promises) and one `LanguageInfo`.
Those of this package are in BUILT_IN. An installed package adds its own with an entry point of the group `grader.languages`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sandbox.protocol.entry_points import load_named

GROUP = "grader.languages"
C_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx")
CUDA_SUFFIXES = (".cu", ".cu.cpp", ".cu.cc", ".cu.cxx")  # of what the device's compiler gets


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageInfo:
    """A language of submissions.

    module: the module that builds and loads it, imported in boxes only. suffixes: of its files. marker: tells it from another language
    with the same suffixes; None: it is the one that remains. file_limit: how many files a submission may have; 0: no limit of its own.
    is_c: comments are removed before marker and missing_entry see the text. missing_entry(text, entry): what to do about an entry point
    that is surely not there, or None. returns_outputs: kernels return their outputs, which are then copied to where the judge looks.
    needs_torch: the runner imports torch before there is a job. takes_modules: submissions can import the problem's modules.
    """

    name: str
    module: str
    suffixes: tuple[str, ...]
    marker: re.Pattern[str] | None = None
    file_limit: int = 0
    is_c: bool = False
    missing_entry: Callable[[str, str], str | None] = lambda text, entry: None
    returns_outputs: bool = False
    needs_torch: bool = False
    takes_modules: bool = False


@lru_cache(maxsize=1)
def languages() -> Mapping[str, LanguageInfo]:
    """All languages by name: the built-in ones and those of installed packages. EntryPointInvalid for a wrong one."""
    return load_named(GROUP, LanguageInfo, BUILT_IN)


def module_of(language: str) -> str:
    """The module of a language that another package brings; "" for the built-in ones, which a box finds by name."""
    info = languages().get(language)
    return "" if info is None or info in BUILT_IN else info.module


_REGISTERS_MODULE = re.compile(r"PYBIND11_|TORCH_LIBRARY|TORCH_EXTENSION_NAME|PyInit_|PyModuleDef|pybind11")
# With these a name may be made of parts, or linked without being spelled: say nothing then.
_MAKES_NAMES = re.compile(r"##|%:%:|\basm\b|__asm")
# Without one of these no name comes into being; what does not even parse has them in most cases, and the builder has the line.
_MAKES_PYTHON_NAMES = re.compile(r"\b(?:def|class|import|for|with|exec|eval|globals|locals|vars|setattr|del)\b|=")


def _missing_cuda_entry(text: str, entry: str) -> str | None:
    if _MAKES_NAMES.search(text):
        return None
    if not re.search(rf"\b{re.escape(entry)}\b", text):
        return f'nothing is named {entry!r}; define the function `extern "C" void {entry}(...)`, or set `entry` to the name that yours has'
    if '"C"' not in text:
        return f'{entry!r} has no C linkage, so it can not be found by name; declare it `extern "C"`'
    return None


def _missing_torch_entry(text: str, entry: str) -> str | None:
    if _MAKES_NAMES.search(text) or _REGISTERS_MODULE.search(text):
        return None
    return (
        'no Python module is registered; add `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }`, '
        'or set `language` to `cuda` for a plain `extern "C"` function'
    )


def _missing_python_entry(text: str, entry: str) -> str | None:
    if _MAKES_PYTHON_NAMES.search(text):
        return None
    return f"the module defines nothing; define a function `{entry}` that takes the inputs and returns the outputs, or a class `ModelNew`"


BUILT_IN = (
    LanguageInfo(
        name="torch_extension",
        module="sandbox.languages.torch_extension",
        suffixes=C_SUFFIXES,
        marker=re.compile(_REGISTERS_MODULE.pattern + r"|torch/extension\.h"),
        is_c=True,
        missing_entry=_missing_torch_entry,
        returns_outputs=True,
        needs_torch=True,
    ),
    LanguageInfo(name="cuda", module="sandbox.languages.cuda", suffixes=C_SUFFIXES, is_c=True, missing_entry=_missing_cuda_entry),
    LanguageInfo(
        name="python",
        module="sandbox.languages.python",
        suffixes=(".py",),
        takes_modules=True,
        missing_entry=_missing_python_entry,
        returns_outputs=True,
        needs_torch=True,
    ),
)
