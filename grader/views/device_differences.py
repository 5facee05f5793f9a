"""Says in one sentence which GPUs of a board are not equally fast.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grader.v1 import competition_pb2
from grader.views.sanitize import one_line


def sentence(found: Sequence[competition_pb2.DeviceDifference]) -> str:
    """The largest difference, and how many GPUs have one; "" where there is none."""
    if not found:
        return ""
    largest = max(found, key=lambda one: one.ratio)
    slower, faster, device = (one_line(text) for text in (largest.slower_gpu, largest.faster_gpu, largest.device))
    count = len({gpu for one in found for gpu in (one.slower_gpu, one.faster_gpu)})
    figures = f"…{slower} is {100 * (largest.ratio - 1):.1f} % slower than …{faster} (noise {100 * largest.noise:.1f} %)"
    return f"{count} GPUs of type {device} differ{', most of all these' if count > 2 else ''}: {figures}. Compare their entries with care."
