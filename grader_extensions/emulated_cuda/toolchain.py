"""Box module `emulated`: builds and loads kernels for the emulated device. A run box imports no compiler."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grader_extensions.emulated_cuda.emulated_torch import install as install
from grader_extensions.emulated_cuda.launch_log import logged as logged
from sandbox.languages.python_module import EMULATED_VARIABLES
from sandbox.protocol import wire

if TYPE_CHECKING:
    from sandbox.compilers.steps import Compiler


def prepare(job: wire.BuildJob, sources: Mapping[str, str], files: Path, place: Path, chosen: Sequence[str] = ()) -> Compiler:
    """Return the compiler of a job's sources. Unsupported where the device can't run them."""
    from grader_extensions.emulated_cuda import gcc

    return gcc.prepare(job, sources, files, place, chosen)


def preload(language: str) -> None:
    """Import what kernels of a language's module may need, in a process that forks many boxes."""
    if language == "sandbox.languages.python":
        os.environ.update(EMULATED_VARIABLES)  # Triton reads it when its own functions are made
        with suppress(ImportError):
            importlib.import_module("triton.runtime.interpreter")


def unsupported(log: str, text: str) -> str | None:
    """Return the line of a log on what a rejected source uses and the device lacks; None where the source is at fault."""
    from grader_extensions.emulated_cuda import emulation_limits

    sentence = emulation_limits.unknown_name(log, text)
    return sentence and f"{emulation_limits.first_place(log)}: error: {sentence}\n"
