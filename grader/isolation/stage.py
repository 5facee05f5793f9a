"""Runs on the host between the server and a box: enters the cgroup, arranges mounts, drops to the box's uid, becomes the launcher.

Standard library only, run by path with `python -I -S`; no untrusted code has run yet, and none runs in this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x00020000, 4096, 16384, 1 << 18
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
PR_SET_PDEATHSIG = 1
# A place that every host has and that every uid may pass. It is covered in a mount namespace of our own only.
STAGE = "/mnt" if Path("/mnt").is_dir() else "/tmp"


def main() -> NoReturn:
    """Run `stage CONFIG`; CONFIG is JSON: parent, entrances, niceness, uid (or null), binds, tmp (or null), argv, environment."""
    config: dict[str, Any] = json.loads(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    for entrance in config["entrances"]:
        Path(entrance).write_text("0")
    Path("/proc/self/oom_score_adj").write_text("1000")  # a box dies first, not the server; its own /proc is read-only
    os.nice(config["niceness"])
    if config["binds"]:
        arrange(libc, config["binds"], config["tmp"])
    if config["uid"] is not None:
        os.setgroups([])
        os.setresgid(config["uid"], config["uid"], config["uid"])
        os.setresuid(config["uid"], config["uid"], config["uid"])
    # After the change of uid, which clears it.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != config["parent"]:
        os._exit(1)  # the server died before the line above
    os.chdir("/")
    os.execve(config["argv"][0], config["argv"], config["environment"])


def arrange(libc: ctypes.CDLL, sources: list[str], tmp: dict[str, int] | None) -> None:
    """Bind source number n to STAGE/n, where a uid that may not pass the source's parents can get at it."""
    check(libc.unshare(CLONE_NEWNS), "unshare")
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount private")
    # Opened before the stage covers any of them.
    descriptors = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]
    check(libc.mount(b"grader-stage", STAGE.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=1m,mode=0755"), "mount stage")
    for number, (source, descriptor) in enumerate(zip(sources, descriptors, strict=True)):
        target = Path(STAGE, str(number))
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            target.mkdir()
        else:
            target.touch()
        check(libc.mount(f"/proc/self/fd/{descriptor}".encode(), bytes(target), None, MS_BIND | MS_REC, None), f"bind {source}")
        os.close(descriptor)
    if tmp is not None:
        scratch = Path(STAGE, "tmp")
        scratch.mkdir()
        flags = MS_NOSUID | MS_NODEV | (0 if tmp["executable"] else MS_NOEXEC)
        options = f"size={tmp['bytes']},nr_inodes={tmp['inodes']},mode=1777".encode()
        check(libc.mount(b"grader-tmp", bytes(scratch), b"tmpfs", flags, options), "mount tmp")


def check(result: int, name: str) -> None:
    """Raise what libc reported."""
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
