"""Attacks on the server's own process beside signals that end it (23 and 36 of README.md)."""

import os
import signal
import subprocess

from grader.isolation import Purpose
from grader.isolation.directories import slot_uid
from sandbox.protocol.wire import BoxCause

BARRAGE = """
def barrage(pid, number):
    came = 0
    for _ in range(COUNT):
        try:
            os.kill(pid, number)
            came += 1
        except OSError:
            pass
    return came
"""


async def test_23_a_barrage_of_signals_reaches_nobody(cage):
    """Neither the server nor the box's first process, which has the command's uid and is shielded by its namespace."""
    came = []
    before = signal.signal(signal.SIGURG, lambda *_: came.append(1))
    try:
        attack = f"{BARRAGE.replace('COUNT', '200_000')}\nprint('CAME', barrage({os.getpid()}, signal.SIGURG))"
        attack += "\nfor number in (signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGKILL): os.kill(1, number)"
        ended = await cage.run(attack)
        assert (ended.cause, ended.exit_code, ended.output) == (BoxCause.EXITED, 0, b"CAME 0\n")
        assert came == []
        control = f"{BARRAGE.replace('COUNT', '200')}\nprint('CAME', barrage({os.getpid()}, signal.SIGURG))"
        assert await cage.says(control, without=["own_pids", "own_uid"]) == ["CAME 200"]
        assert came
    finally:
        signal.signal(signal.SIGURG, before)


def attack_on(pid):
    return f"""
    import resource
    attempt('limits', lambda: resource.prlimit({pid}, resource.RLIMIT_NOFILE) and None)
    attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, {pid}, os.getpriority(os.PRIO_PROCESS, {pid})))
    attempt('cores', lambda: os.sched_setaffinity({pid}, os.sched_getaffinity({pid})))
    attempt('scheduler', lambda: os.sched_setscheduler({pid}, os.SCHED_OTHER, os.sched_param(0)))
    """


async def test_36_the_servers_limits_cores_and_priority_are_its_own(cage, root_only):
    """Two layers: its number means nothing in the box, and where it does its uid is another.

    The control: a process of the box's uid outside, which the namespace alone keeps apart. Nothing is changed, only set to what it is.
    """
    names, uid = ("limits", "nice", "cores", "scheduler"), slot_uid(cage.slot, Purpose.BUILD)
    unknown = [f"{name} DENIED {'EPERM' if name == 'scheduler' else 'ESRCH'}" for name in names]  # the one is the filter's
    assert await cage.says(attack_on(os.getpid())) == unknown
    open_to_all = ["own_pids", "seccomp"]
    assert await cage.says(attack_on(os.getpid()), without=open_to_all) == [f"{name} DENIED EPERM" for name in names]
    with subprocess.Popen(["/bin/sleep", "60"], user=uid, group=uid, extra_groups=[]) as canary:
        assert await cage.says(attack_on(canary.pid), without=open_to_all) == [f"{name} THROUGH None" for name in names]
        canary.kill()
