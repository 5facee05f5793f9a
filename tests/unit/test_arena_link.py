"""What goes over the link between judge and runner."""

import socket
from dataclasses import replace

from sandbox import arena, wire
from sandbox.devices.emulated import EmulatedDevice
from sandbox.judge.baseline import runner_job
from sandbox.judge.lane import _told_at_once
from sandbox.judge.references import Task
from tests.unit.test_lane import PROBLEM


def test_hidden_templates_come_when_they_are_wanted() -> None:
    """Not with the job: the values in them would tell a kernel that only loads; public ones are there at once."""
    task = Task(spec=PROBLEM, reference=lambda inputs: inputs, templates=("public", "hidden"))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        job = runner_job(PROBLEM, "python", "solve", EmulatedDevice(), _told_at_once(task))
        arena.send(ours, job, (0, 0, 0, 0), 1.0)
        received, descriptors = arena.receive(theirs)
        assert len(descriptors) == arena.FD_COUNT and received == job and b"hidden" not in wire.encode(received)
        templates = arena.Templates(theirs, received.templates)
        assert templates[0] == "public" and len(templates) == 2
        arena.send(ours, replace(job, templates=task.templates), (), 1.0)
        assert [templates[1], templates[0], templates[1]] == ["hidden", "public", "hidden"]
