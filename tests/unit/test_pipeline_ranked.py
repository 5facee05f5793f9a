"""Ranked mode: several processes, one after the other, each in a box of its own, on one lane."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from grader.dispatch.local_fleet import LocalFleet
from grader.errors import JudgeBroken
from grader.grading.attempt import closed_link
from grader.grading.pipeline import LEFT_OUT
from grader.isolation import Box, BoxExit, BoxSpec, Purpose
from grader.model import Lease, Ranking, Verdict
from grader.verdict.fold import IncompleteFacts, fold
from sandbox.protocol import wire
from sandbox.protocol.wire import BoxCause, Step
from tests import fakes
from tests.unit import pipeline_fleets
from tests.unit.pipeline_fleets import graded, until


class Talker(fakes.FakeBox):
    """A box that printed one line before anything hidden was run, and one after."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._text, self._began_ns = f"public {number}\n".encode(), time.monotonic_ns()

    async def wait(self) -> BoxExit:
        await super().wait()
        output = self._text + b"secret size 33\n"
        return BoxExit(cause=BoxCause.KILLED, output=output, arrivals=((0, self._began_ns), (len(self._text), time.monotonic_ns())))


class Boxes(fakes.FakeBoxes):
    """Boxes that talk, and a count of the run boxes that are there at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most_at_once = 0

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        async with super().start(spec) as box:
            at_once = [open_spec for open_spec in self.open if open_spec.purpose is Purpose.RUN]
            self.most_at_once = max(self.most_at_once, len(at_once))
            yield box if spec.purpose is Purpose.BUILD else Talker(len(self.runs))


@pytest.fixture
def boxes() -> Boxes:
    """Boxes that talk."""
    return Boxes()


@pytest.fixture
def fleet(make: Callable[..., LocalFleet]) -> LocalFleet:
    return make()


def lease(name: str = "s1", *, mode: wire.Mode = wire.Mode.RANKED, count: int = 3) -> Lease:
    first = pipeline_fleets.lease(name, mode=mode)
    return replace(first, problem=replace(first.problem, ranking=Ranking(process_count=count)))


def kinds(facts: list[wire.Fact]) -> str:
    letters = {wire.Build: "B", wire.Round: "R", wire.Load: "L", wire.Trial: "t", wire.Finished: "F", wire.RunEnd: "E"}
    return "".join(letters.get(type(fact), "") for fact in facts)


async def test_each_process_has_a_box_of_its_own_and_is_judged_as_the_first(fleet: LocalFleet, boxes: Boxes, judges: fakes.Judges) -> None:
    facts = await graded(fleet, lease())
    assert kinds(facts) == "B" + "RLtttFE" * 3
    assert [(fact.index, fact.count) for fact in facts if isinstance(fact, wire.Round)] == [(0, 3), (1, 3), (2, 3)]
    assert [spec.box_id for spec in boxes.runs] == ["s1-1-run", "s1-1-run-1", "s1-1-run-2"] and boxes.most_at_once == 1
    assert fold(facts, lease().ranking).verdict is Verdict.ACCEPTED and boxes.open == []
    await until(lambda: judges.log("emulated")[-1] == "Check well")
    assert [line.split()[0] for line in judges.log("emulated")] == ["start", "Job", "Job", "Job", "Check"]


async def test_other_modes_have_one_process_and_say_nothing_of_it(fleet: LocalFleet, boxes: Boxes) -> None:
    for mode in (wire.Mode.TEST, wire.Mode.BENCHMARK):
        assert kinds(await graded(fleet, lease(mode.value, mode=mode))) == "BLtttFE"
    assert len(boxes.runs) == 2


async def test_a_benchmark_whose_judge_asks_for_new_times_is_judged_again(fleet: LocalFleet, boxes: Boxes, judges: fakes.Judges) -> None:
    judges.order("emulated", "restart", "restart")
    facts = await graded(fleet, lease(mode=wire.Mode.BENCHMARK))
    assert kinds(facts) == "BLtttE" + "RLtttFE" and len(boxes.runs) == 2 and boxes.most_at_once == 1
    assert not any(isinstance(fact, wire.Restart) for fact in facts)
    assert [line for line in judges.log("emulated") if line.startswith("Job")] == ["Job restart", "Job restart own share"]
    report = fold(facts)
    assert report.verdict is Verdict.ACCEPTED and len(report.trials) == 3 and report.summary.startswith("Right on all 3 runs")
    assert report.process_count == 1
    assert [span.step for span in report.timeline][-6:] == [Step.BOX, Step.LOAD, Step.CLOSE] * 2


async def test_of_two_processes_of_a_benchmark_each_has_to_be_right(fleet: LocalFleet, boxes: Boxes, judges: fakes.Judges) -> None:
    """Wrong before the baselines are timed, and nothing is timed; wrong after it, and the first process does not help. A judge that ends
    between them has not finished."""
    judges.order("emulated", "wrong")
    facts = await graded(fleet, lease("a", mode=wire.Mode.BENCHMARK))
    assert kinds(facts) == "BLtFE" and fold(facts).verdict is Verdict.WRONG_ANSWER
    await until(lambda: judges.log("emulated")[-1].startswith("Check"))
    judges.order("emulated", "restart", "wrong")
    facts = await graded(fleet, lease("b", mode=wire.Mode.BENCHMARK))
    assert kinds(facts) == "BLtttE" + "RLtFE" and fold(facts).verdict is Verdict.WRONG_ANSWER
    again = next(index for index, fact in enumerate(facts) if isinstance(fact, wire.Round))
    for end in (again, again + 1, len(facts)):
        rest = [fact for fact in facts[:end] if not isinstance(fact, wire.Trial) or fact.outcome is wire.TrialOutcome.PASSED]
        with pytest.raises(IncompleteFacts):
            fold([fact for fact in rest if not isinstance(fact, wire.Finished)])


async def test_the_first_failure_ends_it(fleet: LocalFleet, boxes: Boxes, judges: fakes.Judges) -> None:
    judges.order("emulated", "well", "wrong")
    facts = await graded(fleet, lease())
    assert kinds(facts) == "B" + "RLtttFE" + "RLtFE" and len(boxes.runs) == 2
    assert fold(facts, lease().ranking).verdict is Verdict.WRONG_ANSWER


async def test_a_judge_that_dies_in_a_later_process_is_our_fault(fleet: LocalFleet, boxes: Boxes, judges: fakes.Judges) -> None:
    """The attempt is made again from the first on: no process of another attempt counts."""
    judges.order("emulated", "well", "well", "die")
    with pytest.raises(JudgeBroken):
        await graded(fleet, lease())
    assert len(boxes.runs) == 3 and boxes.open == []
    assert kinds(await graded(fleet, lease("s2"))) == "B" + "RLtttFE" * 3


async def test_what_is_printed_is_left_out_from_the_first_hidden_workload_of_the_first_process_on(fleet: LocalFleet) -> None:
    """The first process may leave the sizes for the second, which could print them before it meets a hidden workload itself."""
    ends = [fact for fact in await graded(fleet, lease()) if isinstance(fact, wire.RunEnd)]
    assert [end.output for end in ends] == [f"public 1\n{LEFT_OUT}", LEFT_OUT, LEFT_OUT]


async def test_where_nothing_is_hidden_all_is_kept_of_every_process(fleet: LocalFleet) -> None:
    """The control: it is the hidden workload of the first process that hides the output of the second."""
    wanted = lease()
    public = tuple(replace(workload, hidden=False) for workload in wanted.problem.spec.workloads)
    wanted = replace(wanted, problem=replace(wanted.problem, spec=replace(wanted.problem.spec, workloads=public)))
    ends = [fact for fact in await graded(fleet, wanted) if isinstance(fact, wire.RunEnd)]
    assert [end.output for end in ends] == [f"public {number}\nsecret size 33\n" for number in (1, 2, 3)]


async def test_a_failure_of_a_later_process_is_reported_without_words_of_its_own(fleet: LocalFleet, judges: fakes.Judges) -> None:
    """A public workload that fails in the second process is said as a hidden one is; in the first it is named: the control."""
    judges.order("emulated", "well", "wrong", "well", "wrong")  # the third is the look at the device after a failure
    later = fold(await graded(fleet, lease()), lease().ranking)
    assert later.summary.endswith("on a hidden workload; try sizes that are odd, prime or 1 with grader-cli sweep.")
    first = fold(await graded(fleet, lease("s2")), lease().ranking)
    assert "on workload '" in first.summary


async def test_others_wait_until_the_last_process_is_done(fleet: LocalFleet) -> None:
    """The lane is held over all processes: nobody is timed between two of them, nor beside them."""
    order: list[str] = []

    async def follow(name: str) -> None:
        async with asyncio.timeout(300), aclosing(fleet.grade(lease(name))) as facts:  # type: ignore[type-var]
            async for fact in facts:
                if isinstance(fact, (wire.Round, wire.RunEnd)):
                    order.append(name)

    await asyncio.gather(follow("s1"), follow("s2"))
    assert sorted(order[:6]) == [order[0]] * 6 and sorted(order[6:]) == [order[6]] * 6 and order[0] != order[6]


async def test_a_cancelled_attempt_leaves_no_box(fleet: LocalFleet, boxes: Boxes, judges: fakes.Judges) -> None:
    judges.order("emulated", "well", "hush")
    job = asyncio.ensure_future(graded(fleet, lease()))
    await until(lambda: "Job hush" in judges.log("emulated"))
    job.cancel()
    await asyncio.wait([job])
    assert job.cancelled() and boxes.open == []
    assert kinds(await graded(fleet, lease("s2", count=1))) == "BRLtttFE"


async def test_a_box_that_ended_says_nothing_of_the_next(tmp_path: Path) -> None:
    """A judge that still saw the first box's end would not wait for the second runner."""
    link, closed = tmp_path / "judge.sock", tmp_path / "judge.sock.closed"
    async with closed_link(fakes.EndedBox(BoxExit(cause=BoxCause.EXITED)), link):
        await until(closed.exists)
    assert closed.exists()
    async with closed_link(fakes.FakeBox(), link):
        assert not closed.exists()
