"""Reports and facts that an earlier version stored are read, written and shown as that version did it.

`python -m tests.unit.test_recorded_reports` records what the present code does.
"""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from grader.api import conversion, messages
from grader.ledger import records
from grader.model import Event, Report
from grader.rules.disclosure import Redactor
from sandbox.protocol import wire
from tests import fakes
from tests.server import made_up_reports

PLACE = Path(__file__).parent / "recorded" / "reports.json.gz"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUBMISSION = fakes.submission(create_time=NOW)
HIDDEN = {"secret33": "hidden-1", "secret97": "hidden-2", made_up_reports.HIDDEN[0]: "hidden-3"}
REDACTORS = {"outside": Redactor(HIDDEN, "float32"), "competition": Redactor(HIDDEN, "float32", secret=True)}
REPORT = TypeAdapter(Report)
RECORDED = json.loads(gzip.decompress(PLACE.read_bytes())) if PLACE.exists() else {"reports": {}, "facts": {}}


def filled(hint: Any, numbers: Iterator[int], *, hidden: bool) -> Any:
    """A value of this type in which every field is set, each to another value."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Annotated, typing.Union, types.UnionType):
        return filled(arguments[0], numbers, hidden=hidden)
    if origin is tuple:
        parts = arguments[:1] * 2 if arguments[-1] is Ellipsis else arguments
        return tuple(filled(part, numbers, hidden=hidden) for part in parts)
    if origin is dict:
        return {f"key{next(numbers)}": filled(arguments[1], numbers, hidden=hidden)}
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        values = {field.name: filled(hints[field.name], numbers, hidden=hidden) for field in dataclasses.fields(hint)}
        return hint(**{name: hidden if name == "hidden" else value for name, value in values.items()})
    if issubclass(hint, StrEnum):
        return list(hint)[next(numbers) % len(hint)]
    plain: Mapping[Any, Any] = {int: next(numbers), float: next(numbers) + 0.5, str: f"t{next(numbers)}", bool: True}
    return plain[hint]


def shown(fact: wire.Fact, redactor: Redactor) -> Any:
    """An event of the fact, as a submitter gets it."""
    return conversion.to_data(messages.event_to_proto(Event(sequence=1, event_time=NOW, attempt=1, fact=fact), SUBMISSION, redactor))


def record() -> dict[str, Any]:
    """Reports and facts with all that they may have, and what is shown of them."""
    reports = {
        "fake": fakes.report(),
        "accepted": made_up_reports.accepted(2.5, sample_count=8),
        "mismatched": made_up_reports.mismatched(),
        "profiled": made_up_reports.profiled(),
        **{f"filled {hidden}": filled(Report, itertools.count(1000), hidden=hidden) for hidden in (False, True)},
    }
    facts = [filled(kind, itertools.count(5000), hidden=hidden) for kind in typing.get_args(wire.Fact) for hidden in (False, True)]
    facts += [*fakes.report().trials, *fakes.report().measurements]
    return {
        "reports": {
            name: {
                "stored": records.to_text(report),
                **{word: conversion.to_data(messages.report_to_proto(report, how, full=True)) for word, how in REDACTORS.items()},
            }
            for name, report in reports.items()
        },
        "facts": {
            f"{type(fact).__name__} {index}": {
                "stored": wire.encode(fact).decode(),
                **{word: shown(fact, how) for word, how in REDACTORS.items()},
            }
            for index, fact in enumerate(facts)
        },
    }


def without_retired(recorded: Any) -> Any:
    """Return the recorded report, or fact, without fields that are no longer read or shown."""
    if isinstance(recorded, dict):
        kind = wire.AccessCounts if "counted_blocks" in recorded else wire.MESSAGES.get(recorded.get("type", ""))
        return {key: without_retired(value) for key, value in recorded.items() if key not in wire.RETIRED.get(kind, ())}
    return [without_retired(part) for part in recorded] if isinstance(recorded, list) else recorded


def without_later(data: Any, recorded: Any) -> Any:
    """The data without keys that were not there when it was recorded."""
    if isinstance(recorded, dict):
        return {key: without_later(data[key], value) for key, value in recorded.items()}
    return [without_later(*pair) for pair in zip(data, recorded, strict=True)] if isinstance(recorded, list) else data


@pytest.mark.parametrize("name", RECORDED["reports"])
def test_a_recorded_report_is_stored_and_shown_as_it_was(name):
    """A field that came later is at its default, and shows nothing."""
    recorded = RECORDED["reports"][name]
    report = REPORT.validate_python(json.loads(recorded["stored"]))
    expected = without_retired(json.loads(recorded["stored"]))
    assert json.dumps(without_later(json.loads(records.to_text(report)), expected)) == json.dumps(expected)
    for word, redactor in REDACTORS.items():
        assert conversion.to_data(messages.report_to_proto(report, redactor, full=True)) == without_retired(recorded[word])


@pytest.mark.parametrize("name", RECORDED["facts"])
def test_a_recorded_fact_is_stored_and_shown_as_it_was(name):
    recorded = RECORDED["facts"][name]
    fact = wire.decode(recorded["stored"].encode())
    expected = without_retired(json.loads(recorded["stored"]))
    assert json.dumps(without_later(json.loads(wire.encode(fact)), expected)) == json.dumps(expected)
    for word, redactor in REDACTORS.items():
        assert shown(fact, redactor) == without_retired(recorded[word])


if __name__ == "__main__":
    PLACE.write_bytes(gzip.compress(json.dumps(record()).encode(), mtime=0))
