"""Puts into words what pydantic found wrong with a file or an option.  Quotes no value: some are secret."""

from __future__ import annotations

from pydantic_core import ErrorDetails

_OWN = "Value error, "  # before what a validator of ours says


def said(mistake: ErrorDetails) -> str:
    """One mistake as a sentence, without its key."""
    return mistake["msg"].removeprefix(_OWN)
