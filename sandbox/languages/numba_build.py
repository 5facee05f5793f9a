"""Has a module's Numba kernels compiled next to its import, in a process of its own: for what is said of them, never for what is run."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.languages.python_files import ModuleDirectory
from sandbox.languages.python_numba import SIMULATOR
from sandbox.protocol import wire

WAIT_S = 20.0  # once the import has ended


@contextmanager
def compiling(command: Sequence[str], place: Path, device_kind: str, main: str, text: str) -> Iterator[NumbaKernels | None]:
    """Compile the kernels of a submission meanwhile; None where its text does not name Numba. command: is called with the directory of the
    build, the path of a report and that of the main file."""
    if "numba" not in text:
        yield None
        return
    directory = place / "numba"
    directory.mkdir()
    report_path = directory / "report.json"
    environment = {**os.environ, **ModuleDirectory(directory=directory).environment(device_kind)}
    environment.pop(SIMULATOR, None)  # which has no types
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        [*command, str(place), str(report_path), main],
        cwd=directory,
        env=environment,
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
        start_new_session=True,
    ) as process:
        try:
            yield NumbaKernels(process=process, report_path=report_path)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbaKernels:
    """The process that compiles them, and where it reports."""

    process: subprocess.Popen[bytes]
    report_path: Path

    def wait(self) -> None:
        """Give it a while."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(WAIT_S)


def joined(note: wire.BuildNote, of_kernels: wire.BuildNote) -> wire.BuildNote:
    """The note of an import, with what was found of its Numba kernels."""
    return replace(note, kernels=(*note.kernels, *of_kernels.kernels), remarks=(*note.remarks, *of_kernels.remarks))
