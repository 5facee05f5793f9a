"""Problem formats, a file each: the server side parses without executing.

A format promises: `load(path)` reads a problem from a file or directory, executes nothing, and raises `ProblemInvalid` naming the
file, the key and the remedy. The judge's half is the file of the same name in `sandbox/judge/references/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from grader.formats import flashinfer, kernelbench, native, reference_kernels
from grader.model import NewSubmission
from sandbox import wire

FORMATS: Mapping[str, ModuleType] = {one.NAME: one for one in (native, kernelbench, reference_kernels, flashinfer)}


def of(path: Path, formats: Mapping[str, ModuleType] = FORMATS) -> ModuleType | None:
    """The format of which a problem lies at path; None where none does."""
    try:
        return next((one for one in formats.values() if one.matches(path)), None)
    except OSError:  # such as a name that is too long
        return None


def as_called(spec: wire.ProblemSpec, new: NewSubmission) -> wire.ProblemSpec:
    """The problem as a submission's entry takes it, where its format leaves that to the submission."""
    if spec.format != flashinfer.NAME or new.language != "python":
        return spec
    return flashinfer.as_called(spec, new.sources[0].content, new.entry or spec.entry)
