"""Bytes that go over the link between judge and runner."""

import os
import socket
from contextlib import suppress
from typing import Any

import pytest

from sandbox.devices.emulated import EmulatedDevice
from sandbox.judge.runner_link import NoRunner, connect
from sandbox.protocol import wire
from sandbox.protocol.gate import FD_COUNT, Templates, receive_job, send_job, send_templates
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.baseline import runner_job
    from sandbox.judge.trial import LEAST_ARENA_BYTES
    from tests.unit.test_lane import PROBLEM


def test_hidden_templates_come_when_they_are_wanted() -> None:
    """Not with the job: the values in them would tell a kernel that only loads; public ones are there at once."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        job = runner_job(PROBLEM, "python", "solve", EmulatedDevice(), ("public", "hidden"))
        send_job(ours, job, (0, 0, 0, 0), 1.0)
        received, descriptors = receive_job(theirs)
        assert len(descriptors) == FD_COUNT and received == job and b"hidden" not in wire.encode(received)
        templates = Templates(theirs, received.templates)
        assert templates[0] == "public" and len(templates) == 2
        send_templates(ours, ("public", "hidden"), 1.0)
        assert [templates[1], templates[0], templates[1]] == ["hidden", "public", "hidden"]


@pytest.mark.parametrize("length", [10, 3_000_000])
def test_long_templates_need_nobody_who_reads_at_once(length: int) -> None:
    """The runner reads when it is asked for the first of them, after they were sent."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        templates = Templates(theirs, ("public", ""))
        send_templates(ours, ("public", "x" * length), 1.0)
        assert templates[1] == "x" * length


def test_a_spare_arena_is_for_one_job() -> None:
    """Each job has pages of its own, whether they were made before it or with it."""
    device = EmulatedDevice()
    device.spare_arena(LEAST_ARENA_BYTES)
    arenas = [device.create_arena(size_bytes) for size_bytes in (2 * LEAST_ARENA_BYTES, LEAST_ARENA_BYTES, LEAST_ARENA_BYTES)]
    device.spare_arena(LEAST_ARENA_BYTES)
    arenas.append(device.create_arena(LEAST_ARENA_BYTES))
    assert [arena.size_bytes // LEAST_ARENA_BYTES for arena in arenas] == [2, 1, 1, 1]
    for number, arena in enumerate(arenas):
        value = arena.tensor(0, "int64", (1,))
        assert value.item() == 0
        value.fill_(number + 1)
    assert len({os.fstat(arena.fd).st_ino for arena in arenas}) == len(arenas)
    for arena in arenas:
        arena.close()


class TooSmall(EmulatedDevice):
    """A device without memory for an arena."""

    def create_arena(self, size_bytes: int) -> Any:
        raise torch.OutOfMemoryError(f"{size_bytes} bytes")


def test_a_baseline_is_told_of_no_job_for_which_there_is_no_memory() -> None:
    """The baseline would wait for that job's memory, and take the next job's."""
    jobs: list[str] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for device, count in ((TooSmall(), 0), (EmulatedDevice(), 1)):
            with (
                suppress(torch.OutOfMemoryError, NoRunner),
                connect(device, ours, runner_job(PROBLEM, "cuda", "solve", device), b"", 0.1, before=lambda: jobs.append("job")),
            ):
                pass
            assert len(jobs) == count
