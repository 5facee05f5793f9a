"""The sanitizer's log comes from the kernel's own process: whatever it holds, reading it ends soon and gives plain values."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sandbox.launch import sanitizer_log
from sandbox.launch.sanitizer_log import read_log
from sandbox.protocol.wire import SanitizerFinding, SanitizerKind, SanitizerSeverity


def record(**changes: Any) -> dict[str, Any]:
    """A line as the device writes it."""
    fields = {"id": 0, "kind": "race", "severity": "error", "message": "x is written at {0} and read at {1}", "memory": "x (shared)"}
    fields |= {"kernel": "k", "block": [0, 1, 2], "thread": [3, 4, 5], "count": 7, "places": [], "library": "/nowhere"}
    return fields | changes


def read(tmp_path: Path, *lines: object) -> list[SanitizerFinding]:
    """The findings of a log with these lines; no library is there."""
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return read_log(log, tmp_path / "library.so")


def test_no_log_is_no_finding(tmp_path: Path) -> None:
    """The device writes one only when it has found something."""
    assert read_log(tmp_path / "log", tmp_path / "library.so") == []


def test_a_record_becomes_a_finding(tmp_path: Path) -> None:
    """Where the library is not there, lines are unknown."""
    (found,) = read(tmp_path, record(places=[64, 128]))
    assert (found.kind, found.severity, found.line, found.path) == (SanitizerKind.RACE, SanitizerSeverity.ERROR, 0, "")
    assert (found.block, found.thread, found.count) == ((0, 1, 2), (3, 4, 5), 7)
    assert found.message == "X is written at an unknown line and read at an unknown line"


def test_a_later_line_of_a_number_replaces_the_earlier(tmp_path: Path) -> None:
    """Counts grow from launch to launch."""
    assert [one.count for one in read(tmp_path, record(count=1), record(count=9))] == [9]


def test_errors_come_first(tmp_path: Path) -> None:
    """And of them the likeliest cause."""
    lines = [
        record(id=1, severity="info"),
        record(id=2, kind="uninitialised_read"),
        record(id=3, kind="misaligned", severity="warning"),
        record(id=4, kind="out_of_bounds"),
    ]
    assert [one.kind.value for one in read(tmp_path, *lines)] == ["out_of_bounds", "uninitialised_read", "misaligned", "race"]


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
    """The others stay."""
    assert len(read(tmp_path, record(**changes), record(id=5))) == 1


def test_what_is_no_json_is_dropped(tmp_path: Path) -> None:
    """Bytes, nested lists, half a line."""
    noise = random.Random(1).randbytes(5000)
    lines = [noise, b"[" * 7000, b"null", b"[]", b"{}", b'"id"', json.dumps(record()).encode()[:-9], record()]
    assert len(read(tmp_path, *lines)) == 1


def test_what_comes_out_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the log, a text or the number of findings."""
    long = record(message="\x1b[31m" + "m" * 3000, memory="n" * 3000)
    (found,) = read(tmp_path, long)
    assert len(found.message) <= sanitizer_log.MESSAGE_LIMIT
    assert len(found.memory) <= sanitizer_log.NAME_LIMIT
    assert found.message.isprintable()
    # Lines known, each would be a finding of its own.
    monkeypatch.setattr(sanitizer_log, "_look_up", lambda _, addresses: {address: ("k.cu", address) for address in addresses})
    assert len(read(tmp_path, *(record(id=number, places=[number + 1]) for number in range(20_000)))) == sanitizer_log.FINDING_LIMIT


def test_a_pair_of_lines_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever access came first, and however often the compiler copied the line; the worst severity stays."""
    monkeypatch.setattr(sanitizer_log, "_look_up", lambda *_: {10: ("k.cu", 1), 11: ("k.cu", 1), 20: ("k.cu", 2)})
    lines = [
        record(id=1, places=[10, 20], severity="warning", count=1),
        record(id=2, places=[20, 11], count=2),
        record(id=3, places=[11, 20], severity="info", count=4),
    ]
    (found,) = read(tmp_path, *lines)
    assert (found.severity, found.line, found.other_line, found.count) == (SanitizerSeverity.ERROR, 2, 1, 7)


def test_two_copies_of_one_barrier_are_no_divergence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler copies a barrier with the code around it."""
    monkeypatch.setattr(sanitizer_log, "_look_up", lambda *_: {10: ("k.cu", 1), 11: ("k.cu", 1), 20: ("k.cu", 2)})
    lines = [record(id=1, kind="divergent_barrier", places=[10, 11]), record(id=2, kind="divergent_barrier", places=[10, 20])]
    assert [one.other_line for one in read(tmp_path, *lines)] == [2]


def test_messages_name_lines_and_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of the same file needs no name."""
    monkeypatch.setattr(sanitizer_log, "_look_up", lambda *_: {10: ("k.cu", 1), 20: ("tile.cuh", 2)})
    (found,) = read(tmp_path, record(places=[10, 20]))
    assert found.message == "X is written at line 1 and read at tile.cuh:2"
