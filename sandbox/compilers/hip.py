"""Recognises sources for AMD GPUs by what the compiler says of them: a header of HIP that is not there.  Pure."""

from __future__ import annotations

import re

SENTENCE = "HIP is for AMD GPUs, which this grader does not have; write the kernel in CUDA C++"
_MISSING_HEADER = re.compile(r"fatal error: (?:hip|rocm|rocwmma|hipcub|rocprim|ck)[/_][\w./]*: No such file")


def is_wanted(log: str) -> bool:
    """Whether a compilation failed because a source includes a header of HIP."""
    return _MISSING_HEADER.search(log) is not None
