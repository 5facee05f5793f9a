"""Use of a box's processes while a baseline runs, by the kernel's account."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.judge.runner_link import POOL_NS, BoxLoad, box_load, cgroup_account

MS = 1_000_000
# Connects, and uses 300 ms of CPU time where it is asked: itself, or in a child that it waits for, or in one that it leaves running.
PROCESS = """
import os, socket, sys, time
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
def burn():
    while time.process_time() < 0.3:
        pass
while how := link.recv(1):
    if how == b"b":
        burn()
    elif how in b"wc":
        child = os.fork()
        if child == 0:
            burn()
            link.send(b"c") if how == b"c" else None
            time.sleep(60) if how == b"c" else None
            os._exit(0)
        if how == b"w":
            os.waitpid(child, 0)
    if how != b"c":
        link.send(b".")
"""


@pytest.fixture
def other_process(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with subprocess.Popen([sys.executable, "-c", PROCESS, tmp_path / "s"], start_new_session=True) as process:
            link, _ = listener.accept()
            with link:
                yield link
            os.killpg(process.pid, 9)


def used_ns(load: BoxLoad, link: socket.socket, how: bytes) -> int:
    def work() -> None:
        link.send(how)
        link.recv(1)

    load.watch("eager", work)
    return load.runs["eager"][-1][0]


@pytest.mark.parametrize("how", [b"b", b"w", b"c"], ids=["itself", "a child that ended", "a child that runs"])
def test_a_busy_process_is_counted(other_process, how):
    """Those that it has started count too; the control is a process that only answers."""
    load = box_load(other_process)
    assert used_ns(load, other_process, b".") < 100 * MS
    assert used_ns(load, other_process, how) > 200 * MS


def test_a_process_that_cannot_be_seen_is_not_counted():
    """As in a server in a container, which sees no other PID namespace."""
    load = BoxLoad(lambda: None)
    assert load.watch("eager", lambda: 3) == 3
    assert not load.busy("eager")


def loaded(*runs: tuple[float, float]) -> BoxLoad:
    return BoxLoad(lambda: 0, {"eager": [(round(used * MS), round(lasted * MS)) for used, lasted in runs]})


@pytest.mark.parametrize(
    ("used_ms", "lasted_ms", "busy"),
    [
        (160, 160, True),  # one thread, measured on a baseline of 160 ms
        (8, 8, True),
        (19, 160, False),  # an honest kernel of the same problem
        (2.6, 1.8, False),  # a pool that spins before it sleeps; the baseline takes less
        (3.9, 24.8, False),
        (0, 5, False),
    ],
)
def test_a_box_is_busy_that_uses_more_than_a_pool_that_falls_asleep(used_ms, lasted_ms, busy):
    assert loaded(*[(used_ms, lasted_ms)] * 19).busy("eager") is busy


def test_one_long_reading_among_many_is_no_busy_box():
    """The account comes in ticks: a run can seem to have used what belongs to the one before."""
    assert not loaded((POOL_NS / MS + 4, 8), *[(0, 8)] * 18).busy("eager")


@pytest.mark.parametrize(
    ("theirs", "ours", "account"),
    [
        ("4:cpu,cpuacct:/docker/b\n2:memory:/docker/b\n", "4:cpu,cpuacct:/\n", "cpu,cpuacct/docker/b/cpuacct.usage"),
        ("0::/docker/b\n", "0::/init\n", "docker/b/cpu.stat"),
        ("4:cpu,cpuacct:/\n2:memory:/grader/b\n", "4:cpu,cpuacct:/\n", None),  # a box that shares the judge's account
        ("0::/\n", "0::/init\n", None),  # the judge's is below: it would be counted too
        ("0::/docker/none\n", "0::/init\n", None),
        ("", "0::/init\n", None),
    ],
)
def test_the_account_of_a_cgroup_of_the_boxs_own(tmp_path, theirs, ours, account):
    for name in ("cpu,cpuacct/docker/b/cpuacct.usage", "cpu,cpuacct/cpuacct.usage", "docker/b/cpu.stat", "cpu.stat"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    assert cgroup_account(theirs, ours, tmp_path) == (Path(tmp_path) / account if account else None)
