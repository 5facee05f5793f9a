"""Tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable


def csv_text(*rows: Iterable[object]) -> str:
    """Write rows, a line each."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()
