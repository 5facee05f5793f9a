"""The modes of a submission.  A module of its own: the command line needs them, and no message."""

from enum import StrEnum


class Mode(StrEnum):
    """How far a submission is graded."""

    TEST = "test"
    BENCHMARK = "benchmark"
    RANKED = "ranked"
    PROFILE = "profile"
    SWEEP = "sweep"  # each workload by itself, whatever became of the others; never scored
    SANITIZE = "sanitize"  # as TEST, and a sanitizer looks at the kernel, whatever its verdict is
