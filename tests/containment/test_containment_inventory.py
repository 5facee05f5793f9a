"""The control of the look around after each test: while a box is alive, everything that could stay behind is seen."""

import os
import secrets
from pathlib import Path

from grader.isolation.runtime import box_output
from tests.containment.inventory import traces


async def test_what_a_live_box_has_is_seen_and_then_it_is_gone(cage):
    with box_output(cage.settings, limit_bytes=1 << 20) as out:
        async with cage.live("time.sleep(60)", out_dir=out):
            seen = {trace.split()[0] for trace in traces(cage.place.name, cage.uids)}
        wanted = {"docker": {"container", "file"}, "bubblewrap": {"process", "file"}}[cage.name]
        wanted |= {"mount"} if out.is_mount() else set()
        assert wanted <= seen
    left = set(traces(cage.place.name, cage.uids)) - cage.before
    assert all(trace.startswith("cgroup") for trace in left), "only the parent, until the isolation is closed"


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
