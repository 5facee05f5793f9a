"""What is the same in every isolation: the command that enters a box, its rlimits and its environment."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from grader.isolation import BoxSpec, Limits, Purpose
from grader.isolation.gpu import NOTHING, Grant

STACK_BYTES = 64 << 20
PENDING_SIGNAL_COUNT = 128
# -S: no site, so no `.pth` file of the environment runs before the box's limits are set.
BOOT = "import sys; sys.path[:0] = {lib!r}.split(':'); from sandbox.box_init import main; main()"


def rlimits(limits: Limits, *, process_count: int | None) -> dict[str, int]:
    """Return the rlimits of a box's command.  No RLIMIT_AS and no RLIMIT_DATA: CUDA reserves a huge address range."""
    chosen = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_file_count,
        "RLIMIT_CPU": max(1, math.ceil(limits.cpu_s)),
        "RLIMIT_STACK": STACK_BYTES,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": PENDING_SIGNAL_COUNT,
    }
    return chosen if process_count is None else {**chosen, "RLIMIT_NPROC": process_count}


def command(
    spec: BoxSpec, paths: Mapping[str, str], *, limited: Mapping[str, int], stdio: str | None = None, entered: int | None = None
) -> list[str]:
    """Return the argv that starts a box, with every {name} of the spec's argv filled in."""
    config = json.dumps({"stdio": stdio, "entered": entered, "rlimits": dict(limited)})
    boot = BOOT.format(lib=paths["lib"])
    return [paths["python"], "-I", "-S", "-B", "-c", boot, config, *(filled(word, paths) for word in spec.argv)]


def filled(word: str, paths: Mapping[str, str]) -> str:
    """Put the paths of a box into one word; other braces stay."""
    for name, path in paths.items():
        word = word.replace("{" + name + "}", path)
    return word


def environment(spec: BoxSpec, path: str, home: str = "/tmp", *, grant: Grant = NOTHING) -> dict[str, str]:
    """Return the whole environment of a box; nothing of the server's gets in."""
    fixed = {
        "PATH": path,
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "USER": "job",  # torch asks for a name, and the uid has none
        "LOGNAME": "job",
        "OMP_NUM_THREADS": "1" if spec.purpose is Purpose.BUILD else "2",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "CCACHE_DISABLE": "1",
        "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    return {**fixed, **dict(grant.environment), **dict(spec.environment)}
