"""Modes of packages: what a made-up one adds to grading, what it may disclose, and what is said where none is installed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from grader import extensions
from grader.errors import InvalidSubmission, ModeNotInstalled
from grader.grading.pipeline import judged
from grader.intake.gate import Accepted, SubmissionGate
from grader.problems.store import Problems
from grader.v1 import grader_service_pb2, submission_pb2
from grader.verdict.fold import fold
from sandbox.protocol import wire
from tests import fakes
from tests.unit.pipeline_fleets import graded, lease

TOOL = wire.ProfileTool(name="made up", outcome=wire.ToolOutcome.RAN)
PROFILE = wire.KernelProfile(tools=(TOOL,), architecture="sm_90", remarks=("a remark",))
FILE = wire.ArtifactFile(name="a.txt", tool="made up", digest="0" * 64, size_bytes=1)


async def run(attempt, build, open_run_box) -> AsyncGenerator[wire.Fact, None]:
    """Judge the kernel, and say more than the row allows."""
    async with aclosing(judged(attempt, build, open_run_box)) as facts:
        async for fact in facts:
            yield fact
    yield PROFILE
    yield FILE


def plan(submission, problem, device_kinds):
    return replace(problem, title="planned")


def made_up(row: tuple[str, ...] | None = None) -> SimpleNamespace:
    """Return a mode that discloses these fields of a profile; None: it has no row."""
    return SimpleNamespace(DISCLOSED={} if row is None else {wire.KernelProfile: row}, plan=plan, run=run, fold=fold)


@pytest.fixture
def install(monkeypatch):
    """Install modes, in place of those that are installed here."""
    return lambda **modes: monkeypatch.setattr(extensions, "modes", lambda: modes)


def checked(place, mode: str) -> Accepted:
    """Return the accepted request of a submission in this mode."""
    fakes.write_problem(place)
    gate = SubmissionGate(problems=Problems.load([place]), policy=extensions.NoCompetitions())
    source = submission_pb2.SourceFile(path="kernel.cu", content=fakes.source("accept"))
    submission = submission_pb2.Submission(problem="problems/sum", sources=[source], mode=f"MODE_{mode}")
    return gate.check(grader_service_pb2.SubmitRequest(submission=submission), ("emulated",))


@pytest.mark.parametrize("mode", ["PROFILE", "SWEEP", "SANITIZE"])
def test_a_mode_that_is_not_installed_is_refused_with_what_to_install(install, tmp_path, mode):
    """The control: the core's own modes are accepted without any package."""
    install()
    with pytest.raises(InvalidSubmission, match=f"mode: MODE_{mode} is not installed here; install kernel-grader-extensions, or take"):
        checked(tmp_path, mode)
    assert [checked(tmp_path, core.name).problem.title for core in extensions.CORE_MODES] == ["A sum"] * 3


async def test_a_queued_submission_of_a_mode_that_is_gone_fails_for_good(install, make):
    """The submission was accepted while the package was installed."""
    install()
    with pytest.raises(ModeNotInstalled) as gone:
        await graded(make(), lease(mode=wire.Mode.PROFILE))
    assert gone.value.final and "MODE_PROFILE" in str(gone.value)


async def test_a_mode_of_a_package_plans_runs_and_discloses_what_its_row_says(install, make, tmp_path):
    """The judge's facts pass without a row; of others nothing does, unless the row names it."""
    install(profile=made_up(row=("tools", "remarks")), sweep=made_up())
    assert checked(tmp_path, "PROFILE").problem.title == "planned"
    facts = await graded(make(), lease(mode=wire.Mode.PROFILE))
    assert fold(facts).profile == replace(PROFILE, architecture="") and FILE not in facts
    silent = await graded(make(), lease(mode=wire.Mode.SWEEP))
    assert fold(silent).profile is None and any(isinstance(fact, wire.Trial) for fact in silent)


@pytest.mark.parametrize(
    ("mode", "fields", "adds"),
    [
        pytest.param(wire.Mode.TEST, {}, True, id="test"),
        pytest.param(wire.Mode.BENCHMARK, {}, False, id="benchmark"),
        pytest.param(wire.Mode.RANKED, {}, False, id="ranked"),
        pytest.param(wire.Mode.TEST, {"competition_id": "one"}, False, id="a competition"),
    ],
)
async def test_a_package_adds_to_tests_outside_of_competitions_only(install, make, mode, fields, adds):
    """Whatever names it has."""
    install(**{core: made_up(row=("tools",)) for core in extensions.CORE_MODES})
    facts = await graded(make(), lease(mode=mode, **fields))
    assert any(isinstance(fact, wire.KernelProfile) for fact in facts) is adds
