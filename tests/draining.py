"""Values that a generator yields, and the value that it returns."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

Yielded = TypeVar("Yielded")
Returned = TypeVar("Returned")


def drained(generator: Generator[Yielded, Any, Returned]) -> tuple[list[Yielded], Returned]:
    """Everything that it yields, and its value."""
    messages = []
    while True:
        try:
            messages.append(next(generator))
        except StopIteration as end:
            return messages, end.value
