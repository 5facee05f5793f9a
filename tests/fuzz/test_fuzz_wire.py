"""The wire: what was written is read back, and every other line is a WireError."""

from __future__ import annotations

import json
import typing
from dataclasses import replace
from typing import Any

from hypothesis import example, find, given
from hypothesis import strategies as st

from grader.api.messages import report_to_proto
from grader.grading.pipeline import read_note
from grader.model import Report, Verdict
from grader.rules.disclosure import Redactor
from sandbox.protocol import wire
from tests.fuzz import values

DEEP = wire.AdmissionJob(
    job_id="x",
    problem=wire.ProblemSpec(
        problem_id="p",
        format="native",
        entry="solve",
        inputs=(wire.TensorSpec(name="a", dtype="float32", shape=("n", 2)),),
        outputs=(),
        workloads=(wire.Workload(workload_id="w", axes={"n": 1}, tolerance=wire.Tolerance()),),
        tolerance=wire.Tolerance(),
        reference="",
    ),
)


def nested_distributions(depth: int) -> dict[str, Any]:
    """An AdmissionJob with parts in parts."""
    data: dict[str, Any] = json.loads(wire.encode(DEEP))
    data["problem"]["inputs"][0]["distribution"] = values.nested(depth, "parts", {})
    holder = data["problem"]["inputs"][0]["distribution"]
    for _ in range(depth - 1):  # a part is in a list
        holder["parts"] = [holder["parts"]]
        holder = holder["parts"][0]
    holder["parts"] = []
    return data


def lines() -> st.SearchStrategy[bytes]:
    """Lines that are messages, were messages, or never were."""
    whole = st.sampled_from(values.WIRE_CLASSES).flatmap(values.wire_messages).map(wire.encode).map(json.loads)
    changed = whole.flatmap(values.mutated).map(lambda data: json.dumps(data).encode())
    doubled = whole.map(lambda data: json.dumps(data)[:-1].encode() + b',"type":"Job","type":"Finished","job_id":1}')
    cut = whole.flatmap(lambda data: values.garbled(json.dumps(data))).map(lambda text: text.encode("utf-8", "surrogatepass"))
    parts = st.sampled_from((3, 50, 150, 240, 300, 900)).map(lambda depth: json.dumps(nested_distributions(depth)).encode())
    typed = st.builds(lambda kind, value: json.dumps({"type": kind, **value}), st.sampled_from(sorted(wire.MESSAGES)), objects())
    return st.one_of(parts, changed, doubled, cut, typed.map(str.encode), st.binary(max_size=40), st.binary(max_size=20).map(_wide))


def objects() -> st.SearchStrategy[dict[str, Any]]:
    names = sorted({name for kind in values.WIRE_CLASSES for name in typing.get_type_hints(kind)})
    return st.dictionaries(st.sampled_from(names), values.hostile_values(), max_size=4)


def _wide(data: bytes) -> bytes:
    return data.decode("latin-1").encode("utf-16")


@given(st.sampled_from(values.WIRE_CLASSES).flatmap(values.wire_messages))
def test_every_message_survives_the_wire(message: object) -> None:
    """By its bytes, for NaN is not equal to itself."""
    line = wire.encode(message)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert wire.encode(wire.decode(line)) == line


@given(lines())
# Found: what no float holds was an OverflowError, and what nests deeper than our reader follows a RecursionError.
@example(b'{"type":"Environment","device":"","device_kind":"","clock":"host","ceilings":{"x":1' + b"0" * 400 + b"}}")
@example(json.dumps(nested_distributions(300)).encode())
def test_a_line_is_a_message_or_a_wire_error(line: bytes) -> None:
    """Whatever it is; and what was read can be written."""
    try:
        message = wire.decode(line)
    except wire.WireError as error:
        str(error).encode("utf-8", "backslashreplace")
        return
    wire.encode(message)


@given(lines())
@example(json.dumps(nested_distributions(300)).encode())
def test_a_note_of_the_builder_never_stops_the_server(line: bytes) -> None:
    """The note comes out of a box in which a stranger's code was compiled."""
    note = read_note(line)
    assert len(note.fallback) < 10_000 and len(note.kernels) < 10_000


def test_these_lines_break_a_careless_reader() -> None:
    """The control: a reader that knows of wrong JSON, but not of numbers and depths that Python can't hold, ends otherwise."""

    def breaks(line: bytes) -> bool:
        try:
            _floats(json.loads(line))
        except (ValueError, TypeError):
            return False
        except (OverflowError, RecursionError):
            return True
        return False

    assert find(lines(), breaks, settings=values.FINDING)


def _floats(data: Any) -> None:
    if isinstance(data, int):
        float(data)
    for part in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        _floats(part)


SHOWN_FACTS = {
    "build": wire.Build,
    "environment": wire.Environment,
    "profile": wire.KernelProfile,
    "measurements": wire.Measurement,
    "timeline": wire.Span,
    "trials": wire.Trial,
}


@given(st.sampled_from(sorted(SHOWN_FACTS)).flatmap(lambda name: st.tuples(st.just(name), values.wire_messages(SHOWN_FACTS[name]))))
def test_a_fact_that_is_read_can_be_shown(field: tuple[str, object]) -> None:
    """Whatever its values are, within their ranges."""
    name, fact = field
    report = Report(verdict=Verdict.ACCEPTED, reason="", summary="")
    shown = replace(report, **{name: fact if name in ("build", "environment", "profile") else (fact,)})  # type: ignore[arg-type]
    report_to_proto(shown, Redactor({}), full=True).SerializeToString()
