"""Reports of a box are bounded and harmless, whoever wrote them; and what the box is given."""

import dataclasses
import json
import signal

import pytest
from typer.testing import CliRunner

from grader.cli.exits import GraderFailed
from grader.cli.main import app
from grader.errors import JudgeBroken
from grader.formats import native
from grader.isolation import BoxExit, BoxSpec, GpuAccess, Purpose
from grader.isolation.settings import BoxSettings
from grader.isolations import safe_isolations
from grader_extensions.problem_check import admission
from grader_extensions.problem_check.admission import Admission, AdmissionOutcome
from grader_extensions.problem_check.check_box import CheckReport, read_limits, staged_problem, usable_isolation
from sandbox.protocol import wire
from sandbox.protocol.wire import BoxCause
from tests import fakes

PASSED, FAILED, UNKNOWN = wire.FindingOutcome.PASSED, wire.FindingOutcome.FAILED, wire.FindingOutcome.UNKNOWN
FINISHED = wire.Finished(job_id="check")


@pytest.fixture
def spec(tmp_path):
    return native.load(fakes.write_problem(tmp_path)).spec


def finding(check="zeros", workload_id="", message=""):
    return wire.Finding(check=check, workload_id=workload_id, outcome=PASSED, message=message)


def reported(spec, *messages, cause=BoxCause.EXITED, code=0, raw=b"", output=b"", number=None):
    content = raw + b"".join(map(wire.encode, messages))
    report = CheckReport(content=content, ended=BoxExit(cause=cause, exit_code=code, output=output, signal=number))
    return admission.reported(report, spec, 30.0)


def test_a_check_may_name_an_input_in_capitals(spec):
    """As FlashInfer's definitions do: such a name ended the report."""
    named = finding(check="every second of A", workload_id=spec.workloads[0].workload_id)
    assert reported(spec, named, FINISHED) == [named]


@pytest.mark.parametrize(
    "wrong",
    [
        finding(check="\x1b[2J"),
        finding(check="a" * 121),
        finding(workload_id="no workload of it"),
        wire.Health(job_id="check", healthy=True),
    ],
)
def test_what_is_no_report_of_this_problem_ends_the_report(spec, wrong):
    """As a finding that refuses the problem."""
    findings = reported(spec, finding(), wrong, FINISHED)
    assert findings[0] == finding() and [entry.outcome for entry in findings[1:]] == [FAILED]


def test_what_is_no_message_ends_the_report(spec):
    """Such as binary, a line that is nested without end, or nothing."""
    for raw in (b"\x00\xff\n", b"[" * 100_000 + b"\n", b"", b'{"type": "Finding"}\n'):
        assert [entry.check for entry in reported(spec, FINISHED, raw=raw)] == ([] if raw == b"" else ["ends"])
    assert [entry.check for entry in reported(spec)] == ["ends"]


def test_messages_are_bounded_and_shown_harmlessly(spec):
    """Control characters become escapes; the control is that they were in the message."""
    message = "\x1b]0;title\x07\u202e" + "x" * 100_000
    (report,) = reported(spec, finding(message=message), FINISHED)
    assert "\x1b" in message and "\x1b" not in report.message and "\u202e" not in report.message and len(report.message) < 2100
    with pytest.raises(JudgeBroken) as broken:
        reported(spec, wire.Broken(job_id="check", message=message))
    assert "\x1b" not in str(broken.value) and len(str(broken.value)) < 2100
    (report,) = reported(spec, code=1, output=b"\x1b[31mno torch here")
    assert "\x1b" not in report.message and "no torch here" in report.message


def test_findings_without_number_are_bounded(spec):
    """A single finding over the limit refuses."""
    content = b"".join(map(wire.encode, [*[finding()] * 21, FINISHED]))
    report = CheckReport(content=content, ended=BoxExit(cause=BoxCause.EXITED, exit_code=0))
    assert len(admission.reported(report, spec, 30.0, limit=21)) == 21
    assert [entry.outcome for entry in admission.reported(report, spec, 30.0, limit=20)][20:] == [FAILED]


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (BoxCause.OUTPUT_LIMIT, "prints without end"),
        (BoxCause.PROCESS_LIMIT, "starts more processes"),
        (BoxCause.SANDBOX_VIOLATION, "a system call that is not allowed"),
    ],
)
def test_a_limit_is_named(spec, cause, text):
    (report,) = reported(spec, cause=cause)
    assert text in report.message and report.outcome is FAILED


@pytest.mark.parametrize(
    ("ending", "check", "reason"),
    [
        ({"cause": BoxCause.MEMORY_LIMIT}, "fits", "the reference takes more memory than the box has"),
        ({"cause": BoxCause.WALL_LIMIT}, "time", "it was not done within 30 s"),
        ({"cause": BoxCause.SIGNALLED, "code": None, "number": signal.SIGALRM}, "time", "it was not done within 30 s"),
    ],
)
def test_too_little_memory_or_time_refuses_nothing_and_admits_nothing(spec, ending, check, reason):
    """Earlier findings are kept; the workload that it was of may not have been checked to its end. Another signal is the control."""
    workload = spec.workloads[0].workload_id
    (first, last) = reported(spec, finding(workload_id=workload), **ending)
    assert first == finding(workload_id=workload)
    assert (last.check, last.workload_id, last.outcome) == (check, workload, UNKNOWN) and reason in last.message
    assert admission_of(first, last).outcome is AdmissionOutcome.UNCHECKED
    assert admission_of(first, last, finding(workload_id="another")).outcome is AdmissionOutcome.ADMITTED
    assert reported(spec, cause=BoxCause.SIGNALLED, code=None, number=signal.SIGSEGV)[0].outcome is FAILED


def admission_of(*findings):
    return Admission(problem_id="p", digest="d", findings=findings)


def test_warnings_are_no_refusal():
    """A refusal is one, whatever else was found; and without anything that passed nothing was checked."""
    passed, warned = finding(workload_id="w"), dataclasses.replace(finding("half precision"), outcome=wire.FindingOutcome.WARNING)
    refused = dataclasses.replace(finding("seed"), outcome=FAILED)
    assert [admission_of(*findings).outcome for findings in ((passed,), (passed, warned), (passed, warned, refused), (warned,))] == [
        AdmissionOutcome.ADMITTED,
        AdmissionOutcome.WARNED,
        AdmissionOutcome.REFUSED,
        AdmissionOutcome.UNCHECKED,
    ]
    assert admission_of(passed, warned).admitted and not admission_of(warned).admitted


def test_the_tensors_of_workloads_are_copied_into_the_box(spec, tmp_path):
    """The part that is used, once; the path is the one that the box sees."""
    (tmp_path / "data").write_bytes(b"0123456789")
    stored = {"type": "safetensors", "path": str(tmp_path / "data"), "begin": 2, "end": 5, "digest": "d", "tensor_key": "x"}
    arguments = json.dumps({"inputs": {"x": stored, "y": {"type": "random"}}})
    workloads = tuple(dataclasses.replace(spec.workloads[0], workload_id=name, arguments=arguments) for name in ("a", "b"))
    (tmp_path / "box").mkdir()
    staged = staged_problem(dataclasses.replace(spec, workloads=workloads), tmp_path / "box")
    assert [path.read_bytes() for path in (tmp_path / "box").iterdir()] == [b"234"]
    for workload in staged.workloads:
        inputs = json.loads(workload.arguments)["inputs"]
        assert inputs == {"x": {**stored, "path": "/grader/src/data-0", "begin": 0, "end": 3}, "y": {"type": "random"}}
    huge = json.dumps({"inputs": {"x": {**stored, "end": 1 << 40}}})
    with pytest.raises(JudgeBroken, match="its safetensors have over"):
        staged_problem(dataclasses.replace(spec, workloads=(dataclasses.replace(workloads[0], arguments=huge),)), tmp_path / "box")


def test_a_check_box_may_have_a_gpu_and_a_build_box_may_not(tmp_path):
    gpu = GpuAccess(index=0, uuid="u", name="n", minor=0, triton_dir=tmp_path)
    assert BoxSpec(box_id="b", purpose=Purpose.CHECK, argv=(), limits=read_limits(), slot=0, gpu=gpu).gpu is gpu
    with pytest.raises(ValueError, match="a build box gets no GPU"):
        BoxSpec(box_id="b", purpose=Purpose.BUILD, argv=(), limits=read_limits(), slot=0, gpu=gpu)


# -- the command line -------------------------------------------------------------------------------------------------------


def test_auto_never_takes_what_keeps_nothing_in():
    """`process` is no choice, and the help names the three that are."""
    assert safe_isolations() == ["docker", "bubblewrap"]
    for command in ("check", "import"):
        result = CliRunner().invoke(app, ["problems", command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
        assert "--trusted" in result.stdout and "auto|docker|bubblewrap" in result.stdout
    refused = CliRunner().invoke(app, ["problems", "check", "x", "--sandbox", "process"])
    assert refused.exit_code == 2


async def test_without_an_isolation_the_error_says_what_to_do(tmp_path):
    """The command does not fall back to running the code as the user."""
    settings = BoxSettings(state_id="t", runtime_dir=tmp_path, docker_host=f"unix://{tmp_path}/none")
    with pytest.raises(GraderFailed, match=r"no sandbox for the problem's code works here \(docker: .* or pass --trusted"):
        await usable_isolation(("docker",), settings)
