"""Runs on the host between the server and a box: enters the cgroup, arranges mounts, drops to the box's uid, becomes the launcher.

Standard library only, and little of it, whose import took two thirds of this process; run by path with `python -I -S`. No untrusted code
has run yet, and none runs in this process.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x00020000, 4096, 16384, 1 << 18
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
PR_SET_PDEATHSIG, SIGKILL = 1, 9
# A place that every host has and that every uid may pass. It is covered in a mount namespace of our own only.
STAGE = "/mnt" if os.path.isdir("/mnt") else "/tmp"


def main() -> None:
    """Run `stage CONFIG`; CONFIG is marshalled, in hexadecimal: parent, entrances, niceness, uid (or None), binds, tmp (or None), argv,
    environment."""
    config = marshal.loads(bytes.fromhex(sys.argv[1]))
    libc = ctypes.CDLL(None, use_errno=True)
    for entrance in config["entrances"]:
        write(entrance, "0")
    write("/proc/self/oom_score_adj", "1000")  # a box dies first, not the server; its own /proc is read-only
    os.nice(config["niceness"])
    if config["binds"]:
        arrange(libc, config["binds"], config["tmp"])
    if config["uid"] is not None:
        os.setgroups([])
        os.setresgid(config["uid"], config["uid"], config["uid"])
        os.setresuid(config["uid"], config["uid"], config["uid"])
    # After the change of uid, which clears it.
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
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
        target, path = f"{STAGE}/{number}", f"/proc/self/fd/{descriptor}"
        if os.path.isdir(path):
            os.mkdir(target)
        else:
            write(target, "")
        check(libc.mount(path.encode(), target.encode(), None, MS_BIND | MS_REC, None), f"bind {source}")
        os.close(descriptor)
    if tmp is not None:
        scratch = f"{STAGE}/tmp"
        os.mkdir(scratch)
        flags = MS_NOSUID | MS_NODEV | (0 if tmp["executable"] else MS_NOEXEC)
        options = f"size={tmp['bytes']},nr_inodes={tmp['inodes']},mode=1777".encode()
        check(libc.mount(b"grader-tmp", scratch.encode(), b"tmpfs", flags, options), "mount tmp")


def write(path: str, text: str) -> None:
    """Write a file."""
    with open(path, "w") as file:
        file.write(text)


def check(result: int, name: str) -> None:
    """Raise what libc reported."""
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
