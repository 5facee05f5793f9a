"""Dataclasses to protobuf messages and enums, field by field of the message; and messages to JSON for programs.  Pure.

A field takes the attribute of its name. Times become `Timestamp`, `x_ns` and `x_s` become the `Duration` `x_duration`, `x_id` becomes the
full name of a resource, and nested dataclasses become nested messages. None leaves a field unset.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2  # noqa: F401  Submission.error holds details of its types; JSON is written only of loaded ones

from grader.api.resource_names import COMPETITIONS, PROBLEMS, REJUDGES, SUBMISSIONS, full_name

M = TypeVar("M", bound=Message)
E = TypeVar("E", bound=StrEnum)
Convert = Callable[[Any], Any]

# Attributes that fields take where the names differ.
SCORE = {"score": "score.value", "score_low": "score.low", "score_high": "score.high"}
ATTRIBUTES = {
    "Submission": {"name": "submission_id", **SCORE},
    "Judgement": SCORE,
    "LeaderboardEntry": SCORE,
    "Problem": {"name": "problem_id"},
    "Competition": {"name": "competition_id"},
    "Rejudge": {"name": "rejudge_id"},
    "Leaderboard": {"freeze_time": "before"},
    "CompetitionAction": {"action": "kind"},
    "Build": {"build_duration": "duration_ns"},
    "Trial": {"run_duration": "duration_ns"},
    "KernelLaunch": {"total_duration": "duration_ns"},
}
# The collections that ids belong to.
COLLECTIONS = {
    **{"problem_id": PROBLEMS, "problem_ids": PROBLEMS, "competition_id": COMPETITIONS, "rejudge_id": REJUDGES, "sizes_of": REJUDGES},
    **dict.fromkeys(("submission_id", "submission_ids", "parent_id", "cached_from"), SUBMISSIONS),
}


class FieldWithoutSource(Exception):
    """Fields of a message that no attribute fills, and that the caller does not name either."""


def to_message(kind: type[M], *sources: object, omit: frozenset[str] = frozenset(), **values: Any) -> M:
    """Make a message of the first source that has the attribute of each field. values: fields that are computed; None leaves the field
    unset. omit: attributes that must not be shown."""
    row = _attributes(kind.DESCRIPTOR, tuple(type(source) for source in sources), frozenset(values))
    shown = ((field, convert(_value(sources[index], path))) for field, index, path, convert in row if path[0] not in omit)
    return kind(**values, **dict(shown))


def to_data(message: Message) -> dict[str, Any]:
    """Convert a message to what JSON is written of: proto field names, enums by name, 64-bit integers as strings. TypeError or
    SerializeToJsonError where it holds a type that is not known here."""
    data: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return data


def to_text(data: dict[str, Any], *, indent: int | None = None) -> str:
    """The JSON, on one line where there is no indent. Keys are sorted, so that the same message gives the same bytes."""
    return json.dumps(data, sort_keys=True, indent=indent, separators=(",", ":") if indent is None else None)


def duration(duration_ns: float | None) -> Duration | None:
    """Make a message of nanoseconds; None stays None."""
    if duration_ns is None:
        return None
    message = Duration()
    message.FromNanoseconds(round(duration_ns))
    return message


def from_enum(kind: type[E], enum: EnumDescriptor, number: int) -> E:
    """Return the member that a value of the API's enum names. Raises ValueError where there is none."""
    name = enum.values_by_number[number].name if number in enum.values_by_number else ""
    member: E | None = kind.__members__.get(name.removeprefix(_prefix(enum)))
    if member is None:
        raise ValueError(f"{number} is not a {enum.name}")
    return member


@functools.cache
def _attributes(message: Descriptor, types: Sequence[type], computed: frozenset[str]) -> tuple[tuple[str, int, list[str], Convert], ...]:
    """Find field, source, attribute and conversion of each field that is not computed."""
    row, missing = [], []
    fields: Sequence[Any] = message.fields
    for field in fields:
        if field.name in computed:
            continue
        stem = field.name.removesuffix("_duration")
        renamed = ATTRIBUTES.get(message.name, {}).get(field.name)
        names = (
            (renamed,) if renamed else (field.name, f"{field.name}_id", f"{field.name.removesuffix('s')}_ids", f"{stem}_ns", f"{stem}_s")
        )
        places = ((index, name) for name in names for index, source in enumerate(types) if hasattr(source, name.partition(".")[0]))
        index, path = next(places, (0, ""))
        if path:
            row.append((field.name, index, path.split("."), _conversion(field, path)))
        else:
            missing.append(field.name)
    if missing:
        raise FieldWithoutSource(f"{message.name}: {', '.join(missing)}")
    return tuple(row)


def _value(source: object, path: list[str]) -> Any:
    for name in path:
        source = getattr(source, name) if source is not None else None
    return source


def _conversion(field: FieldDescriptor, path: str) -> Convert:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        convert = _element(field.message_type.fields_by_name["value"], path)
        return lambda mapping: {key: convert(value) for key, value in mapping.items()}
    convert = _element(field, path)
    if field.is_repeated:
        return lambda elements: [convert(element) for element in elements]
    return lambda value: None if value is None else convert(value)


def _element(field: FieldDescriptor, path: str) -> Convert:
    if field.enum_type is not None:
        prefix = _prefix(field.enum_type)
        return lambda member: f"{prefix}{member.name}"
    if field.message_type is not None:
        if field.message_type.full_name == Duration.DESCRIPTOR.full_name and path.endswith(("ns", "_s")):
            return duration if path.endswith("ns") else lambda seconds: duration(seconds * 1e9)
        if field.message_type.full_name in (Timestamp.DESCRIPTOR.full_name, Duration.DESCRIPTOR.full_name):
            return lambda time: time  # protobuf converts datetime and timedelta
        kind = GetMessageClass(field.message_type)
        return lambda source: to_message(kind, source)
    if (collection := COLLECTIONS.get(path)) is not None:
        return lambda name: full_name(collection, name)
    return lambda value: value


def _prefix(enum: EnumDescriptor) -> str:
    return enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
