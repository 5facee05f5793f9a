"""Box module `emulated`: the CPU as a device for plain C++, whose kernels are functions that launch nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.compilers.headers import Headers
from sandbox.compilers.host_compiler import compile_step, include_flags, link_steps
from sandbox.compilers.steps import CompilerStep
from sandbox.protocol import wire


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCompiler:
    """The host's compiler, as a `sandbox.compilers.steps.Compiler`."""

    files: Path

    def compile(self, path: str, number: int, headers: Headers, place: Path) -> list[CompilerStep]:
        """Plan the object of a source."""
        return [compile_step(self.files / path, path, number, ["-O2", *include_flags(headers, device=())], self.files, place)]

    link = staticmethod(link_steps)
    fallback = staticmethod(lambda: None)  # sources are compiled as they are


def prepare(job: wire.BuildJob, sources: Mapping[str, str], files: Path, place: Path, chosen: Sequence[str] = ()) -> HostCompiler:
    """Return the compiler of a job's sources."""
    return HostCompiler(files=files)


def unsupported(log: str, text: str) -> str | None:
    """Find that a rejected source is at fault."""


def install(text: str, remark: Callable[[str], None] = print) -> None:
    """Leave torch as it is."""
