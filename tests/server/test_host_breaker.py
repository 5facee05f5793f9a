"""A host that can't grade takes nothing more and charges nobody; a submission that breaks the grader by itself still ends."""

import asyncio
import errno
from contextlib import asynccontextmanager

import pytest

from grader.dispatch.dispatcher import Dispatcher
from grader.dispatch.host_breaker import IDLE_S, PROBE_MOST_S, PROBE_S, SPOILED_LIMIT, UNPROVEN, HostBreaker
from grader.errors import JudgeBroken, ProblemBroken, SandboxBroken
from grader.ledger import Ledger
from grader.ledger.transactions import FAILURE_LIMIT
from grader.model import SubmissionState
from tests import fakes
from tests.waiting import until

POISON = "poison"
AWAY = SandboxBroken("the engine refuses the box")


class Host:
    """A host whose boxes work or not, and whose own kernel is graded or not: what is wrong, or "".
    error: what every attempt raises.

    pauses: how long its breaker has slept between probes; each sleep lasts until `tick`, and one
    between looks until `idle` is set.
    """

    def __init__(self):
        self.boxes = self.kernel_fault = ""
        self.error, self.poison = None, JudgeBroken("the judge ended with -11")
        self.own_graded = self.attempt_count = 0
        self.pauses, self.ticks, self.idle = [], asyncio.Queue(), asyncio.Event()
        self.well = fakes.FakeGrade()

    async def check(self):
        if isinstance(self.boxes, Exception):
            raise self.boxes
        return self.boxes

    async def grade_own(self):
        self.own_graded += 1
        return self.kernel_fault

    async def grade(self, lease):
        self.attempt_count += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        if lease.submission.new.user.startswith(POISON):
            raise self.poison
        async for fact in self.well(lease):
            yield fact

    async def pause(self, seconds):
        if seconds == IDLE_S:
            await self.idle.wait()
            self.idle.clear()
        else:
            self.pauses.append(seconds)
            await self.ticks.get()

    def breaker(self):
        return HostBreaker(self.grade, self.check, self.grade_own, pause=self.pause)


@pytest.fixture
async def ledger(tmp_path):
    async with Ledger.open(tmp_path / "l") as opened:
        yield opened


@asynccontextmanager
async def dispatching(ledger, host, *, protected=True):
    """Grade on this host. protected: with its breaker, which is given."""
    async with asyncio.timeout(300), host.breaker() as breaker, asyncio.TaskGroup() as group:
        await breaker.proved()
        grade = breaker.grade if protected else host.grade
        dispatcher = Dispatcher(ledger, grade, capacity=lambda: 0 if protected and breaker.fault else 2, poll_s=0.005)
        group.create_task(dispatcher.run())
        yield breaker
        dispatcher.drain(0.0)


async def submit(ledger, count, user="ada"):
    return [await ledger.submit(fakes.new_submission(user=user), fakes.problem()) for _ in range(count)]


async def states(ledger, submissions):
    return {(await ledger.get(submission.submission_id)).state for submission in submissions}


async def until_ended(ledger, submissions):
    async def ended():
        return all(state.final for state in await states(ledger, submissions))

    await until(ended)
    return await states(ledger, submissions)


async def until_open(breaker, ledger, submissions):
    async def stopped():
        return breaker.fault and SubmissionState.RUNNING not in await states(ledger, submissions)

    await until(stopped)


async def test_an_engine_that_restarts_fails_nothing_that_waits(ledger):
    """Two attempts are spoiled, and charged to nobody; the others are not even begun before the boxes work again."""
    host = Host()
    async with dispatching(ledger, host) as breaker:
        host.boxes, host.error = "no Docker engine answers", AWAY
        waiting = await submit(ledger, 40)
        await until_open(breaker, ledger, waiting)
        assert breaker.fault == "no Docker engine answers" and host.attempt_count <= 2
        assert await states(ledger, waiting) == {SubmissionState.QUEUED}
        host.ticks.put_nowait(None)  # a probe that fails
        host.boxes = host.error = ""
        host.error = None
        host.ticks.put_nowait(None)
        assert await until_ended(ledger, waiting) == {SubmissionState.SUCCEEDED}
        assert breaker.fault == ""


async def test_without_the_breaker_such_a_restart_fails_all(ledger):
    """The control."""
    host = Host()
    async with dispatching(ledger, host, protected=False):
        host.boxes, host.error = "no Docker engine answers", AWAY
        assert await until_ended(ledger, await submit(ledger, 40)) == {SubmissionState.FAILED}


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError(errno.EMFILE, "out of it"), id="no descriptors"),
        pytest.param(OSError(errno.ENOSPC, "out of it"), id="no space"),
        pytest.param(SandboxBroken("the builder failed: No module named 'tree_sitter'"), id="no package"),
    ],
)
async def test_a_host_that_starts_boxes_and_grades_nothing_charges_nobody(ledger, error):
    """The queue stops after two submissions. The first kernel of its own that is graded ends it."""
    host = Host()
    async with dispatching(ledger, host) as breaker:
        host.error, host.kernel_fault = error, "not graded"
        waiting = await submit(ledger, 8)
        await until_open(breaker, ledger, waiting)
        assert "out of" in breaker.fault or breaker.fault == "not graded"
        assert host.attempt_count <= 3 and await states(ledger, waiting) == {SubmissionState.QUEUED}
        host.error, host.kernel_fault = None, ""
        host.ticks.put_nowait(None)
        assert await until_ended(ledger, waiting) == {SubmissionState.SUCCEEDED}


async def test_a_submission_that_breaks_the_grader_alone_is_charged(ledger):
    """Its third spoiled attempt ends it, as the host is well and others are graded; nothing waits for longer than a probe."""
    host = Host()
    async with dispatching(ledger, host) as breaker:
        (poison,) = await submit(ledger, 1, POISON)
        honest = await submit(ledger, 6)
        assert await until_ended(ledger, [poison]) == {SubmissionState.FAILED}
        assert await until_ended(ledger, honest) == {SubmissionState.SUCCEEDED}
        assert breaker.fault == "" and host.pauses == []
    assert (await ledger.get(poison.submission_id)).attempt_count == FAILURE_LIMIT


@pytest.mark.parametrize("poison", [JudgeBroken("the judge ended with -11"), OSError(errno.ENOSPC, "no room")])
async def test_many_that_break_the_grader_together_end_too_and_keep_nobody_out(ledger, poison):
    """They open the breaker for each other, for as long as a probe takes: it never backs off, for the host is well each time."""
    host = Host()
    host.poison = poison
    async with dispatching(ledger, host) as breaker:
        poisons = await submit(ledger, 4, POISON)
        assert await until_ended(ledger, await submit(ledger, 4)) == {SubmissionState.SUCCEEDED}
        assert await until_ended(ledger, poisons) == {SubmissionState.FAILED}
        assert breaker.fault == "" and host.pauses == [] and host.own_graded > 1
    counts = [(await ledger.get(entry.submission_id)).attempt_count for entry in poisons]
    assert max(counts) <= SPOILED_LIMIT + FAILURE_LIMIT


async def test_probes_back_off_and_a_host_that_comes_back_begins_anew():
    """Five seconds at first, half a minute at most."""
    host = Host()
    async with asyncio.timeout(300), host.breaker() as breaker:
        await breaker.proved()
        for _ in range(2):
            host.boxes = "no engine"
            host.idle.set()
            for count in range(1, 6):
                await until(lambda count=count: len(host.pauses) == count)
                host.boxes = "no engine" if count < 5 else ""
                host.ticks.put_nowait(None)
            await until(lambda: not breaker.fault)
            assert host.pauses == [PROBE_S, 2 * PROBE_S, 4 * PROBE_S, PROBE_MOST_S, PROBE_MOST_S]
            host.pauses.clear()


async def test_a_host_takes_nothing_before_it_has_graded_a_kernel_of_its_own(ledger):
    """Waiting submissions are then graded. The control: without being asked for such a proof, it is well from the start."""
    host = Host()
    host.kernel_fault = "SANDBOX_BROKEN: the builder failed: No module named 'tree_sitter'"
    async with HostBreaker(host.grade, host.check, None, pause=host.pause) as breaker:
        assert breaker.fault == await breaker.proved() == ""
    assert host.breaker().fault == UNPROVEN
    async with dispatching(ledger, host) as breaker:
        waiting = await submit(ledger, 2)
        assert breaker.fault == host.kernel_fault and host.attempt_count == 0
        host.kernel_fault = ""
        host.ticks.put_nowait(None)
        assert await until_ended(ledger, waiting) == {SubmissionState.SUCCEEDED}


async def test_a_problem_that_does_not_work_says_nothing_of_the_host(ledger):
    """Its submissions fail at once, and the host goes on."""
    host = Host()
    async with dispatching(ledger, host) as breaker:
        host.error, host.own_graded = ProblemBroken("its reference raises"), 0
        assert await until_ended(ledger, await submit(ledger, 4)) == {SubmissionState.FAILED}
        assert breaker.fault == "" and host.own_graded == 0


async def test_a_look_that_breaks_is_a_fault_and_not_the_end_of_looking():
    """An isolation may raise what nobody expected."""
    host = Host()
    async with asyncio.timeout(300), host.breaker() as breaker:
        await breaker.proved()
        host.boxes = OSError(errno.EMFILE, "too many open files")
        host.idle.set()
        await until(lambda: breaker.fault)
        assert breaker.fault.startswith("OSError")
        host.boxes = ""
        host.ticks.put_nowait(None)
        await until(lambda: not breaker.fault)


async def test_a_secret_in_an_error_is_not_in_what_readiness_says(ledger):
    """Of a competition's problem, an error may quote a size."""
    host = Host()
    async with dispatching(ledger, host) as breaker:
        host.error, host.kernel_fault = SandboxBroken("no room for 1234567 elements"), "not graded"
        faults = set()
        waiting = await submit(ledger, 3)

        async def stopped():
            faults.add(breaker.fault)
            return breaker.fault == "not graded"

        await until(stopped)
        assert not any("1234567" in fault for fault in faults)
        assert await states(ledger, waiting) <= {SubmissionState.QUEUED, SubmissionState.RUNNING}
