"""How a build ended: what the builder's exit code says, and what it leaves."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Not 1 nor 2, with which an interpreter ends that could not even begin: that is no verdict.
# IMPORT_FAILED: a Python module could not be imported. Another build of it may end otherwise, so nobody remembers this one.
BUILT, UNSUPPORTED, ENTRY_NOT_FOUND, BROKEN, IMPORT_FAILED, REJECTED = 0, 3, 4, 5, 6, 7
HIP_SENTENCE = "HIP is for AMD GPUs, which this grader does not have; write the kernel in CUDA C++"
MISSING_HIP_HEADER = re.compile(r"fatal error: (?:hip|rocm|rocwmma|hipcub|rocprim|ck)[/_][\w./]*: No such file")


class Unsupported(Exception):
    """A submission uses what the device lacks. path, line: where; sentence: what, and what to do."""

    def __init__(self, path: str, line: int, sentence: str) -> None:
        self.path = path
        self.line = line
        self.sentence = sentence
        super().__init__(f"{path}:{line}: {sentence}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildAttempt:
    """How a build ended, with one kind of headers. code: one of the above but BROKEN; artifact: None unless BUILT; lacks_entry: all was
    compiled and linked, and nothing was left out of it."""

    code: int
    log: str
    artifact: bytes | None = None
    lacks_entry: bool = False


def spoiled(error: Exception) -> BuildAttempt:
    """Return the result of a build that failed once the submission had run in its box: that is the submission's doing."""
    sentence = f"the submission left the build box unusable when it was imported: {type(error).__name__}: {error}"
    return BuildAttempt(code=IMPORT_FAILED, log=f"error: {sentence}\n")
