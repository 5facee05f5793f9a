"""Which sizes a sweep has, what it is judged by, and what is concluded: no hidden workload, bounded sizes, no point where it is wrong."""

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from grader.dispatch.local_fleet import PROFILES, read_profile
from grader.errors import ProblemInvalid
from grader.formats import native
from grader.model import Sweep, Verdict
from grader.rules.disclosure import Redactor
from grader.rules.sweep import BYTES_LIMIT, SIZE_LIMIT, SweepInvalid, check_bytes, sizes
from grader.v1.problem_pb2 import Sweep as SweepRequest
from grader.verdict.fold import IncompleteFacts
from grader_extensions.modes.sweep import MEASURE_LIMIT_S, fold, sweep_problem
from sandbox.protocol import wire
from tests import fakes
from tests.unit import pipeline_fleets
from tests.unit.pipeline_fleets import graded
from tests.unit.test_verdict import BUILT, FINISHED, LOADED

EXAMPLES = Path(__file__).parents[3] / "kernels_examples"
SQUARE = native.load(EXAMPLES / "elementwise_square")
BOTH = ("cuda", "emulated")


def test_a_factor_multiplies_and_a_step_adds_up_to_the_stop():
    assert sizes(Sweep(axis="n", start=256, stop=2048, factor=2)) == (256, 512, 1024, 2048)
    assert sizes(Sweep(axis="n", start=256, stop=2047, factor=2)) == (256, 512, 1024)
    assert sizes(Sweep(axis="n", start=10, stop=35, step=10)) == (10, 20, 30)
    assert sizes(Sweep(axis="n", start=7, stop=7, step=1)) == (7,)
    assert sizes(Sweep(axis="n", start=2, stop=6, factor=1.0001)) == (2, 3, 4, 5, 6)  # rounded to the same size it would never end
    assert len(sizes(Sweep(axis="n", start=1, stop=SIZE_LIMIT, step=1))) == SIZE_LIMIT


@pytest.mark.parametrize(
    ("key", "fields"),
    [
        ("factor", {}),
        ("factor", {"factor": 2, "step": 3}),
        *(("factor", {"factor": value}) for value in (1.0, 0.5, -2, float("nan"), float("inf"), 1e300)),
        *(("step", {"step": value}) for value in (0, -1)),
        *(("start", {"step": 1, "start": value}) for value in (0, -5, 2**31)),
        *(("stop", {"step": 1, "stop": value}) for value in (9, 2**31, 2**62)),
        ("step", {"step": 1, "stop": 10 + SIZE_LIMIT}),
        ("factor", {"factor": 1.0000001, "stop": 2**31 - 1}),
    ],
)
def test_what_is_out_of_range_is_named_by_its_key(key, fields):
    """Also where there would be millions of sizes: they are counted up to the limit only."""
    with pytest.raises(SweepInvalid) as wrong:
        sizes(Sweep(**{"axis": "n", "start": 10, "stop": 20, **fields}))
    assert wrong.value.key == key


@pytest.mark.parametrize("kind", BOTH)
def test_a_size_has_a_bounded_memory_on_each_device(kind):
    tensors = {
        "inputs": (wire.TensorSpec(name="a", dtype="float16", shape=("n",)),),
        "outputs": (wire.TensorSpec(name="b", dtype="bool", shape=("n",)),),
    }
    spec = dataclasses.replace(fakes.problem().spec, **tensors)
    limit = BYTES_LIMIT[kind] // 3
    check_bytes(spec, {"n": limit}, "n", kind)
    with pytest.raises(SweepInvalid, match="choose a smaller stop"):
        check_bytes(spec, {"n": limit + 1}, "n", kind)


# -- the problem of a sweep ------------------------------------------------------------------------------------------------


def test_a_sweep_has_its_own_sizes_and_no_workload_of_the_problem():
    """The control: the problem has hidden workloads, and max-autotune is asked for."""
    problem = dataclasses.replace(SQUARE, spec=dataclasses.replace(SQUARE.spec, baselines=("max-autotune",)))
    assert any(workload.hidden for workload in problem.spec.workloads)
    swept = sweep_problem(problem, SweepRequest(), ("emulated",))
    assert [workload.workload_id for workload in swept.spec.workloads] == [f"cols-{size}" for size in (512, 1024, 2048, 4096, 8192)]
    assert all(not entry.hidden and entry.axes["rows"] == 256 and entry.device_kind == "emulated" for entry in swept.spec.workloads)
    first = swept.spec.workloads[0]
    assert (first.moved_bytes, first.flops) == (4 * 2 * 256 * 512, 256 * 512)
    assert swept.spec.baselines == () and swept.digest != problem.digest and swept.swept_axis == "cols"
    hidden = [workload.workload_id for workload in problem.spec.workloads if workload.hidden]
    assert not any(name in repr(swept.spec.workloads) for name in hidden)


def test_a_hidden_size_is_answered_as_any_other():
    """A refusal, or another tolerance, would tell a submitter who asks for one size after the other which of them is hidden."""
    hidden = next(workload for workload in SQUARE.spec.workloads if workload.hidden and workload.axes["cols"] == 777)

    def answer_for(size):
        request = SweepRequest(axis="cols", start=size, stop=size, step=1, axes={"rows": hidden.axes["rows"]})
        (workload,) = sweep_problem(SQUARE, request, ("emulated",)).spec.workloads
        return dataclasses.replace(workload, workload_id="", axes={}, moved_bytes=0, flops=0)

    assert answer_for(777) == answer_for(778)


def test_each_kind_of_device_has_the_sweep_that_is_for_it():
    swept = sweep_problem(SQUARE, SweepRequest(), BOTH)
    rows = {(workload.device_kind, workload.axes["rows"]) for workload in swept.spec.workloads}
    assert rows == {("cuda", 4096), ("emulated", 256)}


def test_a_submitter_chooses_no_size_that_the_author_has_not_vouched_for():
    """A reference may take far more than its tensors: attention's scores at a long sequence would take the judge's whole memory. The
    control: by the memory of the tensors alone it would be allowed."""
    problem = native.load(EXAMPLES / "flash_attention")
    shown = [workload for workload in problem.spec.workloads if not workload.hidden and workload.device_kind in ("", "emulated")]
    widest = max(workload.axes["seq"] for workload in shown)
    small_axes = {name: 1 for name in problem.spec.axes if name != "seq"}
    request = SweepRequest(axis="seq", start=widest, stop=widest, step=1, axes=small_axes)
    assert len(sweep_problem(problem, request, ("emulated",)).spec.workloads) == 1
    longer = SweepRequest(axis="seq", start=2 * widest, stop=2 * widest, step=1, axes=small_axes)
    with pytest.raises(SweepInvalid, match="larger than all that the problem has"):
        sweep_problem(problem, longer, ("emulated",))
    check_bytes(problem.spec, {**small_axes, "seq": 2 * widest}, "seq", "emulated")


def test_several_axes_are_not_all_as_large_as_each_may_be():
    """The largest of each axis together are a size that nobody has chosen."""
    emulated = [workload.axes for workload in SQUARE.spec.workloads if workload.device_kind == "emulated"]
    largest = {name: max([256 if name == "rows" else 8192, *(axes[name] for axes in emulated)]) for name in ("rows", "cols")}
    assert largest == {"rows": 256, "cols": 8192}  # which the sweep itself has
    plain = dataclasses.replace(SQUARE, sweeps=())

    def request(rows):
        return SweepRequest(axis="cols", start=4099, stop=4099, step=1, axes={"rows": rows})

    with pytest.raises(SweepInvalid, match="larger than all"):
        sweep_problem(plain, request(223), ("emulated",))
    assert sweep_problem(plain, request(31), ("emulated",)).spec.workloads


@pytest.mark.parametrize(
    ("key", "request_"),
    [
        ("axis", SweepRequest(axis="depth")),
        ("axes", SweepRequest(axes={"depth": 2})),
        ("axes", SweepRequest(axes={"cols": 2})),
        ("axes", SweepRequest(axes={"rows": 0})),
        ("axes", SweepRequest(axes={"rows": 2**40})),
        ("stop", SweepRequest(axes={"rows": 2**31 - 1})),
        ("stop", SweepRequest(start=2**30, stop=2**30)),
        ("step", SweepRequest(start=1, step=1)),
        *(("measure_duration", SweepRequest(measure_duration=Duration(seconds=value))) for value in (0, -1, int(MEASURE_LIMIT_S) + 1)),
    ],
)
def test_a_submitter_cannot_ask_for_more_than_the_limits(key, request_):
    with pytest.raises(SweepInvalid) as wrong:
        sweep_problem(SQUARE, request_, ("emulated",))
    assert wrong.value.key == key


def test_a_problem_whose_sizes_only_its_code_knows_has_no_sweep():
    """Nobody could bound their memory."""
    for changes in ({"inputs": ()}, {"axes": ()}, {"format": "kernelbench"}):
        problem = dataclasses.replace(SQUARE, spec=dataclasses.replace(SQUARE.spec, **changes))
        with pytest.raises(SweepInvalid, match="sizes cannot be changed"):
            sweep_problem(problem, SweepRequest(), ("emulated",))


# -- problem.toml ----------------------------------------------------------------------------------------------------------

SWEEP = '\n[[sweep]]\naxis = "n"\nstart = 64\nstop = 256\nfactor = 2\n'


def write(place, text):
    directory = fakes.write_problem(place, text=fakes.PROBLEM_TOML.format(name="sum"))
    path = directory / "problem.toml"
    path.write_text(path.read_text() + text)
    return directory


def test_a_sweep_is_no_part_of_the_digest(tmp_path):
    """Boards stay: a problem with a sweep is the same problem."""
    without, there = native.load(write(tmp_path / "a", "")), native.load(write(tmp_path / "b", SWEEP))
    assert there.sweeps == (Sweep(axis="n", start=64, stop=256, factor=2.0),) and without.sweeps == ()
    assert without.digest == there.digest


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('axis = "n"', 'axis = "m"', "sweep 1 has the axis 'm', which is not in axes"),
        ("factor = 2", "factor = 1.0", "sweep 1, factor: is 1; it has to be over 1"),
        ("factor = 2", "", "either a factor or a step"),
        ("factor = 2", "factor = 2\nstep = 2", "either a factor or a step"),
        ("stop = 256", "stop = 10", "sweep 1, stop: is 10"),
        ("factor = 2", "step = 1", "more than 128 sizes"),
        ("factor = 2", "factor = 2\naxes = { m = 3 }", "must give exactly the other axes: none"),
        ("stop = 256", "stop = 2147483647", "the tensors take"),
        ("factor = 2", "factor = 2\nwhat = 3", "what"),
        ("factor = 2", 'factor = 2\ndevice = "tpu"', "device"),
    ],
)
def test_a_wrong_sweep_is_refused_where_the_problem_is_read(tmp_path, before, after, message):
    with pytest.raises(ProblemInvalid, match=message.replace("(", r"\(")):
        native.load(write(tmp_path, SWEEP.replace(before, after)))


# -- what is concluded -----------------------------------------------------------------------------------------------------

BEGIN = wire.Plan(trials=(), sweep=("a", "b", "c"))


def size(name, *, failed=None, phase=wire.TrialPhase.VERIFY, measured=True):
    """The facts of one size: verified twice, then timed."""
    facts = [wire.Plan(trials=((name, wire.TrialPhase.VERIFY, 2),), measured=(name,))]
    for index in range(2):
        bad = failed is not None and index == 1
        outcome = failed if bad else wire.TrialOutcome.PASSED
        facts.append(wire.Trial(workload_id=name, phase=phase, index=index, outcome=outcome, mismatched_count=int(bad), element_count=4))
    if measured and failed is None:
        facts.append(fakes.measurement(name))
    return facts


def swept(*parts, begin=BEGIN, end=(FINISHED,)):
    return (BUILT, begin, LOADED, *(fact for part in parts for fact in part), *end)


def points(report):
    return [measurement.workload_id for measurement in report.measurements]


def test_a_kernel_that_is_right_everywhere_has_all_points_and_no_score():
    report = fold(swept(size("a"), size("b"), size("c")))
    assert (report.verdict, points(report)) == (Verdict.ACCEPTED, ["a", "b", "c"])
    assert report.speedups == () and report.score is None and report.summary == "Right at 3 of 3 sizes."


def test_a_kernel_that_is_wrong_at_a_size_has_no_point_there_and_keeps_the_others():
    report = fold(swept(size("a"), size("b", failed=wire.TrialOutcome.MISMATCHED), size("c")))
    assert (report.verdict, report.reason, points(report)) == (Verdict.WRONG_ANSWER, "MISMATCH", ["a", "c"])
    assert "workload 'b'" in report.summary and report.summary.endswith("Right at 2 of 3 sizes.")


def test_a_kernel_that_is_wrong_only_while_it_is_timed_has_no_point():
    bad = wire.Trial(
        workload_id="b", phase=wire.TrialPhase.CERTIFY, index=0, outcome=wire.TrialOutcome.MISMATCHED, mismatched_count=1, element_count=4
    )
    report = fold(swept(size("a"), [*size("b"), bad], size("c")))
    assert points(report) == ["a", "c"] and report.verdict is Verdict.WRONG_ANSWER


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_size_with_a_missing_fact_has_no_point(lost):
    facts = size("b")
    del facts[lost]
    report = fold(swept(size("a"), facts, size("c")))
    assert points(report) == ["a", "c"]


@pytest.mark.parametrize(
    "caught",
    [
        wire.Violation(kind=wire.ViolationKind.PROTOCOL, detail="it wrote to the gate"),
        wire.Evidence(policy=wire.Libraries.FORBIDDEN, imported=("cublasSgemm_v2",)),
        dataclasses.replace(
            fakes.measurement("c"), certified=wire.Samples(durations_ns=(10**12,) * 3), reported=wire.Samples(durations_ns=(1,))
        ),
    ],
    ids=["violation", "library", "claim"],
)
def test_what_makes_times_worthless_leaves_no_point_at_any_size(caught):
    for parts in ((size("a"), size("b")), (size("a", failed=wire.TrialOutcome.MISMATCHED), size("b"))):
        report = fold(swept(*parts, size("c", measured=False), [caught]))
        assert report.verdict is Verdict.DISQUALIFIED and points(report) == []


def test_sizes_for_which_there_was_no_time_decide_nothing_and_are_counted():
    report = fold(swept(size("a")))
    assert (report.verdict, points(report)) == (Verdict.ACCEPTED, ["a"])
    assert report.summary.startswith("Right at 1 of 3 sizes; 2 were not run")
    none = fold(swept())
    assert none.verdict is Verdict.TIME_LIMIT_EXCEEDED and points(none) == []


def test_a_sweep_that_the_judge_did_not_finish_is_our_fault():
    with pytest.raises(IncompleteFacts):
        fold(swept(size("a"), end=()))


def test_how_a_process_ended_is_told_of_the_size_that_ended_it():
    """The sweep goes on in another process, which ends otherwise."""
    crash = wire.RunEnd(cause=wire.BoxCause.SIGNALLED, signal=11)
    fine = wire.RunEnd(cause=wire.BoxCause.KILLED)
    again = wire.Plan(trials=(), sweep=("b", "c"))
    report = fold(
        swept(size("a", failed=wire.TrialOutcome.CRASHED), [FINISHED, crash, again, LOADED], size("b"), size("c"), end=(FINISHED, fine))
    )
    assert (report.verdict, report.reason, points(report)) == (Verdict.RUNTIME_ERROR, "ILLEGAL_ADDRESS", ["b", "c"])


def test_only_a_problem_without_hidden_workloads_tells_its_sizes_as_a_sweep():
    problem = sweep_problem(SQUARE, SweepRequest(), ("emulated",))
    assert Redactor.for_problem(problem).swept == problem and Redactor.for_problem(SQUARE).swept is None
    mixed = dataclasses.replace(problem, spec=SQUARE.spec)
    assert Redactor.for_problem(mixed).swept is None


PROFILE = read_profile(PROFILES / "limits.toml")
SIZES = tuple(wire.Workload(workload_id=f"n-{size}", axes={"n": size}) for size in (1, 2, 3, 4, 5, 6))
HIDDEN = wire.Workload(workload_id="secret33", axes={"n": 33}, hidden=True)


def lease(*, mode=wire.Mode.SWEEP, workloads=SIZES, measure_s=None):
    first = pipeline_fleets.lease(mode=mode, workloads=workloads)
    return replace(first, problem=replace(first.problem, swept_axis="n", sweep_measure_s=measure_s))


def tried(facts):
    return [fact.workload_id for fact in facts if isinstance(fact, wire.Trial)]


async def test_all_sizes_are_run_in_one_process(make, judges, boxes):
    facts = await graded(make(), lease())
    report = fold(facts)
    assert report.verdict is Verdict.ACCEPTED and len(report.measurements) == len(SIZES) == len(tried(facts))
    assert len(boxes.runs) == 1 and judges.log("emulated")[1:3] == ["Job well", "sweep of n-1,n-2,n-3,n-4,n-5,n-6 for 2 s each"]


async def test_a_size_that_ends_the_process_is_followed_by_the_others_in_a_fresh_one(make, judges, boxes):
    judges.order("emulated", "fault", "well")
    facts = await graded(make(), lease())
    assert tried(facts) == [workload.workload_id for workload in SIZES] and len(boxes.runs) == 2
    report = fold(facts)
    assert report.verdict is Verdict.RUNTIME_ERROR and [measurement.workload_id for measurement in report.measurements] == [
        f"n-{n}" for n in (2, 3, 4, 5, 6)
    ]


@pytest.mark.parametrize(
    ("profile", "count"),
    [
        pytest.param({}, PROFILE.sweep_process_count, id="the limit"),
        pytest.param({"sweep_process_count": 100}, len(SIZES), id="without the limit"),
        pytest.param({"sweep_s": 0.0}, 1, id="without time"),
    ],
)
async def test_a_kernel_that_always_crashes_gets_no_more_processes_than_the_limit(make, judges, boxes, profile, count):
    """Nor another one when the time is over. The rest is counted as not run."""
    judges.order("emulated", *["fault"] * 10)
    facts = await graded(make(profile=replace(PROFILE, **profile)), lease())
    assert len(boxes.runs) == count == len(tried(facts))
    assert ("; 2 were not run, because the time or the processes of a sweep were used up." in fold(facts).summary) is (count == 4)


async def test_no_hidden_workload_reaches_a_sweep(make, judges):
    """Whatever problem it is judged by; the control: in another mode it does."""
    facts = await graded(make(), lease(workloads=(*SIZES, HIDDEN)))
    assert HIDDEN.workload_id not in tried(facts) and not any(HIDDEN.workload_id in line for line in judges.log("emulated"))
    assert HIDDEN.workload_id in tried(await graded(make(), lease(mode=wire.Mode.BENCHMARK, workloads=(*SIZES, HIDDEN))))


async def test_a_submission_may_ask_for_another_time_at_each_size(make, judges):
    await graded(make(), lease(measure_s=0.5))
    assert judges.log("emulated")[2].endswith("for 0.5 s each")


async def test_a_box_of_a_sweep_lives_as_long_whatever_the_number_of_sizes(make, boxes):
    for count in (1, 6):
        await graded(make(), lease(workloads=SIZES[:count]))
    limits = [spec.limits for spec in boxes.runs]
    assert limits[0] == limits[1] and limits[0].wall_s == PROFILE.run.wall_s + PROFILE.sweep_s
