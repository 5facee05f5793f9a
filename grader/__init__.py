"""Grades GPU kernels: `grader.grade(kernel, problem)`.  What is named here is imported when it is used, and torch never."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.api.client import GraderClient as GraderClient
    from grader.python.background import SyncGraderClient as SyncGraderClient
    from grader.python.calls import agrade as agrade
    from grader.python.calls import grade as grade
    from grader.python.failures import CallInvalid as CallInvalid
    from grader.python.failures import KernelInvalid as KernelInvalid
    from grader.python.failures import Unscored as Unscored
    from grader.python.results import Result as Result

_EXPORTS = {
    "CallInvalid": "grader.python.failures:CallInvalid",
    "GraderClient": "grader.api.client:GraderClient",
    "KernelInvalid": "grader.python.failures:KernelInvalid",
    "Result": "grader.python.results:Result",
    "SyncGraderClient": "grader.python.background:SyncGraderClient",
    "Unscored": "grader.python.failures:Unscored",
    "agrade": "grader.python.calls:agrade",
    "grade": "grader.python.calls:grade",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'grader' has no attribute {name!r}")
    module, _, attribute = _EXPORTS[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
