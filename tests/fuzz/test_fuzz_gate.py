"""The gate against a runner that writes anything at any time: the judge gets an answer, a violation or its deadline."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, find, given
from hypothesis import strategies as st

from sandbox.protocol import gate as gates
from sandbox.protocol.gate import (
    GATE_BYTES,
    MESSAGE_LIMIT_BYTES,
    SAMPLE_LIMIT,
    Answer,
    Call,
    Gate,
    GateViolated,
    Operation,
    Slot,
    Status,
    create_sealed,
)
from tests.clock import SteppedTime
from tests.fuzz import values

PAGE = gates._Page
PAGE_BYTES = ctypes.sizeof(PAGE)
LIMIT_NS, HOUR_NS = 20_000_000, 3600 * 10**9
WORDS = st.one_of(st.sampled_from([number % 2**32 for number in values.NUMBERS]), st.integers(0, 2**32 - 1))
FIELDS = ("operation", "poison", "input_count", "output_count", "axis_count", "variant", "count", "status", "message_bytes", "sample_count")


def slots() -> st.SearchStrategy[Slot]:
    return st.builds(
        Slot,
        offset=st.integers(0, 2**64 - 1),
        shape=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=gates.RANK_LIMIT).map(tuple),
        scalar=st.floats(allow_nan=False),
    )


def calls() -> st.SearchStrategy[Call]:
    return st.builds(
        Call,
        operation=st.sampled_from(Operation),
        inputs=st.lists(slots(), max_size=16).map(tuple),
        outputs=st.lists(slots(), max_size=8).map(tuple),
        axes=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=gates.AXIS_LIMIT).map(tuple),
        poison=st.booleans(),
        variant=st.integers(0, 2**32 - 1),
        copy_out=st.booleans(),
        count=st.integers(0, 2**32 - 1),
        template_index=st.integers(0, 2**32 - 1),
        stride_bytes=st.integers(0, 2**64 - 1),
        seed=st.integers(0, 2**64 - 1),
        budget_ns=st.integers(0, 2**64 - 1),
    )


def answers() -> st.SearchStrategy[Answer]:
    samples = st.lists(st.integers(0, gates.SAMPLE_LIMIT_NS), max_size=50).map(tuple)
    return st.builds(Answer, status=st.sampled_from(Status), message=st.text(max_size=3000), samples_ns=samples)


def scribbles() -> st.SearchStrategy[list[tuple[int, bytes]]]:
    """Draw bytes to write, and where."""
    fields = st.tuples(
        st.sampled_from([getattr(PAGE, name).offset for name in FIELDS]), WORDS.map(lambda number: number.to_bytes(4, "little"))
    )
    spans = st.tuples(st.integers(0, GATE_BYTES - 1), st.binary(min_size=1, max_size=64))
    runs = st.tuples(st.integers(PAGE.status.offset, PAGE_BYTES), st.binary(min_size=1, max_size=8).map(lambda piece: piece * 600))
    return st.lists(st.one_of(fields, fields, spans, runs), min_size=1, max_size=8)


@contextmanager
def opened() -> Iterator[tuple[Gate, mmap.mmap]]:
    fd = create_sealed("gate", GATE_BYTES)
    try:
        yield Gate(fd), mmap.mmap(fd, GATE_BYTES)
    finally:
        os.close(fd)


def runner_of(page: mmap.mmap) -> Gate:
    """The runner's side of the page."""
    with opened() as (runner, _):
        pass
    runner._map, runner._page = page, PAGE.from_buffer(page)
    return runner


def write(page: mmap.mmap, many: list[tuple[int, bytes]]) -> None:
    for offset, data in many:
        page[offset : min(offset + len(data), GATE_BYTES)] = data[: GATE_BYTES - offset]


def well_formed(answer: Answer) -> bool:
    return (
        isinstance(answer.status, Status)
        and len(answer.message.encode()) <= 3 * MESSAGE_LIMIT_BYTES  # a byte that is no UTF-8 becomes three
        and len(answer.samples_ns) <= SAMPLE_LIMIT
    )


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> SteppedTime:
    """The gate's clock: it tells exactly how long a wait goes on, whatever else the machine does."""
    stepped = SteppedTime(step_ns=gates.NAP_NS)
    monkeypatch.setattr(gates, "time", stepped)
    return stepped


def in_time(time: SteppedTime, deadline_ns: int) -> bool:
    """Return whether a wait ended at its deadline, but for one look and one nap."""
    return time.now_ns <= deadline_ns + 2 * time.step_ns + gates.NAP_NS


@given(calls())
def test_every_call_arrives_as_it_was_made(call: Call) -> None:
    with opened() as (judge, page):
        number = judge.open(call)
        runner = runner_of(page)
        assert runner.next(0) == number and runner.call() == call


@given(answers())
def test_every_answer_arrives_cut_to_its_layout(time: SteppedTime, answer: Answer) -> None:
    with opened() as (judge, page):
        time.now_ns = 0
        number = judge.open(Call(operation=Operation.CALL))
        runner_of(page).reply(number, answer)
        assert judge.wait(number, 0, HOUR_NS, lambda: True)
        got = judge.answer()
        assert got.status is answer.status and got.samples_ns == answer.samples_ns
        assert got.message.encode().startswith(answer.message.encode()[: MESSAGE_LIMIT_BYTES - 4])


@given(calls(), scribbles(), scribbles(), st.sampled_from(("nothing", "echo", "old", "wild", "gone")))
def test_what_was_written_before_is_an_answer_a_violation_or_the_deadline(
    time: SteppedTime, call: Call, before: list[tuple[int, bytes]], after: list[tuple[int, bytes]], outcome: str
) -> None:
    """Written in the judge's own order, so that the example that fails does so again."""
    with opened() as (judge, page):
        write(page, before)
        previous, deadline_ns = judge.done, time.now_ns + LIMIT_NS
        number = judge.open(call)
        write(page, after)
        written = {"echo": number, "old": previous, "wild": number ^ 1}.get(outcome)
        if written is not None:
            page[PAGE.done.offset : PAGE.done.offset + 8] = written.to_bytes(8, "little")
        try:
            answered = judge.wait(number, previous, deadline_ns, lambda: outcome != "gone")
            assert not answered or judge.done == number
            assert well_formed(judge.answer())
        except GateViolated:
            pass
        assert in_time(time, deadline_ns)


@values.examples(8)
@given(st.integers(0, 2**32 - 1), st.sampled_from(("everything", "answers", "echoes", "go")), st.lists(calls(), min_size=1, max_size=4))
@example(0, "echoes", [Call(operation=Operation.CALL)])
@pytest.mark.slow
def test_a_thread_that_scribbles_while_the_judge_works(time: SteppedTime, seed: int, aim: str, sequence: list[Call]) -> None:
    """The thread writes to the page, all of it or the answer's part, while the judge opens, waits and reads; and echoes what it is told."""
    with opened() as (judge, page):
        stop = threading.Event()
        writer = threading.Thread(target=_scribble, args=(page, random.Random(seed), aim, stop))
        writer.start()
        try:
            for call in sequence:
                deadline_ns = time.now_ns + LIMIT_NS
                try:
                    previous = judge.done
                    number = judge.open(call)
                    judge.wait(number, previous, deadline_ns, lambda: True)
                    assert well_formed(judge.answer())
                except GateViolated:
                    pass
                assert in_time(time, deadline_ns)
        finally:
            stop.set()
            writer.join()


def _scribble(page: mmap.mmap, chance: random.Random, aim: str, stop: threading.Event) -> None:
    first, last = {"everything": (0, GATE_BYTES), "go": (0, 8)}.get(aim, (PAGE.status.offset, PAGE.status.offset + 12))
    while not stop.is_set():
        if aim == "echoes":
            page[PAGE.done.offset : PAGE.done.offset + 8] = page[0:8]
        size = chance.choice((1, 4, 12, last - first))
        at = chance.randrange(first, max(first + 1, last - size + 1))
        page[at : at + size] = chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size)))[:size]


def test_the_scribbles_break_a_judge_that_does_not_look() -> None:
    """The control: without the checks of the layout the same writes get through, or end the judge."""

    def breaks(many: list[tuple[int, bytes]]) -> bool:
        with opened() as (judge, page):
            write(page, many)
            copy = PAGE.from_buffer_copy(bytes(judge._map[:PAGE_BYTES]))
            try:
                Status(copy.status)
            except ValueError:
                return True
            return bool(copy.sample_count > SAMPLE_LIMIT or copy.message_bytes > MESSAGE_LIMIT_BYTES)

    scribble = find(scribbles(), breaks, settings=values.FINDING)
    with opened() as (judge, page), pytest.raises(GateViolated):
        write(page, scribble)
        judge.answer()
