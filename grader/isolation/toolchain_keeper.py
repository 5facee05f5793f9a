"""Keeps a copy of the toolchain in memory from one server to the next, and removes it some minutes after the last server has gone.

Standard library only, run by path with `python -I -S`: the process holds a few megabytes for days.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time


def main() -> None:
    """Run `toolchain_keeper DIRECTORY SECONDS`: leave a process behind, unless this copy has one."""
    directory, linger_s = sys.argv[1], float(sys.argv[2])
    copy = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    alone = os.open("keeper", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=copy)
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if os.fork():
        return
    os.setsid()
    os.closerange(0, 3)  # the server's
    os.write(alone, f"{os.getpid()}\n".encode())
    while True:
        fcntl.flock(copy, fcntl.LOCK_EX)  # every server holds a shared lock
        changed_ns = os.fstat(copy).st_mtime_ns
        fcntl.flock(copy, fcntl.LOCK_UN)
        time.sleep(linger_s)
        try:
            fcntl.flock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        try:
            is_there = os.path.samestat(os.fstat(copy), os.lstat(directory))
        except FileNotFoundError:
            return
        if not is_there:  # somebody removed it, and made another at the same path
            return
        if os.fstat(copy).st_mtime_ns == changed_ns:  # no server has gone meanwhile
            os.fchmod(copy, 0o700)  # from here on it is not whole, and no server takes it
            shutil.rmtree(directory, ignore_errors=True)
            return


if __name__ == "__main__":
    main()
