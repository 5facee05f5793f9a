"""Lets a module be imported that also plots and times itself: plotting libraries that are not installed do nothing, and Triton's reports
of benchmarks are not run.  The grader measures, and nobody sees a plot."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, ModuleType
from typing import Any

PLOTTING = frozenset(("matplotlib", "seaborn", "plotly", "pandas", "PIL", "IPython"))
Remark = Callable[[str], None]


def install(text: str, remark: Remark = lambda sentence: None) -> None:
    """Before a submission is imported, until the process ends. text: the module's; remark: is called with what its author should know."""
    sys.meta_path.append(_Finder(remark))
    if "perf_report" in text:
        with contextlib.suppress(ImportError):
            mark: Any = importlib.import_module("triton.testing").Mark

            def run(self: Any, *arguments: object, **named: object) -> object:
                remark(f"{getattr(self.fn, '__name__', 'benchmark')}.run was not run: the grader measures times itself")
                return _Nothing() if named.get("return_df") else None

            mark.run = run


def answer_for_gpu(text: str, architecture: str) -> None:
    """Let torch name the architecture of the GPU that a module will run on, such as "sm_90", where it is built and no GPU is: what it
    compiles next may depend on that. All else that it asks of a GPU fails there as ever."""
    digits = architecture.removeprefix("sm_").rstrip("af")
    if "torch" in text and digits.isdigit():
        torch: Any = importlib.import_module("torch")
        torch.cuda.get_device_capability = lambda device=None: (int(digits[:-1]), int(digits[-1]))


class _Finder(importlib.abc.MetaPathFinder):
    """Comes last, so that a library which is installed is taken; and only for imports of the submission: others can do without."""

    def __init__(self, remark: Remark) -> None:
        self._remark = remark

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        library, _, part = fullname.partition(".")
        if library not in PLOTTING:
            return None
        wanted = isinstance(sys.modules.get(library), _Library) if part else not _by_an_installed_module(sys._getframe(1))
        if not wanted:
            return None
        if not part:
            self._remark(f"{library} is not installed here: what it is asked for is not done")
        return importlib.machinery.ModuleSpec(fullname, _EmptyLoader(), is_package=True)


class _EmptyLoader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Library(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to execute."""


class _Library(ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        return _attribute(name)


class _Nothing:
    """Can be called, read, written and entered, and does nothing."""

    __call__ = __getitem__ = __enter__ = lambda self, *arguments, **named: self
    __setitem__ = __exit__ = lambda self, *arguments: None

    def __init__(self, *arguments: object, **named: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return _attribute(name)

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[object]:
        return iter(())


def _attribute(name: str) -> Any:
    if name.startswith("__"):  # asked by what looks at every module
        raise AttributeError(name)
    # `figure, axes = plt.subplots()` is how a plot begins.
    return (lambda *arguments, **named: (_Nothing(), _Nothing())) if name == "subplots" else _Nothing()


def _by_an_installed_module(frame: FrameType | None) -> bool:
    """Return whether the code that imports lies where packages are installed."""
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    installed = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return frame is not None and frame.f_code.co_filename.startswith(installed)
