"""Reads what the emulated device's sanitizer has written, and looks its addresses up in the library's line table.

The log comes from the kernel's own process, and the library may be hostile, so all of it is a claim: whatever they hold, what comes out is
small and has the right types. No torch here.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandbox.protocol.wire import AccessCounts, LineCounts, MemoryAccess, SanitizerFinding, SanitizerKind, SanitizerSeverity

LOG_LIMIT_BYTES = 1 << 20
LINE_LIMIT_BYTES = 8192
RECORD_LIMIT = 768  # of those that are looked up; the device itself keeps 256 findings, and 3 * 256 counts
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
LOOK_UP_S = 60.0
NAME_LIMIT = 120
Place = tuple[str, int]  # path and line
NOWHERE: Place = ("", 0)


def read_log(log: Path, library: Path) -> list[SanitizerFinding]:
    """Read the findings of a log, of which each pair of source lines has one; [] where nothing was found and there is no log."""
    records: dict[int, dict[str, Any]] = {}
    for read in _read_lines(log):
        with suppress(ValueError, TypeError, KeyError):  # a line of another shape is no finding
            record: dict[str, Any] = {
                "kind": SanitizerKind(read["kind"]),
                "severity": SanitizerSeverity(read["severity"]),
                "message": _text(read["message"], MESSAGE_LIMIT),
                "memory": _text(read["memory"], NAME_LIMIT),
                "block": tuple(_whole(number) for number in read["block"][:3]),
                "thread": tuple(_whole(number) for number in read["thread"][:3]),
                "count": _whole(read["count"]),
                "places": [_whole(address) for address in read["places"][:PLACE_LIMIT]],
            }
            _add(records, read["id"], record)
    # An instruction that leaves one array and reaches another races there with those that use it: that is the same fault again.
    outside = {record["places"][0] for record in records.values() if record["kind"] is SanitizerKind.OUT_OF_BOUNDS and record["places"]}
    lines = user_lines(library, {address for record in records.values() for address in record["places"]})
    merged: dict[tuple[SanitizerKind, frozenset[Place]], SanitizerFinding] = {}
    for record in records.values():
        if record["kind"] is SanitizerKind.RACE and not outside.isdisjoint(record["places"]):
            continue
        finding = _finding(record, [lines.get(address, NOWHERE) for address in record["places"]])
        # Whether a barrier only looks like two, because the compiler has made two copies of its line.
        same = (finding.path, finding.line) == (finding.other_path, finding.other_line)
        if finding.kind is SanitizerKind.DIVERGENT_BARRIER and finding.line > 0 and same:
            continue
        # Which of two accesses comes first depends on the order in which threads run.
        key = (finding.kind, frozenset(((finding.path, finding.line), (finding.other_path, finding.other_line))))
        if (earlier := merged.get(key)) is not None:  # the more severe of two, the first of equals
            worse = min((earlier, finding), key=lambda candidate: _SEVERITIES.index(candidate.severity))
            finding = replace(worse, count=earlier.count + finding.count)
        merged[key] = finding
    ranked = sorted(merged.values(), key=lambda candidate: (_SEVERITIES.index(candidate.severity), _KINDS.index(candidate.kind)))
    return ranked[:FINDING_LIMIT]


def read_counts(log: Path, library: Path) -> AccessCounts | None:
    """Read what was counted of each source line, those with the most transactions first; None where nothing was."""
    blocks: dict[str, Any] | None = None
    records: dict[int, dict[str, Any]] = {}
    for read in _read_lines(log):
        with suppress(ValueError, TypeError, KeyError):  # a line of another shape counts for nothing
            match read["kind"]:
                case "counted_blocks" if type(read["partial"]) is bool:
                    counts = {"counted_blocks": _whole(read["counted"], COUNT_BITS), "blocks": _whole(read["blocks"], COUNT_BITS)}
                    blocks = {**counts, "partial": read["partial"]}
                case "line_counts" if type(read["unnamed"]) is bool:
                    numbers = {name: _whole(read[name], COUNT_BITS) for name in _COUNTS}
                    named = {"place": _whole(read["place"]), "access": MemoryAccess(read["access"]), "unnamed": read["unnamed"]}
                    _add(records, read["id"], {**named, **numbers})
    if blocks is None:
        return None
    lines = user_lines(library, {record["place"] for record in records.values()})
    # Memory that the sanitizer does not know may be the device's own: that is used in the device's headers.
    own_lines = user_lines(library, {record["place"] for record in records.values() if _is_doubtful(record)}, inlined=False)
    merged: dict[tuple[Place, MemoryAccess], dict[str, int]] = {}
    for record in records.values():
        place = (own_lines if _is_doubtful(record) else lines).get(record["place"], NOWHERE)
        if place == NOWHERE:  # the device's own headers, which load in another way than a GPU does
            continue
        sums = merged.setdefault((place, record["access"]), dict.fromkeys(_COUNTS, 0))
        for name in _COUNTS:
            sums[name] += record[name]
    counted = (LineCounts(path=path, line=line, access=access, **sums) for ((path, line), access), sums in merged.items())
    ranked = sorted(counted, key=lambda entry: (-entry.transactions, entry.path, entry.line, entry.access))
    return AccessCounts(lines=tuple(ranked[:COUNTED_LINE_LIMIT]), **blocks)


def _is_doubtful(record: Mapping[str, Any]) -> bool:
    return record["unnamed"] and record["access"] not in (MemoryAccess.GLOBAL_ATOMIC, MemoryAccess.SHARED_ATOMIC)


def _read_lines(log: Path) -> Iterator[Any]:
    """The lines that are JSON and short enough, of the beginning of the log."""
    data = b""
    with suppress(OSError), log.open("rb") as file:
        data = file.read(LOG_LIMIT_BYTES)
    for line in data.split(b"\n"):
        if len(line) <= LINE_LIMIT_BYTES:
            with suppress(ValueError, RecursionError):
                yield json.loads(line)


def _add(records: dict[int, dict[str, Any]], number: object, record: dict[str, Any]) -> None:
    """Add a record, while there are few; a later one of the same number replaces an earlier one."""
    if (key := _whole(number)) in records or len(records) < RECORD_LIMIT:
        records[key] = record


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
    second = places[1] if len(places) > 1 else NOWHERE

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        path, line = places[number] if number < len(places) else NOWHERE
        if not line:
            return "an unknown line"
        return f"line {line}" if path == first[0] else f"{path}:{line}"

    message = _PLACE.sub(named, record["message"])
    same = {name: record[name] for name in ("kind", "severity", "memory", "block", "thread", "count")}
    message = message[:1].upper() + message[1:]
    return SanitizerFinding(message=message, path=first[0], line=first[1], other_path=second[0], other_line=second[1], **same)


def user_lines(library: Path, addresses: Collection[int], *, inlined: bool = True) -> dict[int, Place]:
    """The user's innermost line at each address, which lies behind the instruction. inlined: also where a header is inlined into it."""
    if not addresses or not library.exists():
        return {}
    words = "\n".join(hex(max(address - 1, 0)) for address in addresses)
    command = ["addr2line", "-a", "-i", "-e", str(library)]
    try:
        process = subprocess.run(command, input=words, capture_output=True, text=True, errors="replace", check=False, timeout=LOOK_UP_S)
    except (OSError, subprocess.SubprocessError):
        return {}
    # The place at each address, and those that it is inlined into, the innermost first.
    chains: dict[int, list[str]] = {}
    current: list[str] = []
    for line in process.stdout.splitlines():
        if re.fullmatch("0x[0-9a-f]{16}", line):
            current = chains.setdefault(int(line, 16) + 1, [])
        else:
            current.append(line)
    return {address: _users_place(chain if inlined else chain[:1]) for address, chain in chains.items()}


def _users_place(call_chain: Sequence[str]) -> Place:
    """The first place that is in none of the headers of device, compiler and libraries."""
    for place in call_chain:
        path, _, line = place.partition(" (")[0].rpartition(":")
        foreign = any(part in path for part in ("/emulated_cuda/native/", "/site-packages/", "/include/"))
        if path and not foreign and not path.startswith(("??", "/usr/")) and line.isdigit() and int(line) > 0:
            # As the submission names the file: g++ ran in its directory, of which the line table has the name, or a dot in its place.
            absolute = path.rpartition("/files/")[2] if "/files/" in path else Path(path).name
            return (absolute if path.startswith("/") else path.removeprefix("./"))[:NAME_LIMIT], int(line)
    return NOWHERE
