"""Run boxes that wait for a job: silent, alike in nothing that they should not share, and with the limits of a new one. A box that was used
is not there for the next job; the control is a second call in the same box, which finds all that the first one left."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.grading.attempt import started
from grader.isolation import Box
from sandbox.protocol import wire
from tests.harness.grading import Grading, grader, load_problem, processes_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ADD = (Path(__file__).parents[2] / "kernels_examples" / "vector_add" / "grid_stride.cu").read_text("utf-8")
SILENT_S = 3.0
AT_RANDOM, AT_BASE = 25, 7  # of the auxiliary vector, see getauxval(3)
# Leaves what a box can leave, and says what it finds of a job before it.
TRACES = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
extern "C" void solve(const float* a, const float* b, float* c, long n, void* stream) {
    static int count = 0;
    if (count++ < 2) {
        const char* found = access("/tmp/trace", F_OK) == 0 && access("/dev/shm/trace", F_OK) == 0 ? "traces" : "none";
        printf("call %d: %s\\n", count, found);
        fflush(stdout);
    }
    close(open("/tmp/trace", O_CREAT | O_RDWR, 0600));
    close(shm_open("/trace", O_CREAT | O_RDWR, 0600));
    for (long i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
"""


def graded(isolation: str, use: Callable[[Grading], Awaitable[None]], *, warm_count: int = 2) -> None:
    """Use a fleet with this isolation; skip where that does not work here."""

    async def run() -> None:
        async with grader(isolation=isolation, lanes=(), device="emulated", warm_count=warm_count) as grading:
            grading.fleet._warm._from_count = 0  # a box waits after the first job, forked or not
            await use(grading)

    if isolation == "docker" and not Path("/var/run/docker.sock").exists() and os.environ.get("GRADER_REQUIRE_DOCKER") != "1":
        pytest.skip("no Docker engine answers here")
    asyncio.run(run())


async def submitted(grading: Grading, source: str = ADD, language: str = "cuda") -> str:
    """Grade it in test mode; what it printed."""
    result = await grading.grade(load_problem("vector_add"), source, language=language, mode=wire.Mode.TEST)
    assert result.verdict == "ACCEPTED", result.explanation
    return result.output


async def waits(grading: Grading, count: int = 1) -> None:
    async with asyncio.timeout(300):
        while grading.fleet.warm().waiting_count < count:
            await asyncio.sleep(0.02)


def waiting(grading: Grading) -> list[Any]:
    """The boxes that wait, all for jobs of one kind."""
    boxes = grading.fleet._warm._waiting()
    assert len({box.key for box in boxes}) == 1
    return boxes


def runner_of(box: Box) -> int:
    """The process that waits: the youngest of the box."""
    assert box.uid != os.geteuid()
    return max(int(line.split()[0]) for line in processes_of({box.uid}))


@pytest.fixture(params=["docker", "bubblewrap"])
def isolation(request: pytest.FixtureRequest) -> str:
    if os.geteuid() != 0:
        pytest.skip("boxes have the uid of this user here, so that their processes can't be told apart")
    name: str = request.param
    return name


def cost(pids: list[int]) -> list[tuple[str, ...]]:
    """Of each thread: CPU time, and how often it was switched."""
    costs = []
    for pid in pids:
        for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
            times = (task / "stat").read_text().rpartition(")")[2].split()[11:13]
            switches = [line for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line]
            costs.append((task.name, *times, *switches))
    return costs


def test_a_box_that_waits_does_nothing(isolation: str) -> None:
    """No CPU time and no context switch in any of its threads."""

    async def use(grading: Grading) -> None:
        await submitted(grading)
        await waits(grading)
        await asyncio.sleep(0.5)
        pids = [int(line.split()[0]) for line in processes_of({waiting(grading)[0].value.result().box.uid})]
        before = cost(pids)
        await asyncio.sleep(SILENT_S)
        assert cost(pids) == before and before

    graded(isolation, use)


def auxiliary(pid: int) -> dict[int, int]:
    content = Path(f"/proc/{pid}/auxv").read_bytes()
    return dict(struct.iter_unpack("QQ", content))


def secret(pid: int) -> bytes:
    """The bytes that the kernel gave it for canaries."""
    with Path(f"/proc/{pid}/mem").open("rb") as memory:
        memory.seek(auxiliary(pid)[AT_RANDOM])
        return memory.read(16)


def test_two_boxes_that_wait_share_no_secret_and_no_layout(isolation: str) -> None:
    """Each was started by itself: another uid, other addresses, other canaries. Those that a parent forks share all but the uid (0075)."""

    async def use(grading: Grading) -> None:
        await submitted(grading)
        await waits(grading, 2)
        boxes = [entry.value.result().box for entry in waiting(grading)]
        first, second = map(runner_of, boxes)
        forked = isolation == "bubblewrap"
        assert boxes[0].uid != boxes[1].uid and (secret(first) == secret(second)) is forked
        assert all((auxiliary(first)[key] == auxiliary(second)[key]) is forked for key in (AT_BASE, AT_RANDOM))

    graded(isolation, use)


def test_a_box_that_waited_has_the_limits_of_a_new_one(isolation: str) -> None:
    """Those of the kernel as its processes have them, and its cgroup."""

    def limits(pid: int) -> tuple[str, dict[str, str]]:
        table = Path(f"/proc/{pid}/limits").read_text()
        (place,) = [line.partition("::")[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line.startswith("0::")] or [
            ""
        ]
        directory = Path("/sys/fs/cgroup") / place.lstrip("/")
        return table, {name: (directory / name).read_text() for name in ("memory.max", "pids.max") if (directory / name).is_file()}

    async def use(grading: Grading) -> None:
        await submitted(grading)
        await waits(grading)
        of_warm = limits(runner_of(waiting(grading)[0].value.result().box))
        spec = waiting(grading)[0].key.spec
        with grading.fleet._warm_place(replace(spec, limits=replace(spec.limits, wall_s=60.0))) as placed:
            async with started(grading.fleet.isolation, placed) as fresh:
                async with asyncio.timeout(300):
                    await fresh.pipes.ready.wait()
                assert limits(runner_of(fresh.box)) == of_warm

    graded(isolation, use)


def test_the_next_job_finds_nothing_of_the_one_before(isolation: str) -> None:
    """Not in /tmp, and not in shared memory: each has a box of its own, though both boxes waited."""

    async def use(grading: Grading) -> None:
        await submitted(grading)
        for _ in range(2):
            await waits(grading)
            output = await submitted(grading, TRACES)
            assert "call 1: none" in output and "call 2: traces" in output
        assert grading.fleet.warm().hit_count == 2

    graded(isolation, use)
