"""Counts floating-point operations per source line: those in each basic block of the library, times how often that was run.

Exact for scalar code as g++ compiles it for the sanitizer: an instruction counts for a block if every path through the block passes it.
Additions, subtractions, multiplications and divisions of float and double in the user's own lines are one each, and fma is two.
Not counted: half and bfloat16, matrix instructions, atomic operations, and functions of the mathematics library (rsqrtf is one division).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.launch.source_lines import LOOK_UP_S, NOWHERE, Frame, Place, frames, users_place

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
_WITHOUT_ARITHMETIC = re.compile(r"/sandbox/native/emulated/emu/(bits|vector_types|sanitizer/hooks)\.h:")
_ENDS = ("ret", "ud2", "hlt", "retq")


@dataclass(frozen=True, slots=True)
class _MachineInstruction:
    name: str
    operands: str
    following: int  # the address behind it

    def calls_hook(self) -> bool:
        return self.name.startswith("call") and BLOCK_HOOK in self.operands

    def next(self) -> list[int]:
        """Where the thread may be after it, as far as it stays in its block."""
        if self.calls_hook() or self.name in _ENDS:
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
    for address, found in frames(library, behind).items():
        place = _place(found)
        if place != NOWHERE:
            totals[place] = totals.get(place, 0) + executed[address - 1]
    return totals


def _place(found: Sequence[Frame]) -> Place:
    """The user's line that the instruction is of, or NOWHERE if it is of a header that computes something."""
    for function, place in found:
        if not _INTRINSIC.fullmatch(function.partition("(")[0]) and not _WITHOUT_ARITHMETIC.search(place):
            return users_place([(function, place)])
    return NOWHERE


def _functions(library: Path) -> Iterator[dict[int, _MachineInstruction]]:
    """The instructions of each function, by address."""
    command = ["objdump", "-d", "--no-show-raw-insn", "-j", ".text", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=LOOK_UP_S)
    except (OSError, subprocess.SubprocessError):
        return
    for text in re.split(r"\n\n", done.stdout):
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
        after[address] = sum(after.get(one, 1) for one in function[address].next()) or 1
    before = dict.fromkeys(order, 0)
    before[start] = 1
    for address in order:
        for one in function[address].next():
            if one in before:
                before[one] += before[address]
    counted = ((address, function[address].flops()) for address in order if before[address] * after[address] == after[start])
    return [(address, flops) for address, flops in counted if flops]


def _order(function: Mapping[int, _MachineInstruction], start: int) -> list[int] | None:
    """What the block reaches, each before those that follow it; None for a loop."""
    order: list[int] = []
    open_: set[int] = set()
    done: set[int] = set()
    waiting = [(start, False)]
    while waiting:
        address, left = waiting.pop()
        if left:
            open_.discard(address)
            done.add(address)
            order.append(address)
        elif address in open_:
            return None
        elif address not in done:
            open_.add(address)
            waiting.append((address, True))
            waiting += [(one, False) for one in function[address].next() if one in function]
    return order[::-1]
