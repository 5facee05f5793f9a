"""Grades GPU kernels: `grader.grade(kernel, problem)`.  What is named here is imported when it is used; torch never is."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.python import CallInvalid, GraderClient, KernelInvalid, Problem, Result, SyncGraderClient, Unscored, agrade, grade

__all__ = ["CallInvalid", "GraderClient", "KernelInvalid", "Problem", "Result", "SyncGraderClient", "Unscored", "agrade", "grade"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'grader' has no attribute {name!r}")
    return getattr(import_module("grader.python"), name)
