"""The control of the look around after each test: while a box is alive, everything that could stay behind is seen."""

import asyncio
import os
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grader.isolation.directories import box_output
from grader.isolation.toolchain import OWN_ETC, OWN_PROC, write_own_etc
from tests.containment.conftest import HANG_S
from tests.containment.inventory import traces


async def test_what_a_live_box_has_is_seen_and_then_it_is_gone(cage):
    with box_output(cage.settings, limit_bytes=1 << 20) as out:
        async with cage.live("time.sleep(60)", out_dir=out):
            wanted = {"docker": {"container", "file"}, "bubblewrap": {"process", "file"}, "forks": {"process", "file"}}[cage.name]
            wanted |= {"mount"} if out.is_mount() else set()
            async with asyncio.timeout(HANG_S):
                while not wanted <= {trace.split()[0] for trace in traces(cage.place.name, cage.uids)}:
                    await asyncio.sleep(0.02)  # a process that has just been started has no command line yet
    leftovers = set(traces(cage.place.name, cage.uids)) - cage.before
    assert all(trace.startswith("cgroup") for trace in leftovers), "only the parent, until the isolation is closed"


def test_what_has_a_uid_of_a_box_is_seen(root_only):
    """A file where every process may leave one."""
    path, uid = Path("/dev/shm", f"uid{secrets.token_hex(8)}"), 59_999
    path.touch()
    try:
        os.chown(path, uid, uid)
        assert traces("nobody", {uid}) == [f"file {path}"]
        assert traces("nobody", {uid + 1}) == []
    finally:
        path.unlink()


def test_boxes_that_start_at_once_write_the_same_files_and_leave_no_others(tmp_path):
    """The first boxes of a server: each writes what all of them see."""
    together = threading.Barrier(8)

    def write(directory):
        together.wait(timeout=60)
        write_own_etc(directory)

    with ThreadPoolExecutor(8) as pool:
        for attempt in range(40):
            list(pool.map(write, [tmp_path / str(attempt)] * 8))
            assert {path.name for path in (tmp_path / str(attempt)).iterdir()} == {*OWN_ETC, *OWN_PROC}
