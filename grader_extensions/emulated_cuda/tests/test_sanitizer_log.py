"""The sanitizer's log comes from the kernel's own process: whatever it holds, reading it ends soon and gives plain values."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from grader_extensions.emulated_cuda import sanitizer_log
from grader_extensions.emulated_cuda.sanitizer_log import read_counts, read_log
from sandbox.protocol.wire import AccessCounts, MemoryAccess, SanitizerFinding, SanitizerKind, SanitizerSeverity


def record(**changes: Any) -> dict[str, Any]:
    """A line as the device writes it."""
    fields = {"id": 0, "kind": "race", "severity": "error", "message": "x is written at {0} and read at {1}", "memory": "x (shared)"}
    fields |= {"block": [0, 1, 2], "thread": [3, 4, 5], "count": 7, "places": []}
    return fields | changes


def read(tmp_path: Path, *lines: object) -> list[SanitizerFinding]:
    """The findings of a log with these lines; no library is there."""
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return read_log(log, tmp_path / "library.so")


BLOCKS = {"kind": "counted_blocks", "counted": 4, "blocks": 9, "partial": False}


def counts(**changes: Any) -> dict[str, Any]:
    """A line of counts as the device writes it."""
    fields = {"kind": "line_counts", "id": 0, "place": 64, "access": "global_load", "unnamed": False, "requests": 2}
    return fields | {"transactions": 8, "least_transactions": 4, "active_lanes": 64, "requested_bytes": 256} | changes


@pytest.fixture
def known_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each address is a line."""
    monkeypatch.setattr(sanitizer_log, "user_lines", lambda _, addresses, **__: {address: ("k.cu", address + 1) for address in addresses})


def read_counted(tmp_path: Path, *lines: object) -> AccessCounts | None:
    """The counts of a log with these lines."""
    assert read(tmp_path, *lines) == []  # none of them is a finding
    return read_counts(tmp_path / "log", tmp_path / "library.so")


def test_a_record_becomes_a_finding(tmp_path: Path) -> None:
    """Where the library is not there, lines are unknown."""
    (finding,) = read(tmp_path, record(places=[64, 128]))
    assert (finding.kind, finding.severity, finding.line, finding.path) == (SanitizerKind.RACE, SanitizerSeverity.ERROR, 0, "")
    assert (finding.block, finding.thread, finding.count) == ((0, 1, 2), (3, 4, 5), 7)
    assert finding.message == "X is written at an unknown line and read at an unknown line"


def test_a_race_of_an_access_out_of_bounds_is_not_another_finding(tmp_path: Path, known_lines: None) -> None:
    """The instruction that leaves its array races with those of the array that it reaches; the control is another instruction."""
    outside = record(id=1, kind="out_of_bounds", places=[64])
    assert [finding.kind for finding in read(tmp_path, outside, record(id=2, places=[128, 64]))] == [SanitizerKind.OUT_OF_BOUNDS]
    assert len(read(tmp_path, outside, record(id=2, places=[128, 68]))) == 2


def test_errors_come_first(tmp_path: Path) -> None:
    lines = [
        record(id=1, severity="info"),
        record(id=2, kind="uninitialised_read"),
        record(id=3, kind="misaligned", severity="warning"),
        record(id=4, kind="out_of_bounds"),
    ]
    assert [finding.kind.value for finding in read(tmp_path, *lines)] == ["out_of_bounds", "uninitialised_read", "misaligned", "race"]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "virus"},
        {"kind": ["race"]},
        {"severity": None},
        {"message": 5},
        {"places": "no"},
        {"places": [1.5]},
        {"places": [-1]},
        {"places": [1 << 80]},
        {"count": True},
        {"count": "9"},
        {"block": [[0]]},
        {"id": {}},
    ],
    ids=str,
)
def test_a_record_of_another_shape_is_dropped(changes: dict[str, Any], tmp_path: Path) -> None:
    assert len(read(tmp_path, record(**changes), record(id=5))) == 1


def test_what_is_no_json_is_dropped(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(5000)
    lines = [noise, b"[" * 7000, b"null", b"[]", b"{}", b'"id"', json.dumps(record()).encode()[:-9], record()]
    assert len(read(tmp_path, *lines)) == 1


def test_what_comes_out_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = record(message="\x1b[31m" + "m" * 3000, memory="n" * 3000)
    (finding,) = read(tmp_path, long)
    assert len(finding.message) <= sanitizer_log.MESSAGE_LIMIT
    assert len(finding.memory) <= sanitizer_log.NAME_LIMIT
    assert finding.message.isprintable()
    # Lines known, each would be a finding of its own.
    monkeypatch.setattr(sanitizer_log, "user_lines", lambda _, addresses, **__: {address: ("k.cu", address) for address in addresses})
    assert len(read(tmp_path, *(record(id=number, places=[number + 1]) for number in range(20_000)))) == sanitizer_log.FINDING_LIMIT


def test_a_pair_of_lines_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever access came first, and however often the compiler copied the line; the worst severity stays."""
    monkeypatch.setattr(sanitizer_log, "user_lines", lambda *_, **__: {10: ("k.cu", 1), 11: ("k.cu", 1), 20: ("k.cu", 2)})
    lines = [
        record(id=1, places=[10, 20], severity="warning", count=1),
        record(id=2, places=[20, 11], count=2),
        record(id=3, places=[11, 20], severity="info", count=4),
    ]
    (finding,) = read(tmp_path, *lines)
    assert (finding.severity, finding.line, finding.other_line, finding.count) == (SanitizerSeverity.ERROR, 2, 1, 7)


def test_two_copies_of_one_barrier_are_no_divergence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler copies a barrier with the code around it."""
    monkeypatch.setattr(sanitizer_log, "user_lines", lambda *_, **__: {10: ("k.cu", 1), 11: ("k.cu", 1), 20: ("k.cu", 2)})
    lines = [record(id=1, kind="divergent_barrier", places=[10, 11]), record(id=2, kind="divergent_barrier", places=[10, 20])]
    assert [finding.other_line for finding in read(tmp_path, *lines)] == [2]


def test_counts_of_a_line_are_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over its instructions that do the same; a later record of a number replaces the earlier. Findings stay apart."""
    monkeypatch.setattr(sanitizer_log, "user_lines", lambda *_, **__: {64: ("k.cu", 1), 128: ("k.cu", 1), 192: ("k.cu", 2)})
    lines = [
        BLOCKS | {"counted": 1, "partial": True},
        counts(requests=1),
        BLOCKS,
        counts(requests=2),
        counts(id=1, place=128, requests=5, transactions=9),
        counts(id=2, place=128, access="shared_store"),
        counts(id=3, place=192, transactions=99),
    ]
    totals = read_counted(tmp_path, *lines)
    assert totals is not None and (totals.counted_blocks, totals.blocks, totals.partial) == (4, 9, False)
    assert [(line.line, line.access, line.requests, line.transactions) for line in totals.lines] == [
        (2, MemoryAccess.GLOBAL_LOAD, 2, 99),
        (1, MemoryAccess.GLOBAL_LOAD, 7, 17),
        (1, MemoryAccess.SHARED_STORE, 2, 8),
    ]
    assert len(read(tmp_path, record(), *lines)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"access": "texture"},
        {"access": ["global_load"]},
        {"place": -1},
        {"place": "64"},
        {"unnamed": 1},
        {"requests": 1.0},
        {"requests": True},
        {"transactions": 1 << 53},
        {"active_lanes": None},
        {"requested_bytes": -1},
        {"id": {}},
        {"kind": ["line_counts"]},
        {"kind": "counts"},
    ],
    ids=str,
)
@pytest.mark.usefixtures("known_lines")
def test_counts_of_another_shape_are_dropped(changes: dict[str, Any], tmp_path: Path) -> None:
    totals = read_counted(tmp_path, BLOCKS, counts(**changes), counts(id=5))
    assert totals is not None and [(line.requests, line.transactions) for line in totals.lines] == [(2, 8)]


@pytest.mark.parametrize("changes", [{"counted": -1}, {"blocks": 1 << 53}, {"blocks": None}, {"partial": 0}, {"counted": "4"}], ids=str)
def test_a_number_of_blocks_of_another_shape_is_dropped(changes: dict[str, Any], tmp_path: Path) -> None:
    assert read_counted(tmp_path, BLOCKS | changes, counts()) is None


@pytest.mark.usefixtures("known_lines")
def test_counts_without_fields_are_dropped(tmp_path: Path) -> None:
    noise = random.Random(2).randbytes(5000)
    halves = [json.dumps(counts()).encode()[:-9], json.dumps(BLOCKS).encode()[:-9]]
    missing = [{name: value for name, value in counts().items() if name != left_out} for left_out in counts()]
    totals = read_counted(tmp_path, noise, b"[" * 7000, b"null", b"[]", *halves, {"kind": "line_counts"}, *missing, BLOCKS)
    assert totals is not None and totals.lines == ()


def test_memory_that_nobody_named_counts_in_the_kernels_own_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the device's headers it may be the device's; atomics are never."""
    everywhere = {10: ("k.cu", 1), 20: ("k.cu", 2), 30: ("k.cu", 3), 40: ("k.cu", 4)}
    monkeypatch.setattr(sanitizer_log, "user_lines", lambda *_, inlined=True: everywhere if inlined else {10: ("k.cu", 1)})
    lines = [
        counts(id=1, place=10, unnamed=True),
        counts(id=2, place=20, unnamed=True),
        counts(id=3, place=30, unnamed=True, access="global_atomic"),
        counts(id=4, place=40),
    ]
    totals = read_counted(tmp_path, BLOCKS, *lines)
    assert totals is not None and {line.line for line in totals.lines} == {1, 3, 4}


def test_counts_without_a_line_are_dropped(tmp_path: Path) -> None:
    """They are of the device's own code. The number of blocks stays."""
    totals = read_counted(tmp_path, BLOCKS, counts())
    assert totals is not None and totals.lines == () and totals.blocks == 9


@pytest.mark.usefixtures("known_lines")
def test_counted_lines_are_few(tmp_path: Path) -> None:
    totals = read_counted(tmp_path, BLOCKS, *(counts(id=number, place=number, transactions=number) for number in range(4000)))
    assert totals is not None
    transactions = [line.transactions for line in totals.lines]
    assert transactions == sorted(transactions, reverse=True) and len(transactions) == sanitizer_log.COUNTED_LINE_LIMIT
    assert transactions[0] == sanitizer_log.RECORD_LIMIT - 1
