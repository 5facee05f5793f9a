"""Looks addresses of a library up in its line table, with addr2line.  The library may be hostile: nothing it says is more than text."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

LOOK_UP_S = 60.0
NAME_LIMIT = 120
Place = tuple[str, int]  # path and line
NOWHERE: Place = ("", 0)
Frame = tuple[str, str]  # a function, and where it is in it, as addr2line says it


def user_lines(library: Path, addresses: Sequence[int]) -> dict[int, Place]:
    """The user's innermost line at each address, which lies behind the instruction."""
    return {address: users_place(found) for address, found in frames(library, addresses).items()}


def own_lines(library: Path, addresses: Sequence[int]) -> dict[int, Place]:
    """The line at each address that is the user's own, and not of a header inlined into it."""
    return {address: users_place(found[:1]) for address, found in frames(library, addresses).items()}


def frames(library: Path, addresses: Sequence[int]) -> dict[int, list[Frame]]:
    """The function at each address and those that it is inlined into, the innermost first."""
    if not addresses or not library.exists():
        return {}
    words = "\n".join(hex(max(address - 1, 0)) for address in addresses)
    command = ["addr2line", "-a", "-i", "-f", "-C", "-e", str(library)]
    try:
        done = subprocess.run(command, input=words, capture_output=True, text=True, errors="replace", check=False, timeout=LOOK_UP_S)
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[int, list[str]] = {}
    current: list[str] = []
    for line in done.stdout.splitlines():
        if re.fullmatch("0x[0-9a-f]{16}", line):
            current = found.setdefault(int(line, 16) + 1, [])
        else:
            current.append(line)
    return {address: list(zip(lines[::2], lines[1::2], strict=False)) for address, lines in found.items()}


def users_place(found: Sequence[Frame]) -> Place:
    """The first place that is in none of the headers of device, compiler and libraries."""
    for _, place in found:
        path, _, line = place.partition(" (")[0].rpartition(":")
        if line.isdigit() and int(line) > 0 and path and not path.startswith("??") and not _is_header(path):
            return _submitted_name(path)[:NAME_LIMIT], int(line)
    return NOWHERE


def _is_header(path: str) -> bool:
    return path.startswith("/usr/") or "/sandbox/native/emulated/" in path or "/site-packages/" in path or "/include/" in path


def _submitted_name(path: str) -> str:
    """As the submission names the file: g++ ran in its directory, of which the line table has the name, or a dot in its place."""
    if not path.startswith("/"):
        return path.removeprefix("./")
    return path.rpartition("/files/")[2] if "/files/" in path else Path(path).name
