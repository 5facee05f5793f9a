"""Facts from ptxas and PTX on kernels: how much of the device each uses, which lines compute in float64, errors in the user's lines.

On many GPUs float64 is dozens of times as slow as float32, and mostly it was not meant. All of this reads text that a stranger's source had
a hand in; what comes of it is a claim, cut to a size.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sandbox.compilers.steps import STANDS_IN
from sandbox.protocol.wire import KernelUse

_FUNCTION = re.compile(r"\.(?:entry|func)\s")
_BODY = re.compile(r"\.entry\s+([\w$]+)")
_DOUBLE = re.compile(r"\s*(?:@!?%p\d+\s+)?(?:add|sub|mul|mad|fma|div|rcp|sqrt|rsqrt|neg|abs|min|max|cvt)(?:\.\w+)*\.f64[.\s]")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d{1,9})\s[^\n]*?(?:inlined_at\s+\d+\s+(\d{1,9})\s.*)?$")
KERNEL_LIMIT = 32
NAME_LIMIT_CHARS = 200
MANGLED_LIMIT_CHARS = 4000  # a longer one stays as it is
DEMANGLE_S = 5.0
_INFO = r"ptxas info\s*: "
_ENTRY = re.compile(rf"{_INFO}Compiling entry function '([^']+)' for '(\w+)'")
_PROPERTIES = re.compile(rf"{_INFO}Function properties for (\S+)")
_FRAME = re.compile(r"\s+(\d{1,9}) bytes stack frame, (\d{1,9}) bytes spill stores, (\d{1,9}) bytes spill loads")
_USED = re.compile(_INFO + r"Used (\d{1,9}) registers(.*)")
_PART = re.compile(r"(\d{1,9}(?:\+\d{1,9})*) bytes (smem|cmem\[\d+\]|cumulative stack size)")
_INFO_LINES = re.compile(rf"(?:{_INFO}|    \d+ bytes stack frame, ).*\n")
# In the shape of a namespace with an identifier of its file, `sandbox/compilers/nvcc.py:module_id`.
_UNNAMED = re.compile(r"_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?(?=::)")
_MANGLED = re.compile(r"'(_Z\w+)'")
_COMPLAINT = re.compile(r"^ptxas (?!info|warning).*$", re.MULTILINE)
_IN_PTX = re.compile(r"ptxas (\S+), line (\d{1,9}); (\w+)\s*: (.*)")


def float64_instructions(texts: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """Instructions in float64, by the name of the entry whose body they stand in: arithmetic, and conversions to and from it. What a
    function does that is called is nobody's. Of each the line, and that of the call that it was inlined at; 0 where none is noted."""
    lines: dict[str, list[tuple[int, int]]] = {}
    for text in texts:
        entry, place = None, (0, 0)
        for line in text.splitlines():
            if _FUNCTION.search(line):
                entry, place = named[1] if (named := _BODY.search(line)) is not None else None, (0, 0)
            elif (loc := _LOC.match(line)) is not None:
                place = int(loc[2]), int(loc[3] or 0)
            elif entry is not None and _DOUBLE.match(line):
                lines.setdefault(entry, []).append(place)
    return lines


def kernels(log: str, ptx: Sequence[str] = ()) -> tuple[KernelUse, ...]:
    """Return the use of each kernel, in the order of the log; built for several architectures, the name has it. ptx: its input."""
    uses: list[dict[str, Any]] = []  # the fields of each KernelUse
    architectures: list[str] = []
    described = None
    for line in log.splitlines():
        if (entry := _ENTRY.match(line)) is not None:
            uses.append({"name": entry[1], "stack_bytes": 0})
            architectures.append(entry[2])
            described = None
        elif not uses:
            continue
        elif (properties := _PROPERTIES.match(line)) is not None:
            described = properties[1]
        elif (frame := _FRAME.match(line)) is not None and described == uses[-1]["name"]:
            stack, stores, loads = map(int, frame.groups())
            uses[-1] |= {"stack_bytes": max(stack, uses[-1]["stack_bytes"]), "spill_store_bytes": stores, "spill_load_bytes": loads}
        elif (used := _USED.match(line)) is not None:
            # Older ptxas write what the system adds behind a plus, and list the constant banks.
            parts: dict[str, int] = {}
            for size, kind in _PART.findall(used[2]):
                name = kind.partition("[")[0]
                parts[name] = parts.get(name, 0) + sum(map(int, size.split("+")))
            # The stack with that of the functions that it calls.
            stack = max(parts.get("cumulative stack size", 0), uses[-1]["stack_bytes"])
            registers, shared, constant = int(used[1]), parts.get("smem", 0), parts.get("cmem", 0)
            uses[-1] |= {"registers": registers, "shared_bytes": shared, "stack_bytes": stack, "constant_bytes": constant}
    complete = [(use, architecture) for use, architecture in zip(uses, architectures, strict=True) if "registers" in use][:KERNEL_LIMIT]
    several = len({architecture for _, architecture in complete}) > 1
    doubles = float64_instructions(ptx)
    kernel_uses = []
    for (use, architecture), name in zip(complete, demangled([use["name"] for use, _ in complete]), strict=True):
        suffix = f" for {architecture}" if several else ""
        double_count = len(doubles.get(use["name"], ()))
        shown = f"{name[: NAME_LIMIT_CHARS - len(suffix)]}{suffix}"
        kernel_uses.append(KernelUse(**use | {"name": shown, "double_instruction_count": double_count}))
    return tuple(kernel_uses)


def complaint(log: str, ptx: Mapping[str, tuple[str, str]]) -> str:
    """The log of a build that failed: without what ptxas tells of kernels, its errors with the user's names and lines.

    ptx: by the name that the log has for it, the path of the source that it was made of, and the text.
    """
    log = _INFO_LINES.sub("", log)
    log = _COMPLAINT.sub(lambda match: _in_source(match[0], ptx), log)
    mangled = list(dict.fromkeys(name for line in _COMPLAINT.findall(log) for name in _MANGLED.findall(line)))[:KERNEL_LIMIT]
    readable = dict(zip(mangled, demangled(mangled), strict=True))
    return _COMPLAINT.sub(lambda line: _MANGLED.sub(lambda name: f"'{readable.get(name[1], name[1])}'", line[0]), log)


def demangled(names: Sequence[str]) -> list[str]:
    """The names as C++ has them, of printable characters; as they are where the box has no c++filt, or it fails."""
    mangled = [name if len(name) <= MANGLED_LIMIT_CHARS and name.isprintable() else "" for name in names]
    readable, program = mangled, shutil.which("c++filt")
    if program is not None and names:
        # One that is no text, not even after a compiler had it, must not cost a build.
        text = "\n".join(mangled).encode("utf-8", "replace")
        with suppress(OSError, subprocess.TimeoutExpired):
            process = subprocess.run([program], input=text, capture_output=True, check=False, timeout=DEMANGLE_S)
            lines = process.stdout.decode("utf-8", "replace").split("\n")
            readable = lines if len(lines) == len(names) else mangled
    plain = [_UNNAMED.sub("(anonymous namespace)", name or mangled_name) for mangled_name, name in zip(names, readable, strict=True)]
    return ["".join(filter(str.isprintable, name))[:NAME_LIMIT_CHARS] for name in plain]


def _in_source(line: str, ptx: Mapping[str, tuple[str, str]]) -> str:
    """An error in a line of PTX, that is, in inline assembly, as an error in the line of the source that it came from."""
    match = _IN_PTX.fullmatch(line)
    if match is None or match[1] not in ptx:
        return line
    origin, text = ptx[match[1]]
    lines, number = text.splitlines(), int(match[2])
    quoted = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    files = {file[1]: file[2] for file in map(_FILE.match, lines) if file is not None}
    for earlier in reversed(lines[: number - 1]):  # the place that stands before it, in its function
        loc = _LOC.match(earlier)
        if loc is not None and loc[1] in files:
            origin = f"{files[loc[1]].removeprefix(f'{STANDS_IN[1]}/')}({loc[2]})"
            break
        if _FUNCTION.search(earlier):
            break
    return f"{origin}: {match[3]}: {match[4]}" + (f"\n    {quoted}" if quoted else "")
