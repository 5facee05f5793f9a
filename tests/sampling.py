"""Long lists of cases, of which every test run takes a part, always the same; `make test-all` takes all."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest


def every(nth: int, cases: Iterable[tuple[str, Any]], marks: Iterable[pytest.MarkDecorator] = ()) -> list[Any]:
    """Parameters of these names; those that are not in the part are marked `exhaustive`. The part depends on the names alone."""
    return [
        pytest.param(case, id=name, marks=[*marks, *([] if zlib.crc32(name.encode()) % nth == 0 else [pytest.mark.exhaustive])])
        for name, case in cases
    ]
