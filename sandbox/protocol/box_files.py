"""Files by which a box and the server talk: results in {out}, the names of those of profile mode, the pipes of a waiting box, and how
sockets are reached; and the names of what Triton compiles for both."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROFILE_NOTE = "profile.json"
FILE_LIMIT_BYTES = 16 * 1024 * 1024  # of a file that a profiler leaves
TORCH_PROFILER = "torch profiler"
TORCH_TABLE, TORCH_TRACE = "torch_profile.txt", "torch_trace.json"
TORCH_TRACE_PACKED = f"{TORCH_TRACE}.gz"  # in its place where it is too large
EMULATED_SANITIZER = "sanitizer"  # of the emulated device
COMPUTE_SANITIZER, SANITIZER_TEXT = "compute-sanitizer", "compute_sanitizer.txt"
NCU, NCU_REPORT, NCU_TEXT, NCU_CSV = "ncu", "ncu.ncu-rep", "ncu_details.txt", "ncu_details.csv"
NSIGHT = Path("/opt/nvidia/nsight-compute")  # where NVIDIA's packages put ncu; the toolkit has a script that starts it
WAIT = "--wait"  # the runner's option: in which directory they are
READY = "ready"  # the runner writes to it once it has imported everything
GO = "go"  # it reads from it, asleep, until there is a job
ADDRESS_BYTES = 107  # of a unix socket, on Linux


def read_left(path: Path, limit_bytes: int) -> bytes:
    """The first bytes of a file in a directory that a submission can write to, b"" where it is no plain file; OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(limit_bytes) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""


def leave(out_dir: Path, name: str, content: bytes) -> None:
    """Write a result. What lies there under its name goes first: a submission that has run here may have left a link or a pipe."""
    (out_dir / name).unlink(missing_ok=True)
    with open(os.open(out_dir / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
        file.write(content)


@contextmanager
def socket_address(path: str) -> Iterator[str]:
    """The path of a socket, or another way to it where that is too long for an address: $TMPDIR may lie deep."""
    if len(os.fsencode(path)) <= ADDRESS_BYTES:
        yield path
        return
    directory, name = os.path.split(path)
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def fix_triton_key() -> None:
    """Let `platform.architecture()` of this process ask no program `file`; call it before triton is used. Triton finds what it has
    compiled by this answer, too: a judge compiles for boxes, and a build box for a run box, and only one of them may have `file`."""
    platform.architecture = lambda *arguments, **named: ("64bit", "ELF")
