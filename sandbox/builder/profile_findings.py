"""Collects what the tools of profile mode find in a box, and leaves it in {out}: files, and one note that names them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.protocol import wire
from sandbox.protocol.box_files import FILE_LIMIT_BYTES, PROFILE_NOTE, leave
from sandbox.protocol.wire import ToolOutcome

FILE_COUNT_LIMIT = 56
DETAIL_LIMIT_CHARS = 400
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(slots=True)
class ProfileFindings:
    """What was found so far. out: the box's {out}."""

    out: Path
    architecture: str = ""
    tools: list[wire.ProfileTool] = field(default_factory=list)
    kernels: list[wire.KernelUse] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def tool(self, name: str, outcome: ToolOutcome, detail: str = "") -> None:
        """Say what became of a tool."""
        self.tools.append(wire.ProfileTool(name=name, outcome=outcome, detail=" ".join(detail.split())[:DETAIL_LIMIT_CHARS]))

    def keep(self, name: str, tool: str, content: bytes) -> None:
        """Leave a file; what is too large, or one too many, is named in a remark."""
        if len(content) > FILE_LIMIT_BYTES or len(self.files) >= FILE_COUNT_LIMIT:
            self.left_out.append(name)
            return
        leave(self.out, name, content)
        self.files[name] = tool

    def free_name(self, stem: str, suffixes: Iterable[str]) -> str:
        """A plain stem of file names that no file has yet with one of these suffixes."""
        plain = _PLAIN.sub("_", stem).strip("._-")[:60] or "kernel"
        for number in range(1, FILE_COUNT_LIMIT + 2):
            name = plain if number == 1 else f"{plain}-{number}"
            if not any(f"{name}{suffix}" in self.files for suffix in suffixes):
                return name
        return plain

    def note(self) -> wire.ProfileNote:
        """All of it."""
        count = len(self.left_out)
        left_out = (f"{count} files were left out, for being too large or too many: {', '.join(self.left_out[:8])}",) if count else ()
        profile = wire.KernelProfile(
            tools=tuple(self.tools), architecture=self.architecture, kernels=tuple(self.kernels), remarks=(*self.remarks, *left_out)
        )
        return wire.ProfileNote(profile=profile, files=dict(self.files))

    def write(self) -> None:
        """Leave the note."""
        leave(self.out, PROFILE_NOTE, wire.encode(self.note()))
