"""verifiers: a taskset of the grader's problems, and a tool to try kernels with."""

from grader_kernels.taskset import GraderTaskset

__all__ = ["GraderTaskset"]
