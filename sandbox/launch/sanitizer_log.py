"""Reads what the emulated device's sanitizer has written, and looks its addresses up in the library's line table.

The log comes from the kernel's own process, so all of it is a claim: whatever it holds, what comes out is small and has the right types.
No torch here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandbox.launch.sanitizer_flops import flops_per_line
from sandbox.launch.source_lines import NAME_LIMIT, NOWHERE, Place, own_lines, user_lines
from sandbox.protocol.wire import AccessCounts, LineCounts, LineFlops, MemoryAccess, SanitizerFinding, SanitizerKind, SanitizerSeverity

LOG_LIMIT_BYTES = 1 << 20
LINE_LIMIT_BYTES = 8192
RECORD_LIMIT = 768  # of those that are looked up; the device itself keeps 256 findings, and 3 * 256 counts
BASIC_BLOCK_LIMIT = 2048  # as many as the device itself keeps
FINDING_LIMIT = 50
COUNTED_LINE_LIMIT = 40
MESSAGE_LIMIT = 600
PLACE_LIMIT = 4
COUNT_BITS = 53  # the sum of all records has 62 at most
_COUNTS = ("requests", "transactions", "least_transactions", "active_lanes", "requested_bytes")
_PLACE = re.compile(r"\{([0-3])\}")
# The likeliest cause first: what breaks memory or order makes the findings after it.
_SEVERITIES = list(SanitizerSeverity)
_KINDS = [
    SanitizerKind.UNCHECKED_LAUNCH,
    SanitizerKind.OUT_OF_BOUNDS,
    SanitizerKind.MISALIGNED,
    SanitizerKind.DIVERGENT_BARRIER,
    SanitizerKind.INACTIVE_LANE,
    SanitizerKind.RACE,
    SanitizerKind.UNINITIALISED_READ,
]


def read_log(log: Path, library: Path) -> list[SanitizerFinding]:
    """Read the findings of a log, of which each pair of source lines has one; [] where nothing was found and there is no log."""
    records = _records(log)
    lines = user_lines(library, sorted({address for record in records for address in record["places"]}))
    merged: dict[tuple[SanitizerKind, frozenset[Place]], SanitizerFinding] = {}
    for record in records:
        finding = _finding(record, [lines.get(address, NOWHERE) for address in record["places"]])
        if _is_one_barrier(finding):
            continue
        # Which of two accesses comes first depends on the order in which threads run.
        pair = frozenset(((finding.path, finding.line), (finding.other_path, finding.other_line)))
        key = (finding.kind, pair)
        merged[key] = _worse(merged[key], finding) if key in merged else finding
    ranked = sorted(merged.values(), key=lambda one: (_SEVERITIES.index(one.severity), _KINDS.index(one.kind)))
    return ranked[:FINDING_LIMIT]


def read_counts(log: Path, library: Path) -> AccessCounts | None:
    """Read what was counted of each source line, those with the most transactions first; None where nothing was."""
    blocks: dict[str, Any] | None = None
    records: dict[int, dict[str, Any]] = {}
    runs: dict[int, int] = {}
    for line in _log_lines(log):
        blocks = _block_record(line) or blocks
        runs |= _basic_block_runs(line)
        record = _count_record(line)
        if record is not None and (record["id"] in records or len(records) < RECORD_LIMIT):
            records[record["id"]] = record
    if blocks is None:
        return None
    lines = user_lines(library, sorted({record["place"] for record in records.values()}))
    # Memory that the sanitizer does not know may be the device's own: that is used in the device's headers.
    own = own_lines(library, sorted({record["place"] for record in records.values() if _is_doubtful(record)}))
    merged: dict[tuple[Place, MemoryAccess], dict[str, int]] = {}
    for record in records.values():
        place = (own if _is_doubtful(record) else lines).get(record["place"], NOWHERE)
        if place == NOWHERE:  # the device's own headers, which load in another way than a GPU does
            continue
        sums = merged.setdefault((place, record["access"]), dict.fromkeys(_COUNTS, 0))
        for name in _COUNTS:
            sums[name] += record[name]
    counted = (LineCounts(path=path, line=line, access=access, **sums) for ((path, line), access), sums in merged.items())
    ranked = sorted(counted, key=lambda one: (-one.transactions, one.path, one.line, one.access))
    flops = flops_per_line(library, dict(list(runs.items())[:BASIC_BLOCK_LIMIT]))
    most = sorted((LineFlops(path=path, line=line, flops=count) for (path, line), count in flops.items()), key=lambda one: -one.flops)
    return AccessCounts(lines=tuple(ranked[:COUNTED_LINE_LIMIT]), flops=tuple(most[:COUNTED_LINE_LIMIT]), **blocks)


def _is_doubtful(record: Mapping[str, Any]) -> bool:
    return record["unnamed"] and record["access"] not in (MemoryAccess.GLOBAL_ATOMIC, MemoryAccess.SHARED_ATOMIC)


def _worse(one: SanitizerFinding, other: SanitizerFinding) -> SanitizerFinding:
    """The more severe of two, the first of equals, with the counts of both."""
    worse = min((one, other), key=lambda finding: _SEVERITIES.index(finding.severity))
    return replace(worse, count=one.count + other.count)


def _is_one_barrier(finding: SanitizerFinding) -> bool:
    """Whether a barrier only looks like two, because the compiler has made two copies of its line."""
    same = (finding.path, finding.line) == (finding.other_path, finding.other_line)
    return finding.kind is SanitizerKind.DIVERGENT_BARRIER and finding.line > 0 and same


def _records(log: Path) -> list[dict[str, Any]]:
    """The well-formed records; a later one of the same number replaces an earlier one."""
    records: dict[int, dict[str, Any]] = {}
    for line in _log_lines(log):
        record = _record(line)
        if record is not None and (record["id"] in records or len(records) < RECORD_LIMIT):
            records[record["id"]] = record
    return list(records.values())


def _log_lines(log: Path) -> list[bytes]:
    """The lines that are short enough, of the beginning of the log."""
    try:
        with log.open("rb") as file:
            data = file.read(LOG_LIMIT_BYTES)
    except OSError:
        return []
    return [line for line in data.split(b"\n") if len(line) <= LINE_LIMIT_BYTES]


def _record(line: bytes) -> dict[str, Any] | None:
    """One line, with every field of the right type and size; None for anything else."""
    try:
        read = json.loads(line)
        places = [_whole(address) for address in read["places"][:PLACE_LIMIT]]
        return {
            "id": _whole(read["id"]),
            "kind": SanitizerKind(read["kind"]),
            "severity": SanitizerSeverity(read["severity"]),
            "message": _text(read["message"], MESSAGE_LIMIT),
            "memory": _text(read["memory"], NAME_LIMIT),
            "block": tuple(_whole(number) for number in read["block"][:3]),
            "thread": tuple(_whole(number) for number in read["thread"][:3]),
            "count": _whole(read["count"]),
            "places": places,
        }
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _count_record(line: bytes) -> dict[str, Any] | None:
    """What one instruction did, with every field of the right type and size; None for anything else."""
    try:
        read = json.loads(line)
        if read["kind"] != "line_counts" or type(read["unnamed"]) is not bool:
            return None
        numbers = {name: _whole(read[name], COUNT_BITS) for name in _COUNTS}
        named = {"place": _whole(read["place"]), "access": MemoryAccess(read["access"]), "unnamed": read["unnamed"]}
        return {"id": _whole(read["id"]), **named, **numbers}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _block_record(line: bytes) -> dict[str, Any] | None:
    """How many blocks were counted; None for anything else."""
    try:
        read = json.loads(line)
        if read["kind"] != "counted_blocks" or type(read["partial"]) is not bool:
            return None
        counted, blocks = _whole(read["counted"], COUNT_BITS), _whole(read["blocks"], COUNT_BITS)
        return {"counted_blocks": counted, "blocks": blocks, "partial": read["partial"]}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _basic_block_runs(line: bytes) -> dict[int, int]:
    """How often each basic block was run; nothing of anything else."""
    try:
        read = json.loads(line)
        if read["kind"] != "basic_blocks":
            return {}
        return {_whole(place): _whole(runs, COUNT_BITS) for place, runs in read["runs"][:BASIC_BLOCK_LIMIT]}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _whole(value: object, bits: int = 63) -> int:
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise ValueError(f"not a whole number of {bits} bits")
    return value


def _text(value: object, limit: int) -> str:
    if type(value) is not str:
        raise ValueError("not a text")
    return "".join(letter if letter.isprintable() else "?" for letter in value[:limit])


def _finding(record: Mapping[str, Any], places: Sequence[Place]) -> SanitizerFinding:
    first = places[0] if places else NOWHERE
    other = places[1] if len(places) > 1 else NOWHERE

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        path, line = places[number] if number < len(places) else NOWHERE
        if not line:
            return "an unknown line"
        return f"line {line}" if path == first[0] else f"{path}:{line}"

    message = _PLACE.sub(named, record["message"])
    return SanitizerFinding(
        kind=record["kind"],
        severity=record["severity"],
        message=message[:1].upper() + message[1:],
        path=first[0],
        line=first[1],
        other_path=other[0],
        other_line=other[1],
        memory=record["memory"],
        block=record["block"],
        thread=record["thread"],
        count=record["count"],
    )
