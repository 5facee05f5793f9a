"""Finds what a compiler said of a source's lines in its log.  Pure.  The log is untrusted: it may name any file and any line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from grader.views.sanitize import one_line

REMARKS_OF_LINE, REMARKS = 8, 500
_LINE_CHARS = 2_000
# nvcc: `kernel.cu(12): warning #177-D: ...`; g++ and clang: `kernel.cu:12:5: error: ...`; Python: `File "kernel.py", line 12`.
_PLACES = (
    re.compile(r"^(?P<path>[^\s():\"]{1,200})\((?P<line>\d{1,7})\): (?P<words>.+)$"),
    re.compile(r"^(?P<path>[^\s():\"]{1,200}):(?P<line>\d{1,7})(?::\d{1,7})?: (?P<words>.+)$"),
    re.compile(r"^\s*File \"(?P<path>[^\"]{1,200})\", line (?P<line>\d{1,7})(?P<words>.*)$"),
)


def remarks_by_line(log: str, remarks: Iterable[str], paths: Sequence[str]) -> dict[str, dict[int, list[str]]]:
    """What is said of each line, by the source's path and the line's number from 1; at most REMARKS of it."""
    found: dict[str, dict[int, list[str]]] = {path: defaultdict(list) for path in paths}
    count = 0
    for text in (*log.split("\n"), *remarks):
        if count >= REMARKS:
            break
        match = next((match for place in _PLACES if (match := place.match(text[:_LINE_CHARS]))), None)
        path = _source(match["path"], paths) if match else None
        if match is None or path is None:
            continue
        of_line = found[path][int(match["line"])]
        words = one_line(match["words"].strip(" ,"))
        if words and words not in of_line and len(of_line) < REMARKS_OF_LINE:
            of_line.append(words)
            count += 1
    return found


def _source(named: str, paths: Sequence[str]) -> str | None:
    """The source that a compiler names: by its own path, or below the directory that it was built in."""
    return next((path for path in paths if named == path or named.endswith(f"/{path}")), None)
