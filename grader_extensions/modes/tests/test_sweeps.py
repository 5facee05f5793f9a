"""Sweeps over a real socket: what may be asked for, what is shown, and that nothing hidden is."""

import pytest

from grader.errors import InvalidRequest, RequestIdReused
from grader.v1 import problem_pb2, report_pb2, submission_pb2
from sandbox.protocol import wire
from tests import fakes

RANGE = {"axis": "n", "start": 16, "stop": 64, "factor": 2.0}
DECLARED = '\n[[sweep]]\naxis = "n"\nstart = 16\nstop = 256\nfactor = 4\n'
HIDDEN = ("secret33", "33")


@pytest.fixture
def swept(kernel):
    """A submission in mode SWEEP; what it asks for."""

    def make(order="accept", **fields):
        submission = kernel(order, mode=wire.Mode.SWEEP)
        submission.sweep.CopyFrom(problem_pb2.Sweep(**fields))
        return submission

    return make


async def test_a_sweep_is_graded_size_by_size_and_never_scored(client, swept, finished):
    """With its sizes in the answer, a measurement for each, and no score."""
    submission = await client.submit(swept(**RANGE))
    assert submission.mode == submission_pb2.MODE_SWEEP
    assert [workload.axes["n"] for workload in submission.sweep.workloads] == [16, 32, 64]
    ended = await finished(client, submission)
    full = await client.get_submission(submission.name, full=True)
    assert ended.report.verdict == report_pb2.VERDICT_ACCEPTED and not ended.HasField("score")
    assert [measurement.workload_id for measurement in full.report.measurements] == ["n-16", "n-32", "n-64"]
    assert list(full.report.measurements[0].certified.sample_durations_ns) == [1440, 1600, 1760] and not full.report.speedups


async def test_no_hidden_workload_is_in_anything_that_a_sweep_shows(client, swept, finished):
    """Neither in answers nor in events, also where the size itself is swept by chance."""
    for fields in (RANGE, {**RANGE, "start": 32, "stop": 34, "step": 1, "factor": None}):
        sweep = await client.submit(swept(**fields))
        texts = [sweep, *[event async for event in client.watch(sweep.name)], await client.get_submission(sweep.name, full=True)]
        assert HIDDEN[0] not in str(texts) and "hidden" not in str(texts)


async def test_a_hidden_size_is_accepted_as_every_other_is(client, swept):
    """There is no answer by which it could be found."""
    answers = []
    for size in (33, 34):
        submission = await client.submit(swept(axis="n", start=size, stop=size, step=1))
        (workload,) = submission.sweep.workloads
        assert workload.axes["n"] == size
        workload.ClearField("axes")
        workload.workload_id = ""
        answers.append(str(submission.sweep))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("sweep.axis", {}),
        ("sweep.factor", {**RANGE, "factor": 1.0}),
        ("sweep.stop", {**RANGE, "start": 2**30, "stop": 2**31 - 1}),
        ("sweep.axes", {**RANGE, "axes": {"m": 3}}),
    ],
)
async def test_a_sweep_that_cannot_be_run_is_refused_with_its_key(client, swept, field, fields):
    """Nothing is kept of it."""
    with pytest.raises(InvalidRequest) as refused:
        await client.submit(swept(**fields))
    assert [violation.field for violation in refused.value.violations] == [field]
    assert not (await client.list_submissions()).submissions


async def test_a_sweep_is_for_its_mode(client, kernel):
    """Of another mode its field is refused."""
    wrong = kernel("accept", mode=wire.Mode.BENCHMARK)
    wrong.sweep.CopyFrom(problem_pb2.Sweep(**RANGE))
    with pytest.raises(InvalidRequest) as refused:
        await client.submit(wrong)
    assert [violation.field for violation in refused.value.violations] == ["sweep"]


async def test_a_problem_shows_its_sweeps_and_they_are_the_default(serve, settings):
    """A range, without its sizes."""
    path = settings.problems[0] / "sum" / "problem.toml"
    path.write_text(path.read_text() + DECLARED)
    async with serve() as client:
        (shown,) = (await client.get_problem("problems/sum")).sweeps
        assert (shown.axis, shown.start, shown.stop, shown.factor, shown.HasField("step")) == ("n", 16, 256, 4.0, False)
        submission = submission_pb2.Submission(problem="problems/sum", mode="MODE_SWEEP")
        submission.sources.add(path="kernel.cu", content=fakes.source("accept"))
        assert [workload.axes["n"] for workload in (await client.submit(submission)).sweep.workloads] == [16, 64, 256]


async def test_a_request_id_is_for_one_sweep(client, swept):
    """The same id with other sizes is another request."""
    request_id = "00000000-0000-0000-0000-00000000000a"
    first = await client.submit(swept(**RANGE), request_id=request_id)
    assert (await client.submit(swept(**RANGE), request_id=request_id)).name == first.name
    with pytest.raises(RequestIdReused):
        await client.submit(swept(**{**RANGE, "stop": 32}), request_id=request_id)
