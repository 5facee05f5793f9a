"""Grading as a call of Python, over the client and the server that commands use; `grader` has the same names.

A kernel's fault is a `Result`; every other end is an exception below `Unscored`, so that none can become a reward.
"""

from grader.api.client import GraderClient
from grader.python.background import SyncGraderClient
from grader.python.calls import agrade, grade
from grader.python.functions import FunctionProblem as Problem
from grader.python.results import CallInvalid, KernelInvalid, Result, Unscored

__all__ = ["CallInvalid", "GraderClient", "KernelInvalid", "Problem", "Result", "SyncGraderClient", "Unscored", "agrade", "grade"]
