"""Directives: lines `// grader: key=value ...`, or `# grader: ...`, by which a source says how it is built and called. Pure.

A value ends at the next key, so it may have spaces. Servers read hostile text by these patterns: both take linear time.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"^[ \t]*(?://|#)[ \t]*grader:(.*)", re.MULTILINE)
_KEY = re.compile(r"(?:^|[ \t])(arguments|destination|flags|problem)=")


def directives_of(text: str, key: str) -> list[str]:
    """Return the values that the directives of a source give a key, in their order."""
    fields = [_KEY.split(line) for line in _LINE.findall(text)]
    return [value.strip() for parts in fields for name, value in zip(parts[1::2], parts[2::2], strict=True) if name == key]
