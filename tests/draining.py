"""Values that a generator yields, and the value that it returns."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

Said = TypeVar("Said")
Returned = TypeVar("Returned")


def drained(generator: Generator[Said, Any, Returned]) -> tuple[list[Said], Returned]:
    """Everything that it yields, and its value."""
    messages = []
    while True:
        try:
            messages.append(next(generator))
        except StopIteration as end:
            return messages, end.value
