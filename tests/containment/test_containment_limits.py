"""More attacks on what a box may use (9 to 26 and 56 of README.md), each with its control."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import docker
import pytest

from grader.grading.pipeline import cut
from grader.isolation.directories import box_output, remove_tree
from grader.views.sanitize import escape_unprintable
from sandbox.protocol import wire
from sandbox.protocol.wire import BoxCause
from tests.containment.conftest import HANG_S, exists
from tests.containment.inventory import SOCKET

NEST = """
def nest(top, depth):
    os.chdir(top)
    for _ in range(depth):
        os.mkdir('d')
        os.chdir('d')
    return depth
attempt('out', lambda: nest(sys.argv[1], 5000))
"""


async def test_09_directories_nest_as_deep_as_files_may_be_many_and_are_removed(cage, root_only):
    """The control: a plain directory instead of {out}'s mount; which the server, where it may not mount, can remove all the same."""
    with box_output(cage.settings, limit_bytes=1 << 20) as out:
        assert await cage.says(NEST, out_dir=out, words=["{out}"]) == ["out DENIED ENOSPC"]
    assert not out.exists()
    plain = cage.open_directory("plain")
    assert await cage.says(NEST, out_dir=plain, words=["{out}"]) == ["out THROUGH 5000"]
    if sys.version_info < (3, 13):
        with pytest.raises(RecursionError):
            shutil.rmtree(plain)
    remove_tree(plain)
    assert not plain.exists()


def test_09_a_directory_that_was_closed_is_removed_and_a_link_is_not_followed(tmp_path):
    """A build may take every right away from what it leaves; where the server is not root that is its own uid's."""
    target, removed = tmp_path / "kept", tmp_path / "left"
    target.mkdir()
    (target / "file").touch()
    (removed / "a/b/c").mkdir(parents=True)
    (removed / "a/b/link").symlink_to(target)
    (removed / "a/b/c/file").touch()
    for directory in ("a/b/c", "a/b", "a"):
        (removed / directory).chmod(0)
    remove_tree(removed)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (target / "file").exists()


PIPES = """
import fcntl
held = []
def hoard(count):
    for _ in range(count):
        held.append(os.pipe())
        fcntl.fcntl(held[-1][1], 1031, 1 << 20)
    return count
"""


async def test_13_pipes_are_few_and_their_buffers_counted(cage, root_only):
    """Two layers: our limit of open files, and the kernel's on all pipes of a uid; a part of the hoard is had by anybody."""
    lines = "attempt('all', lambda: hoard(120))\nheld.clear()"
    assert await cage.says(PIPES + lines) == ["all DENIED EMFILE"]
    assert await cage.says(PIPES + lines, without=["rlimits"]) == ["all DENIED EPERM"]
    assert await cage.says(PIPES + "attempt('part', lambda: hoard(20))") == ["part THROUGH 20"]


async def test_56_what_one_box_hoards_is_not_missed_in_another_slot(cage, root_only):
    """The kernel counts pipes' buffers for each uid. The control: a box in the same slot has none left."""
    hoard = PIPES + "attempt('all', lambda: hoard(120))\nopen(sys.argv[1] + '/all', 'w').close()\ntime.sleep(60)"
    probe = PIPES + "attempt('some', lambda: hoard(8))"
    directory = cage.open_directory("held")
    async with cage.live(hoard, without=["rlimits"], out_dir=directory, words=["{out}"]):
        await exists(directory / "all")
        with cage.in_another_slot():
            neighbour = await printed(cage, probe)
        assert (neighbour, await printed(cage, probe)) == (["some THROUGH 8"], ["some DENIED EPERM"])


async def printed(cage, attack, **options):
    """As `says`, where another box of the cage is alive."""
    async with cage.live(attack, **options) as box:
        ended = await box.wait()
    assert ended.cause is BoxCause.EXITED
    return ended.output.decode().splitlines()


async def test_15_a_line_without_end_is_cut_and_shown_harmlessly(cage):
    """NULs, bytes that are no text, and words for a terminal. The control: under a higher limit it ends, and as it is it has them all."""
    flood = "for _ in range(64): os.write(1, b'\\0\\xff\\xc3\\x1b]0;title\\x07\\x1b[2J\\xe2\\x80\\xae' * 1500)"
    ended = await cage.run(flood)
    assert ended.cause is BoxCause.OUTPUT_LIMIT
    text, truncated = cut(ended.output)
    assert truncated and len(text.encode()) <= wire.LOG_LIMIT_BYTES
    assert "\x1b[2J" in text
    assert escape_unprintable(text).replace("\ufffd", "?").isprintable()
    assert (await cage.run(flood, limits={"output_bytes": 8 << 20})).cause is BoxCause.EXITED


STALL = """
os.set_blocking(1, False)
sent, refused = 0, 0
while sent < 4 << 20 and refused < 30:
    try:
        sent += os.write(1, bytes(4096))
        refused = 0
    except BlockingIOError:
        refused += 1
        time.sleep(0.02)
sys.exit(9 if refused else 0)
"""


async def test_17_while_the_server_does_not_read_the_box_waits_and_nobody_else(cage):
    """A full socket stops the box; neither server nor engine keep what it prints. The control: to one who reads it writes all.

    That an engine of version 20.10 hangs where it has to keep it was measured once and is not done again: others use it too.
    """
    if cage.name == "forks":
        pytest.skip("the loop that stands still here is what forks")
    limits = {"output_bytes": 8 << 20}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with cage.live(STALL, limits=limits) as box:
        until = time.monotonic() + HANG_S
        while not cage.leftovers() and time.monotonic() < until:
            time.sleep(0.02)  # noqa: ASYNC251  the point: the event loop stands still
        while cage.leftovers() and time.monotonic() < until:
            if cage.name == "docker":
                assert engine_answers()
            time.sleep(0.1)  # noqa: ASYNC251
        ended = await box.wait()
    assert (ended.cause, ended.exit_code) == (BoxCause.EXITED, 9)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10
    assert (await cage.run(STALL, limits=limits)).exit_code == 0


def engine_answers():
    client = docker.APIClient(base_url=f"unix://{SOCKET}", version="auto", timeout=HANG_S)
    try:
        return client.ping()
    finally:
        client.close()


SPIN = """
until = time.monotonic() + SECONDS
for _ in range(min(8, 2 * os.cpu_count())):
    if os.fork() == 0:
        break
while time.monotonic() < until:
    pass
"""


async def test_19_who_spins_on_every_core_meets_the_wall_and_others_go_on(cage):
    """The control: under a wall that is far away it ends by itself when it wants to."""
    async with cage.live(SPIN.replace("SECONDS", "600"), limits={"wall_s": 2.0}) as box:
        with cage.in_another_slot():
            assert await printed(cage, "print(sum(range(1000)))") == ["499500"]
        assert (await box.wait()).cause is BoxCause.WALL_LIMIT
    assert (await cage.run(SPIN.replace("SECONDS", "2.6"))).cause is BoxCause.EXITED


DAEMON = """
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
print('bye', flush=True)
"""


async def test_26_a_daemon_that_holds_the_output_does_not_delay_the_end(cage):
    """The control: on the bare host whoever reads to the end waits for the daemon."""
    ended = await cage.run(DAEMON)
    assert (ended.cause, ended.output) == (BoxCause.EXITED, b"bye\n"), "it does not meet the wall, as the daemon would"
    with pytest.raises(subprocess.TimeoutExpired):
        await cage.on_host(DAEMON, timeout=1.5)
    for pid in cage.leftovers():
        os.kill(pid, signal.SIGKILL)
