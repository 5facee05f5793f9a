"""Puts into words what pydantic found wrong with a file or an option.  Quotes no value: some are secret."""

from __future__ import annotations

from pydantic_core import ErrorDetails

_OWN = "Value error, "  # before what a validator of ours says
_NUMBERS = ("int_type", "float_type")


def describe(mistake: ErrorDetails) -> str:
    """One mistake as a sentence, without its key."""
    return mistake["msg"].removeprefix(_OWN) + _remedy(mistake["type"], mistake["input"])


def _remedy(kind: str, given: object) -> str:
    """What to do about a value of another type, where that is plain."""
    if kind == "bool_type":
        return "; write true or false"
    if kind in _NUMBERS and isinstance(given, str):
        return "; write it without quotes"
    if kind == "string_type" and isinstance(given, int | float):
        return "; write it in quotes"
    if kind == "int_type" and isinstance(given, float):
        return "; write a whole number, without a point"
    return ""
