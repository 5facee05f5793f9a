"""examples/search_loop against a server whose grading is a fake: what a user would start a search from."""

import asyncio
import math
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from examples.search_loop import main as example
from grader.api.client import GraderClient
from grader.errors import QueueFull
from grader.server.running import serving
from grader.v1 import report_pb2, submission_pb2
from sandbox.protocol import wire
from tests import fakes

MAIN = Path(example.__file__)
LINES = 150
# The fastest is TILE 16 with two rows; TILE 32 is wrong, and more than two rows do not compile.
TIMES_NS = {(4, 1): 8000, (2, 1): 16000, (8, 1): 4000, (4, 2): 9000, (16, 1): 2000, (8, 2): 3500, (16, 2): 1000}


def variant(source):
    return tuple(int(re.search(rf"constexpr int {name} = (\d+);", source)[1]) for name in ("TILE", "ROWS"))


class TileGrade(fakes.FakeGrade):
    """Its times are those of a table."""

    def __init__(self):
        super().__init__()
        self.variants = []

    async def _facts(self, lease):
        parameters = variant(lease.submission.new.sources[0].content)
        self.variants.append(parameters)
        yield fakes.ENVIRONMENT
        if parameters[1] > 2:
            yield wire.Build(outcome=wire.BuildOutcome.REJECTED, duration_ns=1, log="too many")
            yield wire.Finished(job_id="job")
            return
        yield wire.Build(outcome=wire.BuildOutcome.BUILT, duration_ns=1, artifact_digest="e" * 64)
        yield wire.Load(outcome=wire.LoadOutcome.LOADED)
        wrong = parameters[0] == 32
        shown = [workload.workload_id for workload in lease.problem.spec.workloads if not workload.hidden]
        yield wire.Plan(trials=tuple((name, wire.TrialPhase.VERIFY, 1) for name in shown), measured=tuple(shown))
        for workload_id in shown:
            outcome = wire.TrialOutcome.MISMATCHED if wrong else wire.TrialOutcome.PASSED
            yield fakes.trial(workload_id, outcome=outcome)
            if not wrong:
                times = wire.Samples(durations_ns=(TIMES_NS.get(parameters, 9000),) * 3)
                yield replace(fakes.measurement(workload_id), certified=times, reported=times)
        yield wire.Finished(job_id="job")


async def run(address, *options):
    """Run the example; return its output."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(MAIN), "--server", address, *options,
        env={**os.environ, "PYTHONPATH": str(MAIN.parents[2])}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 300)
    return process.returncode, out.decode()


@pytest.fixture
async def searched(settings, place, tmp_path):
    """The output of a search, a client of its server, what was graded, and the plot."""
    fakes.write_problem(place / "problems", "tril_matmul")
    grade = TileGrade()
    async with (
        serving(settings.model_copy(update={"queue_limit": 100}), fakes.wiring(grade)) as running,
        GraderClient(running.address) as client,
    ):
        code, out = await run(running.address, "--out", str(tmp_path / "rounds.svg"))
        assert code == 0, out
        yield out, client, grade, (tmp_path / "rounds.svg").read_text()


async def test_the_search_finds_the_fastest_tile_and_stops(searched):
    """By rounds of neighbours; what is wrong or does not compile is no candidate, and nothing is tried twice."""
    out, _, grade, _ = searched
    assert "best: TILE 16 ROWS 2, 8.00 times as fast as the first" in out
    assert len(grade.variants) == len(set(grade.variants)) and (32, 1) in grade.variants
    assert "WRONG_ANSWER" in out and "COMPILE_ERROR" in out and "inf us" in out


async def test_its_submissions_are_found_by_tag_with_parent_and_annotations(searched):
    """Each has the search's tag and its round's, and was made from the best of the rounds before."""
    out, client, grade, _ = searched
    run_tag = re.search(r"tag (search-\w+):1", out)[1]
    submissions = (await client.list_submissions(tag=run_tag, page_size=100)).submissions
    assert len(submissions) == len(grade.variants)
    named = {candidate.name: (int(candidate.annotations["TILE"]), int(candidate.annotations["ROWS"])) for candidate in submissions}
    (first,) = [entry for entry in submissions if f"{run_tag}:1" in entry.tags]
    assert named[first.name] == example.START and not first.parent
    for submission in submissions:
        if submission.name != first.name:
            assert named[submission.name] in example.neighbours(named[submission.parent])


async def test_its_plot_has_the_rounds(searched):
    """Three lines, drawn as SVG, each with a mark a round and one in the legend."""
    out, _, _, drawing = searched
    points = [element for element in ElementTree.fromstring(drawing).iter() if "point" in (element.get("class") or "")]
    missing = 2  # of the last round, in which no kernel is right
    assert len(points) == 3 * (out.count("round ") + 1) - missing and "best so far" in drawing


async def test_a_server_that_has_no_such_problem_is_an_error(settings):
    """In one line, with what to do."""
    async with serving(settings, fakes.wiring()) as running:
        code, out = await run(running.address)
    assert code == 1 and "ProblemNotFound" in out and "Traceback" not in out


class FullQueue:
    """A client of a server that has room for one at a time."""

    def __init__(self):
        self.batches = []

    async def batch_submit(self, submissions, *, request_ids, batch):
        assert batch
        self.batches.append(list(request_ids))
        first = submission_pb2.Submission(name=f"submissions/{request_ids[0]}")
        return [first, *(QueueFull(1, retry_s=0.0) for _ in submissions[1:])]


async def test_those_for_which_there_was_no_room_are_sent_again():
    """With their own request ids, so that none is taken twice; each is followed under the name that it got."""
    client = FullQueue()
    submissions = {(tile, 1): submission_pb2.Submission() for tile in (2, 4, 8)}
    of_name = await example.Search(client, "")._submit(submissions)
    ids = client.batches[0]
    assert client.batches == [ids, ids[1:], ids[2:]]
    assert of_name == {f"submissions/{submission_id}": variant for submission_id, variant in zip(ids, submissions, strict=True)}


def test_a_report_that_is_not_accepted_is_never_the_fastest():
    """Whatever times are in it."""
    report = report_pb2.Report(verdict="VERDICT_ACCEPTED")
    report.measurements.add().certified.median_duration.FromNanoseconds(4000)
    report.measurements.add().certified.median_duration.FromNanoseconds(1000)
    assert example.time_us(report) == pytest.approx(2.0)
    report.verdict = report_pb2.VERDICT_WRONG_ANSWER
    assert example.time_us(report) == math.inf


def test_the_template_is_the_first_variant_and_the_example_is_short():
    """`tril_matmul.cu` can be graded as it is."""
    assert example.source(example.START) == example.TEMPLATE.read_text()
    assert variant(example.source((16, 2))) == (16, 2)
    assert len(MAIN.read_text().splitlines()) < LINES
