"""Strict schemas, and the words for what pydantic finds wrong with a file or an option.  Quotes no value: some are secret."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict
from pydantic_core import ErrorDetails

_OWN = "Value error, "  # before what a validator of ours says
_NUMBERS = ("int_type", "float_type")


class StrictModel(BaseModel):
    """A table of a file: no unknown keys, and no conversions. "64" is no number, and a whole number is a float."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def describe(mistake: ErrorDetails, model: type[BaseModel] | None = None) -> str:
    """Return a mistake as a sentence, without its key. model: what the whole file is, whose keys are named where one is unknown."""
    if mistake["type"] == "extra_forbidden":
        keys = _keys(model, mistake["loc"][:-1]) if model is not None else []
        close = difflib.get_close_matches(str(mistake["loc"][-1]), keys, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"take one of: {', '.join(keys)}" if keys else "leave it out"
        return f"is not a key here; {remedy}"
    return mistake["msg"].removeprefix(_OWN) + _remedy(mistake["type"], mistake["input"])


def _keys(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    for part in place:
        if part in model.model_fields:
            model = _table(model.model_fields[str(part)].annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _table(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((table for argument in typing.get_args(annotation) if (table := _table(argument)) is not None), None)


def _remedy(kind: str, value: object) -> str:
    """Return what to do about a value of another type, where that is plain."""
    if kind == "bool_type":
        return "; write true or false"
    if kind in _NUMBERS and isinstance(value, str):
        return "; write it without quotes"
    if kind == "string_type" and isinstance(value, int | float):
        return "; write it in quotes"
    if kind == "int_type" and isinstance(value, float):
        return "; write a whole number, without a point"
    return ""
