"""Messages sent out hold what was measured, less what submitters must not see."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from grader.api import messages
from grader.model import Event, Failure, ScoreKind, Submission, SubmissionState, Verdict
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2, submission_pb2
from sandbox.protocol import wire
from tests import fakes

NOW = datetime(2026, 1, 1, 12, 0, 0, 5000, UTC)
MASK = Redactor.for_problem(fakes.problem())
SECRETS = ("secret33", "secret97", "33 elements")


def submission(state=SubmissionState.SUCCEEDED, **fields):
    return Submission(
        submission_id="s1",
        new=fakes.new_submission(),
        problem_digest="d" * 64,
        state=state,
        create_time=NOW,
        attempt_count=2,
        **{"start_time": NOW, "end_time": NOW + timedelta(seconds=1), "report": fakes.report(), **fields},
    )


def event(**fields):
    return Event(sequence=3, event_time=NOW, attempt=1, **fields)


def test_a_problem_shows_its_public_sizes_and_how_many_are_hidden():
    """Neither names nor axes of hidden workloads are in any field."""
    shown = messages.problem_to_proto(fakes.problem())
    assert [workload.workload_id for workload in shown.workloads] == ["n64"] and shown.hidden_workload_count == 2
    assert not any(secret in str(shown) for secret in ("secret", "33", "97"))
    assert (shown.name, shown.entry, list(shown.axes), shown.statement) == ("problems/sum", "solve", ["n"], "Add.")
    # Tensors by pointer, scalars by value: what the box's shim calls.
    assert shown.cuda_signature == 'extern "C" void solve(const float* a, float alpha, float* c, int64_t n, cudaStream_t stream)'
    assert messages.problem_to_proto(replace(fakes.problem(), languages=("torch_extension",))).cuda_signature == ""


def test_hidden_workloads_go_by_numbers_only():
    """In reports and in events: no id, size, count, key or message of theirs."""
    report = messages.report_to_proto(fakes.report(), MASK, full=True)
    assert [(trial.workload_id, trial.hidden) for trial in report.trials] == [("n64", False), ("hidden-1", True)]
    assert report.measurements[1].workload_id == "hidden-2"
    hidden = report.trials[1]
    assert (hidden.key, hidden.element_count, hidden.mismatched_count, hidden.unwritten_count, hidden.message) == ("", 0, 0, 0, "")
    # Numbers that a kernel chooses: it may be wrong by as much as a size, or take as long.
    chosen = ("max_absolute_error", "max_relative_error", "budget_ratio", "run_duration")
    assert not any(hidden.HasField(name) for name in chosen) and all(report.trials[0].HasField(name) for name in chosen)
    facts = (fakes.trial("secret33", hidden=True), wire.Progress(stage=wire.Stage.MEASURING, workload_id="secret97"))
    texts = [str(report), *(str(messages.event_to_proto(event(fact=fact), submission(), MASK)) for fact in facts)]
    assert not any(secret in text.replace(str(report.trials[0]), "") for secret in SECRETS[:2] for text in texts)
    unknown = messages.report_to_proto(replace(fakes.report(), trials=(fakes.trial("gone", hidden=True),)), MASK)
    assert unknown.trials[0].workload_id == "hidden"


def test_a_public_trial_shows_everything():
    """Counts, key and errors; absent is not zero."""
    trial = messages.report_to_proto(fakes.report(), MASK).trials[0]
    assert (trial.key, trial.element_count, trial.unwritten_count, trial.max_relative_error) == ("ab" * 16, 33, 2, 0.5)
    bare = wire.Trial(workload_id="n64", phase=wire.TrialPhase.CERTIFY, index=1, outcome=wire.TrialOutcome.CRASHED)
    bare_shown = messages.report_to_proto(replace(fakes.report(), trials=(bare,)), MASK).trials[0]
    assert not bare_shown.HasField("max_absolute_error") and not bare_shown.HasField("budget_ratio")
    assert bare_shown.phase == report_pb2.TRIAL_PHASE_CERTIFY


def test_single_samples_are_for_the_full_view():
    """Medians and quartiles are for every view. No time is below nothing, as a run is that took less than the protocol seems to."""
    basic, full = (messages.report_to_proto(fakes.report(), MASK, full=full).measurements[0].certified for full in (False, True))
    assert (basic.sample_count, basic.median_duration.ToNanoseconds(), list(basic.sample_durations_ns)) == (4, 250, [])
    assert (basic.first_quartile_duration.ToNanoseconds(), basic.third_quartile_duration.ToNanoseconds()) == (175, 325)
    assert list(full.sample_durations_ns) == [100, 200, 300, 400]
    row = replace(fakes.report().measurements[0], certified=wire.Samples(durations_ns=(-300, -100, 500)))
    shown = messages.report_to_proto(replace(fakes.report(), measurements=(row,)), MASK, full=True).measurements[0].certified
    assert list(shown.sample_durations_ns) == [0, 0, 500] and shown.median_duration.ToNanoseconds() == 0


def test_a_replayed_state_does_not_tell_what_came_later():
    """QUEUED and RUNNING come without report and end time, even when the submission has finished. Facts for the grader alone become empty
    events, so that sequences have no gaps for watchers either."""
    queued, running, success = (
        messages.event_to_proto(event(state=state), submission(), MASK).submission
        for state in (SubmissionState.QUEUED, SubmissionState.RUNNING, SubmissionState.SUCCEEDED)
    )
    assert not queued.HasField("report") and not queued.HasField("start_time") and not queued.sources
    assert running.HasField("start_time") and not running.HasField("end_time")
    assert success.report.summary == "Right." and success.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED
    shown = messages.event_to_proto(event(fact=wire.Finished(job_id="j")), submission(), MASK)
    assert shown.WhichOneof("event") is None and shown.sequence == 3


def test_a_failed_submission_carries_a_status():
    """With the reason for programs and the message for people."""
    failed = submission(SubmissionState.FAILED, report=None, failure=Failure(reason="ATTEMPTS_EXHAUSTED", message="no box"))
    shown = messages.submission_to_proto(failed, MASK)
    assert shown.error.message == "no box" and not shown.HasField("report")
    assert "ATTEMPTS_EXHAUSTED" in str(shown.error.details[0])


@pytest.mark.parametrize(
    ("kind", "prefix", "enum"),
    [
        (Verdict, "VERDICT", report_pb2.Verdict),
        (SubmissionState, "SUBMISSION_STATE", submission_pb2.SubmissionState),
        (wire.BuildOutcome, "BUILD_OUTCOME", report_pb2.BuildOutcome),
        (wire.TrialOutcome, "TRIAL_OUTCOME", report_pb2.TrialOutcome),
        (wire.TrialPhase, "TRIAL_PHASE", report_pb2.TrialPhase),
        (wire.LoadOutcome, "LOAD_OUTCOME", report_pb2.LoadOutcome),
        (wire.Clock, "CLOCK", report_pb2.Clock),
        (wire.Mode, "MODE", submission_pb2.Mode),
        (wire.Stage, "STAGE", submission_pb2.Stage),
        (ScoreKind, "SCORE_KIND", report_pb2.ScoreKind),
    ],
)
def test_every_value_of_ours_has_a_name_in_the_api(kind, prefix, enum):
    """A new outcome can't be forgotten in the proto, nor one of the proto in the code."""
    assert {f"{prefix}_{member.name}" for member in kind} | {f"{prefix}_UNSPECIFIED"} == set(enum.keys())


AMOUNTS = {"physical_floor_ns": 8191, "moved_bytes": 1000, "flops": 4000}
CEILINGS = {"bytes_per_s": 1e10, "flops_per_s:float32": 1e11}


def on_a_gpu(hidden=False):
    """A report with what only a real device has."""
    measurement = replace(
        fakes.measurement("secret97" if hidden else "n64", hidden=hidden),
        **AMOUNTS,
        conditions={"throttle_reasons": "SwPowerCap"},
        reported_baselines={"compile": wire.Samples(durations_ns=(400, 500, 600))},
    )
    environment = replace(fakes.ENVIRONMENT, ceilings=CEILINGS, architecture="sm_90", device_uuid="GPU-1")
    use = wire.KernelUse(name="void add<float>(float*)", registers=32, spill_store_bytes=8)
    build = replace(fakes.report().build, kernels=(use,))
    return replace(fakes.report(), measurements=(measurement,), environment=environment, build=build)


def test_a_measurement_on_a_device_tells_how_near_to_its_ceilings_it_came():
    """1000 bytes and 4000 operations in a median of 250 ns."""
    shown = messages.report_to_proto(on_a_gpu(), MASK)
    measurement = shown.measurements[0]
    assert measurement.HasField("reported")
    assert (measurement.bandwidth_share, measurement.peak_share) == (pytest.approx(0.4), pytest.approx(0.16))
    assert measurement.physical_floor_duration.ToNanoseconds() == 8191 and measurement.conditions["throttle_reasons"] == "SwPowerCap"
    compiled = measurement.reported_baselines["compile"]
    assert [time.ToNanoseconds() for time in (compiled.p20_duration, compiled.p80_duration, compiled.mean_duration)] == [440, 560, 500]
    assert (shown.environment.architecture, shown.environment.device_uuid, dict(shown.environment.ceilings)) == ("sm_90", "GPU-1", CEILINGS)
    assert [(use.name, use.registers, use.spill_store_bytes) for use in shown.build.kernels] == [("void add<float>(float*)", 32, 8)]
    for unknown in (fakes.report(), replace(on_a_gpu(), environment=fakes.ENVIRONMENT)):  # no amounts, no ceilings: 0 would be an answer
        bare = messages.report_to_proto(unknown, MASK).measurements[0]
        assert not bare.HasField("bandwidth_share") and not bare.HasField("peak_share")


def test_what_would_tell_a_hidden_size_is_left_out_of_its_measurement():
    """Shares and floors; the certified times stay."""
    for shown in (
        messages.report_to_proto(on_a_gpu(hidden=True), MASK, full=True).measurements[0],
        messages.event_to_proto(event(fact=on_a_gpu(hidden=True).measurements[0]), submission(), MASK).measurement,
    ):
        assert shown.HasField("certified")
        assert not shown.HasField("reported")  # whatever it claims: 7 us could be 7 rows
        assert not any(shown.HasField(name) for name in ("bandwidth_share", "peak_share", "physical_floor_duration", "floor_duration"))
        assert "8191" not in str(shown) and "1000" not in str(shown)


def test_a_problem_tells_amounts_device_and_tolerance_of_its_public_sizes():
    """The hidden one's are in no field."""
    problem = fakes.problem()
    first, *hidden_workloads = problem.spec.workloads
    amounts = {"moved_bytes": 512, "flops": 64, "device_kind": "cuda", "tolerance": wire.Tolerance(atol=0.5)}
    hidden = [replace(hidden_workload, moved_bytes=7919, flops=7919) for hidden_workload in hidden_workloads]
    spec = replace(problem.spec, workloads=(replace(first, **amounts), *hidden))
    shown = messages.problem_to_proto(replace(problem, spec=spec))
    workload = shown.workloads[0]
    assert (workload.moved_bytes, workload.flops, workload.device_kind, workload.tolerance.atol) == (512, 64, "cuda", 0.5)
    assert "7919" not in str(shown)


def test_facts_from_before_a_key_was_there_are_still_read():
    """The ledger keeps facts as JSON, and old rows lack what came later."""
    for fact, later in (
        (fakes.measurement(), ("reported_baselines", "physical_floor_ns", "moved_bytes", "flops", "conditions")),
        (fakes.ENVIRONMENT, ("architecture", "device_uuid", "ceilings")),
        (fakes.report().build, ("kernels",)),
    ):
        row = json.loads(wire.encode(fact))
        assert wire.decode(json.dumps({key: value for key, value in row.items() if key not in later}).encode()) == fact


def test_no_output_is_shown_in_a_competition():
    """In no mode: what a box left for a later one could be printed there. The control: outside of a competition."""
    printed = replace(fakes.report(), output="left by the process before: 40144")
    in_competition = Redactor.for_problem(replace(fakes.problem(), competition_id="one"))
    assert messages.report_to_proto(printed, MASK).output == printed.output
    assert messages.report_to_proto(printed, in_competition).output == ""
