"""Finds the line of a key in a TOML file, for errors.  Reads lines, not TOML: where it can't tell, it does not."""

from __future__ import annotations

import re
from pathlib import Path


def line_of(path: Path, key: tuple[str | int, ...]) -> int | None:
    """The line on which the key of a table, or of a table in an array of tables, is set; else that of the table."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    if not key:
        return None
    first, begin, end = str(key[0]), 0, len(lines)
    headers = [index for index, line in enumerate(lines) if re.match(r"\s*\[", line)]
    tables = [index for index in headers if re.match(rf"\s*\[\[\s*{re.escape(first)}\s*\]\]", lines[index])]
    if len(key) > 1 and isinstance(key[1], int) and key[1] < len(tables):
        begin = tables[key[1]]
        end = next((index for index in headers if index > begin and not _below(lines[index], first)), len(lines))
        found = _set_in(lines, begin + 1, end, str(key[2])) if len(key) > 2 else None
        return begin + 1 if found is None else found
    return _set_in(lines, 0, headers[0] if headers else len(lines), first)


def _below(header: str, table: str) -> bool:
    """Whether a header goes on with the table: `[secret.axes]` is of the `[[secret]]` before it."""
    return re.match(rf"\s*\[\s*{re.escape(table)}\.", header) is not None


def _set_in(lines: list[str], begin: int, end: int, key: str) -> int | None:
    pattern = re.compile(rf"\s*(\"{re.escape(key)}\"|{re.escape(key)})\s*[.=]|\s*\[.*\.{re.escape(key)}\s*\]")
    return next((index + 1 for index in range(begin, end) if pattern.match(lines[index])), None)
