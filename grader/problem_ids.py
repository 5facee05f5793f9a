"""Ids of problems that are read from other people's names.  Standard library only: the client uses it too."""

from __future__ import annotations

import re

ID_LIMIT_CHARS = 200  # an imported problem is kept in a file of its id


def slug(name: str) -> str:
    """The name in lower case letters, digits and `_`, at most ID_LIMIT_CHARS of them; "" where it has none."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:ID_LIMIT_CHARS]


def problem_id_of(name: str) -> str:
    """The id of the problem called name in its own set, such as a FlashInfer definition."""
    return slug(name) or "problem"
