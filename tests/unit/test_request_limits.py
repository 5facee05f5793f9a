"""Every field of every request has a limit that holds before anything walks it: one call of 8 million states once took 1.6 GB."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from grader.api.conversion import from_enum
from grader.api.resource_names import NAME_LIMIT_BYTES, PROBLEMS, parse, parse_artifact
from grader.errors import InvalidRequest, ProblemNotFound
from grader.fleet.v1 import fleet_pb2
from grader.model import SubmissionState
from grader.problems.store import Problems
from grader.server import request_limits
from grader.server.request_limits import CHECKED_APART, IGNORED, check_fields, check_size, message_bytes
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2
from tests.unit.step_counts import call_steps

METHODS = api.DESCRIPTOR.services_by_name["GraderService"].methods
ATTACH = fleet_pb2.AttachRequest.DESCRIPTOR  # of workers, which have certificates
PROTO = Path(__file__).parents[2] / "proto"
REQUESTS = {descriptor.full_name: descriptor for descriptor in (*(method.input_type for method in METHODS), ATTACH)}
FieldPath = tuple[FieldDescriptor, ...]


def fields(descriptor: Descriptor, before: FieldPath = ()) -> Iterator[FieldPath]:
    """The paths of all lists, maps and texts below a message."""
    assert descriptor.full_name.startswith(("grader.", "google.protobuf."))
    for field in descriptor.fields:
        if field.full_name in IGNORED or field in before:
            continue
        path = (*before, field)
        if field.is_repeated or field.type == field.TYPE_STRING:
            yield path
        if field.message_type is not None and not is_map(field):
            yield from fields(field.message_type, path)


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def value_of(field: FieldDescriptor, size: int = 0) -> Any:
    return "x" * size if field.type == field.TYPE_STRING else 1


def filled(descriptor: Descriptor, path: FieldPath, size: int) -> Message:
    """A message in which the field at the end of a path has this many elements, or this many bytes."""
    message = target = GetMessageClass(descriptor)()
    for field in path[:-1]:
        target = getattr(target, field.name).add() if field.is_repeated else getattr(target, field.name)
    field = path[-1]
    place = getattr(target, field.name)
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for number in range(size):
            place[str(number) if key.type == key.TYPE_STRING else number] = value_of(value)
    elif field.message_type is not None:
        for _ in range(size):
            place.add()
    elif field.is_repeated:
        place.extend([value_of(field)] * size)
    else:
        setattr(target, field.name, value_of(field, size))
    return message


def limit_of(field: FieldDescriptor) -> int:
    if field.is_repeated:
        return request_limits.COUNT_OF.get(field.full_name, request_limits.COUNT)
    return request_limits.TEXT_BYTES_OF.get(field.full_name, request_limits.TEXT_BYTES)


CASES = [
    (name, path)
    for name, descriptor in REQUESTS.items()
    for path in fields(descriptor)
    if path[-1].full_name == CHECKED_APART or CHECKED_APART not in [field.full_name for field in path]
]


@pytest.mark.parametrize(("name", "path"), CASES, ids=[f"{name}-{'.'.join(field.name for field in path)}" for name, path in CASES])
def test_every_list_and_text_of_a_request_has_a_limit(name: str, path: FieldPath) -> None:
    """Also one that was added to the proto today. The control: at the limit it passes."""
    limit = limit_of(path[-1])
    check_fields(filled(REQUESTS[name], path, limit))
    with pytest.raises(InvalidRequest) as refused:
        check_fields(filled(REQUESTS[name], path, limit + 1))
    [violation] = refused.value.violations
    assert re.sub(r"\[0\]", "", violation.field) == ".".join(field.name for field in path)
    assert str(limit) in violation.description and str(limit + 1) in violation.description


def test_the_parts_of_an_entry_of_a_map_have_limits() -> None:
    """The control is at the limit."""
    limit = request_limits.TEXT_BYTES
    for entry in ({"k" * (limit + 1): ""}, {"": "v" * (limit + 1)}):
        with pytest.raises(InvalidRequest, match=r"submission.annotations\[0\]: has 8193 bytes"):
            check_fields(api.SubmitRequest(submission=submission_pb2.Submission(annotations=entry)))
    check_fields(api.SubmitRequest(submission=submission_pb2.Submission(annotations={"k" * limit: "v" * limit})))


def test_what_is_ignored_is_output_only() -> None:
    """So that a client may send a submission back as it came. The control: none of it is read from a request."""
    text = "".join(path.read_text() for path in (PROTO / "grader/v1").glob("*.proto"))
    for full_name in IGNORED:
        body = text[text.index(f"\nmessage {full_name.split('.')[2]} {{") :]
        comment = re.search(rf"((?:  // [^\n]*\n)+)  [\w. ]+ {full_name.split('.')[3]} = \d+;", body)
        assert comment is not None and "Output only" in comment[1], full_name
    sent = api.SubmitRequest()
    for _ in range(request_limits.COUNT + 1):
        sent.submission.report.trials.add()
    check_fields(sent)


@pytest.mark.parametrize("method", [method.name for method in METHODS])
def test_only_methods_with_sources_or_many_names_take_more_than_64_kib(method: str) -> None:
    """Before the message is read. The control: at the limit it is."""
    limit, name = message_bytes(method), f"/grader.v1.GraderService/{method}"
    assert limit == 64 * 1024 or method in request_limits.MESSAGE_BYTES_OF
    check_size(limit, name)
    with pytest.raises(InvalidRequest, match=f"request: has {limit + 1} bytes; {method} takes at most {limit}"):
        check_size(limit + 1, name)


def test_what_is_named_here_is_there() -> None:
    """A limit of a field or method that was renamed would be none."""
    assert request_limits.MESSAGE_BYTES_OF.keys() <= {method.name for method in METHODS}
    names = {field.full_name for _, path in CASES for field in path}
    assert {*request_limits.TEXT_BYTES_OF, *request_limits.COUNT_OF, CHECKED_APART} <= names


def test_a_long_list_is_refused_without_a_walk() -> None:
    """As many steps for a hundred times as many states. The control: to read them all takes a hundred times the steps."""
    short, long = (api.ListSubmissionsRequest(states=[3] * size) for size in (2_000, 200_000))

    def refuse(request: api.ListSubmissionsRequest) -> None:
        with suppress(InvalidRequest):
            check_fields(request)

    def read(states: list[int]) -> None:
        for state in states:
            from_enum(SubmissionState, submission_pb2.SubmissionState.DESCRIPTOR, state)

    assert abs(call_steps(lambda: refuse(long)) - call_steps(lambda: refuse(short))) < 20
    assert call_steps(lambda: read(short.states)) > 9 * call_steps(lambda: read(short.states[:200]))


def test_a_name_has_a_limit_where_it_is_parsed() -> None:
    """Also of pages. The control is the longest name that may be."""
    for call in (lambda name: parse(PROBLEMS, name), parse_artifact):
        with pytest.raises(InvalidRequest) as refused:
            call("problems/" + "a" * 8_000_000)
        assert len(str(refused.value)) < 400
    longest = "problems/" + "a" * (NAME_LIMIT_BYTES - 9)
    assert len(parse(PROBLEMS, longest)) == NAME_LIMIT_BYTES - 9
    with pytest.raises(InvalidRequest, match="name: has 301 bytes; a resource name has at most 300"):
        parse(PROBLEMS, longest + "a")
    with pytest.raises(ProblemNotFound):
        Problems().get("é" * 8_000)
