"""Reads what the emulated device's sanitizer has written, and looks its addresses up in the library's line table.

The log comes from the kernel's own process, and the library may be hostile, so all of it is a claim: whatever they hold, what comes out is
small and has the right types. No torch here.

Floating-point operations per source line are those in each basic block of the library, times how often that was run. Exact for scalar code
as g++ compiles it for the sanitizer: an instruction counts for a block if every path through the block passes it. Additions, subtractions,
multiplications and divisions of float and double in the user's own lines are one each, and fma is two. Not counted: half and bfloat16,
matrix instructions, atomic operations, and functions of the mathematics library (rsqrtf is one division).
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
INSTRUCTION_LIMIT = 8192  # that are looked up
FUNCTION_LIMIT = 50_000  # instructions of one function
BLOCK_HOOK = "<__sanitizer_cov_trace_pc"
_LINE = re.compile(r" *([0-9a-f]+):\t(?:(?:notrack|bnd|data16) )*(\S+) *(.*)")
_SCALAR = re.compile(r"v?(add|sub|mul|div)s[sd]")
_PACKED = {"ps": 4, "pd": 2}
_PACKED_NAME = re.compile(r"v?(?:add|sub|mul|div)(p[sd])")
_FUSED = re.compile(r"<fmaf?(@plt)?>")
# Inlined into the user's line they count as if they were written there. The files compute nothing, but g++ makes one instruction of an
# operation and of a conversion of its result.
_INTRINSIC = re.compile(r"__(f(add|sub|mul|div|maf|rcp)|d(add|sub|mul|div|rcp)|fma)_r[nzud]|(__)?fdividef|rsqrtf?")
_WITHOUT_ARITHMETIC = re.compile(r"/emulated_cuda/native/emu/(bits|qualifiers|sanitizer/sanitizer)\.h:")
_ENDS = ("ret", "ud2", "hlt", "retq")
LOOK_UP_S = 60.0
NAME_LIMIT = 120
Place = tuple[str, int]  # path and line
NOWHERE: Place = ("", 0)
Frame = tuple[str, str]  # a function, and where it is in it, as addr2line says it


def read_log(log: Path, library: Path) -> list[SanitizerFinding]:
    """Read the findings of a log, of which each pair of source lines has one; [] where nothing was found and there is no log."""
    records = _records(log)
    lines = user_lines(library, sorted({address for record in records for address in record["places"]}))
    merged: dict[tuple[SanitizerKind, frozenset[Place]], SanitizerFinding] = {}
    for record in records:
        finding = _finding(record, [lines.get(address, NOWHERE) for address in record["places"]])
        # Whether a barrier only looks like two, because the compiler has made two copies of its line.
        same = (finding.path, finding.line) == (finding.other_path, finding.other_line)
        if finding.kind is SanitizerKind.DIVERGENT_BARRIER and finding.line > 0 and same:
            continue
        # Which of two accesses comes first depends on the order in which threads run.
        pair = frozenset(((finding.path, finding.line), (finding.other_path, finding.other_line)))
        key = (finding.kind, pair)
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
    runs: dict[int, int] = {}
    for text in _log_lines(log):
        with suppress(ValueError, TypeError, KeyError, RecursionError):  # a line of another shape counts for nothing
            read = json.loads(text)
            match read["kind"]:
                case "counted_blocks" if type(read["partial"]) is bool:
                    counts = {"counted_blocks": _whole(read["counted"], COUNT_BITS), "blocks": _whole(read["blocks"], COUNT_BITS)}
                    blocks = {**counts, "partial": read["partial"]}
                case "basic_blocks":
                    runs |= {_whole(place): _whole(count, COUNT_BITS) for place, count in read["runs"][:BASIC_BLOCK_LIMIT]}
                case "line_counts" if type(read["unnamed"]) is bool:
                    numbers = {name: _whole(read[name], COUNT_BITS) for name in _COUNTS}
                    named = {"place": _whole(read["place"]), "access": MemoryAccess(read["access"]), "unnamed": read["unnamed"]}
                    if (number := _whole(read["id"])) in records or len(records) < RECORD_LIMIT:
                        records[number] = {**named, **numbers}
    if blocks is None:
        return None
    lines = user_lines(library, sorted({record["place"] for record in records.values()}))
    # Memory that the sanitizer does not know may be the device's own: that is used in the device's headers.
    own_places = own_lines(library, sorted({record["place"] for record in records.values() if _is_doubtful(record)}))
    merged: dict[tuple[Place, MemoryAccess], dict[str, int]] = {}
    for record in records.values():
        place = (own_places if _is_doubtful(record) else lines).get(record["place"], NOWHERE)
        if place == NOWHERE:  # the device's own headers, which load in another way than a GPU does
            continue
        sums = merged.setdefault((place, record["access"]), dict.fromkeys(_COUNTS, 0))
        for name in _COUNTS:
            sums[name] += record[name]
    counted = (LineCounts(path=path, line=line, access=access, **sums) for ((path, line), access), sums in merged.items())
    ranked = sorted(counted, key=lambda entry: (-entry.transactions, entry.path, entry.line, entry.access))
    flops = flops_per_line(library, dict(list(runs.items())[:BASIC_BLOCK_LIMIT]))
    flop_lines = sorted(
        (LineFlops(path=path, line=line, flops=count) for (path, line), count in flops.items()), key=lambda entry: -entry.flops
    )
    return AccessCounts(lines=tuple(ranked[:COUNTED_LINE_LIMIT]), flops=tuple(flop_lines[:COUNTED_LINE_LIMIT]), **blocks)


def _is_doubtful(record: Mapping[str, Any]) -> bool:
    return record["unnamed"] and record["access"] not in (MemoryAccess.GLOBAL_ATOMIC, MemoryAccess.SHARED_ATOMIC)


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
    """Read a line, with every field of the right type and size; None for anything else."""
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


@dataclass(frozen=True, slots=True)
class _MachineInstruction:
    name: str
    operands: str
    following: int  # the address behind it

    def next(self) -> list[int]:
        """Where the thread may be after it, as far as it stays in its block."""
        if (self.name.startswith("call") and BLOCK_HOOK in self.operands) or self.name in _ENDS:
            return []
        target = self.operands.partition(" ")[0]
        to = [int(target, 16)] if re.fullmatch("[0-9a-f]+", target) else []
        if self.name.startswith("jmp"):
            return to
        return [*to, self.following] if self.name.startswith("j") else [self.following]

    def flops(self) -> int:
        if _SCALAR.fullmatch(self.name):
            return 1
        if packed := _PACKED_NAME.fullmatch(self.name):
            return _PACKED[packed[1]]
        return 2 if self.name.startswith("call") and _FUSED.search(self.operands) else 0


def flops_per_line(library: Path, runs: Mapping[int, int]) -> dict[Place, int]:
    """How many were executed, of the basic blocks that began (behind their hook) at these addresses."""
    executed: dict[int, int] = {}
    for function in _functions(library) if runs else ():
        for start in runs.keys() & function.keys():
            for address, flops in _certain(function, start):
                executed[address] = executed.get(address, 0) + flops * runs[start]
    behind = sorted(address + 1 for address in executed)[:INSTRUCTION_LIMIT]
    totals: dict[Place, int] = {}
    for address, places in frames(library, behind).items():
        # The innermost frame that computes: a header of the device that does is nobody's line.
        computing = (
            frame for frame in places if not _INTRINSIC.fullmatch(frame[0].partition("(")[0]) and not _WITHOUT_ARITHMETIC.search(frame[1])
        )
        place = users_place([*itertools.islice(computing, 1)])
        if place != NOWHERE:
            totals[place] = totals.get(place, 0) + executed[address - 1]
    return totals


def _functions(library: Path) -> Iterator[dict[int, _MachineInstruction]]:
    command = ["objdump", "-d", "--no-show-raw-insn", "-j", ".text", str(library)]
    try:
        process = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=LOOK_UP_S)
    except (OSError, subprocess.SubprocessError):
        return
    for text in re.split(r"\n\n", process.stdout):
        if BLOCK_HOOK not in text:
            continue
        read = [(int(match[1], 16), match[2], match[3]) for match in map(_LINE.match, text.splitlines()) if match]
        following = [address for address, _, _ in read[1:]] + [0]
        if len(read) <= FUNCTION_LIMIT:
            pairs = zip(read, following, strict=True)
            yield {address: _MachineInstruction(name, operands, after) for (address, name, operands), after in pairs}


def _certain(function: Mapping[int, _MachineInstruction], start: int) -> list[tuple[int, int]]:
    """The instructions that compute, and that all paths from `start` to the end of its block pass; nothing if there is a loop in it."""
    order = _order(function, start)
    if order is None or not any(function[address].flops() for address in order):
        return []
    # Paths to the end from each, then paths from the start to each.
    after: dict[int, int] = {}
    for address in reversed(order):
        after[address] = sum(after.get(successor, 1) for successor in function[address].next()) or 1
    before = dict.fromkeys(order, 0)
    before[start] = 1
    for address in order:
        for successor in function[address].next():
            if successor in before:
                before[successor] += before[address]
    counted = ((address, function[address].flops()) for address in order if before[address] * after[address] == after[start])
    return [(address, flops) for address, flops in counted if flops]


def _order(function: Mapping[int, _MachineInstruction], start: int) -> list[int] | None:
    """Order the blocks that a block reaches, each before those that follow it; None for a loop."""
    order: list[int] = []
    open_: set[int] = set()
    visited: set[int] = set()
    waiting = [(start, False)]
    while waiting:
        address, is_left = waiting.pop()
        if is_left:
            open_.discard(address)
            visited.add(address)
            order.append(address)
        elif address in open_:
            return None
        elif address not in visited:
            open_.add(address)
            waiting.append((address, True))
            waiting += [(successor, False) for successor in function[address].next() if successor in function]
    return order[::-1]


def user_lines(library: Path, addresses: Sequence[int]) -> dict[int, Place]:
    """The user's innermost line at each address, which lies behind the instruction."""
    return {address: users_place(call_chain) for address, call_chain in frames(library, addresses).items()}


def own_lines(library: Path, addresses: Sequence[int]) -> dict[int, Place]:
    """The line at each address that is the user's own, and not of a header inlined into it."""
    return {address: users_place(call_chain[:1]) for address, call_chain in frames(library, addresses).items()}


def frames(library: Path, addresses: Sequence[int]) -> dict[int, list[Frame]]:
    """The function at each address and those that it is inlined into, the innermost first."""
    if not addresses or not library.exists():
        return {}
    words = "\n".join(hex(max(address - 1, 0)) for address in addresses)
    command = ["addr2line", "-a", "-i", "-f", "-C", "-e", str(library)]
    try:
        process = subprocess.run(command, input=words, capture_output=True, text=True, errors="replace", check=False, timeout=LOOK_UP_S)
    except (OSError, subprocess.SubprocessError):
        return {}
    chains: dict[int, list[str]] = {}
    current: list[str] = []
    for line in process.stdout.splitlines():
        if re.fullmatch("0x[0-9a-f]{16}", line):
            current = chains.setdefault(int(line, 16) + 1, [])
        else:
            current.append(line)
    return {address: list(zip(lines[::2], lines[1::2], strict=False)) for address, lines in chains.items()}


def users_place(call_chain: Sequence[Frame]) -> Place:
    """The first place that is in none of the headers of device, compiler and libraries."""
    for _, place in call_chain:
        path, _, line = place.partition(" (")[0].rpartition(":")
        foreign = any(part in path for part in ("/emulated_cuda/native/", "/site-packages/", "/include/"))
        if path and not foreign and not path.startswith(("??", "/usr/")) and line.isdigit() and int(line) > 0:
            # As the submission names the file: g++ ran in its directory, of which the line table has the name, or a dot in its place.
            absolute = path.rpartition("/files/")[2] if "/files/" in path else Path(path).name
            return (absolute if path.startswith("/") else path.removeprefix("./"))[:NAME_LIMIT], int(line)
    return NOWHERE
