"""Compiles a seccomp profile (the engine's JSON) to the BPF program that bubblewrap takes.  Standard library only.

`python tools/compile_seccomp.py` writes sandbox/profiles/seccomp.bpf from seccomp.json.
"""

from __future__ import annotations

import json
import struct
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PROFILES = HERE.parent / "sandbox" / "profiles"

AUDIT_ARCH_X86_64 = 0xC000003E
X32_BIT = 0x40000000  # numbers from here on belong to x32, another ABI with its own holes
NR_OFFSET, ARCH_OFFSET, ARGS_OFFSET = 0, 4, 16
LOAD, EQUAL, AT_LEAST, JUMP, AND, RETURN = 0x20, 0x15, 0x35, 0x05, 0x54, 0x06
KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
EPERM = 1

ACTIONS = {"SCMP_ACT_ALLOW": ALLOW, "SCMP_ACT_KILL_PROCESS": KILL_PROCESS, "SCMP_ACT_ERRNO": ERRNO}

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
Condition = tuple[int, int, int]  # of an argument: its index, a mask, and what `argument & mask` has to be


class Rule(NamedTuple):
    """Effect on a system call: `action` if all conditions hold, else what the next rule says."""

    action: int
    conditions: tuple[Condition, ...] = ()


def system_calls() -> dict[str, int]:
    """Return the number of every system call, by name."""
    lines = (HERE / "syscalls_x86_64.txt").read_text().splitlines()
    return {name: int(number) for name, number in (line.split() for line in lines if line and not line.startswith("#"))}


def compile_profile(profile: dict[str, Any]) -> bytes:
    """Return the program for a profile.  Names that the table lacks stay at the default action, as in the engine."""
    if profile["architectures"] != ["SCMP_ARCH_X86_64"]:
        raise ValueError(f"only x86_64 is compiled, not {profile['architectures']}")
    default = _action(profile["defaultAction"], profile)
    numbers = system_calls()
    rules: dict[int, tuple[Rule, ...]] = {}
    for entry in profile["syscalls"]:
        rule = Rule(_action(entry["action"], entry), tuple(_condition(argument) for argument in entry.get("args") or ()))
        for name in entry["names"]:
            if name in numbers:
                earlier = rules.get(numbers[name], ())
                if earlier and not (rule.conditions and earlier[-1].conditions):
                    raise ValueError(f"two rules for {name}, one of which always applies; leave one out")
                rules[numbers[name]] = (*earlier, rule)
    program = [
        (LOAD, 0, 0, ARCH_OFFSET),
        (EQUAL, 1, 0, AUDIT_ARCH_X86_64),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NR_OFFSET),
        (AT_LEAST, 0, 1, X32_BIT),
        (RETURN, 0, 0, KILL_PROCESS),
        *_tree(_runs(rules, Rule(default))),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _runs(rules: dict[int, tuple[Rule, ...]], default: Rule) -> list[tuple[int, tuple[Rule, ...]]]:
    """Return the first number of each run of equal rules, from 0 on. The last rule of a number always applies."""

    def chain(number: int) -> tuple[Rule, ...]:
        named = rules.get(number, ())
        return named if named and not named[-1].conditions else (*named, default)

    return [(next(numbers), chosen) for chosen, numbers in groupby(range(max(rules) + 2), key=chain)]


def _tree(runs: list[tuple[int, tuple[Rule, ...]]]) -> list[Instruction]:
    """Search for the run by halving, so that no call pays for a long list."""
    if len(runs) == 1:
        return [instruction for rule in runs[0][1] for instruction in _rule(rule)]
    middle = len(runs) // 2
    lower, upper = _tree(runs[:middle]), _tree(runs[middle:])
    # A conditional jump reaches 255 instructions; the plain one reaches everything.
    return [(AT_LEAST, 0, 1, runs[middle][0]), (JUMP, 0, 0, len(lower)), *lower, *upper]


def _rule(rule: Rule) -> list[Instruction]:
    """Return the action if all conditions hold, else go on behind this rule."""
    code: list[Instruction] = [(RETURN, 0, 0, rule.action)]
    for index, mask, value in reversed(rule.conditions):
        for half, offset in ((0, 0), (32, 4)):
            code = [
                (LOAD, 0, 0, ARGS_OFFSET + 8 * index + offset),
                (AND, 0, 0, mask >> half & 0xFFFFFFFF),
                (EQUAL, 0, len(code), value >> half & 0xFFFFFFFF),
                *code,
            ]
    return code


def _condition(argument: dict[str, Any]) -> Condition:
    match argument:
        case {"op": "SCMP_CMP_EQ", "index": index, "value": value}:
            return index, (1 << 64) - 1, value
        case {"op": "SCMP_CMP_MASKED_EQ", "index": index, "value": mask, "valueTwo": value}:
            return index, mask, value
    raise ValueError(f"the comparison {argument} is not compiled; use SCMP_CMP_EQ or SCMP_CMP_MASKED_EQ")


def _action(name: str, entry: dict[str, Any]) -> int:
    return ACTIONS[name] | (entry.get("errnoRet", EPERM) if name == "SCMP_ACT_ERRNO" else 0)


def main() -> None:
    """Write the blob next to its profile."""
    profile = json.loads((PROFILES / "seccomp.json").read_text())
    (PROFILES / "seccomp.bpf").write_bytes(compile_profile(profile))


if __name__ == "__main__":
    main()
