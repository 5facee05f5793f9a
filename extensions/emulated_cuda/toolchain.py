"""Box module `emulated`: builds and loads kernels for the emulated device. A run box imports no compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.compilers.steps import Compiler
from sandbox.protocol import wire


def prepare(job: wire.BuildJob, sources: Mapping[str, str], files: Path, place: Path, chosen: Sequence[str] = ()) -> Compiler:
    """Return the compiler of a job's sources. Unsupported where the device can't run them."""
    from extensions.emulated_cuda import gcc

    return gcc.prepare(job, sources, files, place, chosen)


def unsupported(log: str, text: str) -> str | None:
    """Return the sentence on what a rejected source uses and the device lacks; None where the source is at fault."""
    from extensions.emulated_cuda import emulation_limits

    return emulation_limits.unknown_name(log, text)


def install(text: str, remark: Callable[[str], None] = lambda sentence: None) -> None:
    """Let torch, and Numba and Triton where the module's text names them, take this process for one with a GPU."""
    from extensions.emulated_cuda import emulated_torch

    emulated_torch.install(text, remark)
