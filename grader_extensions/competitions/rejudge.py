"""Which submissions stored facts can judge again, and which have to be run.  Pure.

Facts suffice where nothing had a part in them that changed: they are folded again by the rules of today. Where that can't be proved the
submission is run, and why is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from grader import devices
from grader.model import Judgement, Problem, Report, Verdict
from grader.verdict.fold import IncompleteFacts, fold, used_libraries
from sandbox.protocol import wire
from sandbox.protocol.wire import BuildOutcome, Libraries, LoadOutcome, TrialOutcome


class RejudgeMethod(StrEnum):
    """How to judge again."""

    FACTS_OR_RUN = "facts_or_run"
    RUN = "run"


class RejudgeState(StrEnum):
    """Where a rejudge is in its life."""

    RUNNING = "running"
    READY = "ready"  # all is decided
    APPLIED = "applied"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejudgeOrder:
    """Selection of what to judge again, and how. top_count 0: all."""

    cause: str
    problem_id: str = ""
    competition_id: str = ""
    submission_ids: tuple[str, ...] = ()
    method: RejudgeMethod = RejudgeMethod.FACTS_OR_RUN
    top_count: int = 0
    device_kind: str = ""  # of runs; "": each submission's own
    fresh_sizes: bool = False  # of secret workloads, drawn for this rejudge
    sizes_of: str = ""  # the id of the rejudge whose drawn sizes to take; "": those of the competition's file


@dataclass(frozen=True, slots=True)
class Change:
    """Change of a submission by a rejudge. A rank of 0 is none."""

    submission_id: str
    user: str
    before: Judgement
    after: Judgement
    rank_before: int = 0
    rank_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudge:
    """Submissions that are judged again. failed_count: those of the pending that wait for nobody any more."""

    rejudge_id: str
    order: RejudgeOrder
    state: RejudgeState
    user: str
    create_time: datetime
    end_time: datetime | None = None
    submission_count: int = 0
    refolded_count: int = 0
    rerun_count: int = 0
    pending_count: int = 0
    failed_count: int = 0


def rule(facts: Sequence[wire.Fact], *, mode: wire.Mode, entry: str, old: Problem, current: Problem) -> tuple[Report | None, str]:
    """Judge again by the facts that the counting judgement was drawn from, where they suffice; None where it has to be run. And why, for
    people and logs. entry: the submission's own, "" where it takes the problem's. old: what the facts are of; current: what is to judge."""
    if not facts:
        return None, "its facts are kept no longer"
    if (reason := _why_run(facts, _failed(facts), mode, entry, old, current)) is not None:
        return None, reason
    try:
        policy = current.spec.libraries
        # The facts as they are where this is the rule on libraries.
        judged = [fact for fact in facts if policy is not Libraries.ALLOWED or not isinstance(fact, wire.Evidence)]
        ruled = (replace(fact, policy=policy) if isinstance(fact, wire.Evidence) else fact for fact in judged)
        report = fold(ruled, current.ranking_in(mode))
    except IncompleteFacts as error:
        return None, f"its facts are not enough: {error}"
    timed_out = report.verdict is Verdict.TIME_LIMIT_EXCEEDED and report.reason != "BUILD"
    if timed_out and (old.spec.trial_s, old.spec.trial_count) != (current.spec.trial_s, current.spec.trial_count):
        return None, "it ran out of a time that is another one now"
    return report, "its facts suffice"


def meant(device_kind: str, device: str, clock: wire.Clock) -> bool:
    """Return whether this kind means a board's device; of cuda:INDEX nobody can say which, so it is every GPU."""
    real = clock is wire.Clock.DEVICE_EVENTS
    if device_kind in ("", devices.EMULATED):
        return not device_kind or not real
    by_index = device_kind.removeprefix(f"{devices.CUDA}:").isdecimal()
    return real and (by_index or devices.fits(device_kind, -1, device))


def _why_run(
    facts: Sequence[wire.Fact], failed: wire.Fact | None, mode: wire.Mode, entry: str, old: Problem, current: Problem
) -> str | None:
    """Name a change of which the facts do not tell; None where they tell of all of it."""
    before, after = old.spec, current.spec
    if (entry or before.entry) != (entry or after.entry):
        return "the entry point changed"
    if isinstance(failed, wire.Build):
        return None  # nothing else has a part in a build
    for name in ("format", "convention", "axes", "inputs", "outputs", "reference"):
        if getattr(before, name) != getattr(after, name):
            return f"the problem's {name} changed"
    if [replace(workload, tolerance=None) for workload in before.workloads] != [replace(row, tolerance=None) for row in after.workloads]:
        return "the problem's workloads changed"
    if after.trial_count != before.trial_count and (failed is not None or after.trial_count > before.trial_count):
        return "the number of trials changed"
    if after.trial_s < before.trial_s:
        return "the time for a trial is shorter now"
    if failed is None and mode in (wire.Mode.BENCHMARK, wire.Mode.RANKED) and not set(after.baselines) <= set(before.baselines):
        return "it is timed against more baselines now"
    return _why_run_for_tolerance(facts, failed, old, current) or _why_run_for_libraries(facts, failed, before.libraries, after.libraries)


def _failed(facts: Sequence[wire.Fact]) -> wire.Fact | None:
    """The fact that ended the grading; None where all passed."""
    for fact in facts:
        match fact:
            case wire.Build(outcome=BuildOutcome.BUILT) | wire.Load(outcome=LoadOutcome.LOADED) | wire.Trial(outcome=TrialOutcome.PASSED):
                continue
            case wire.Build() | wire.Load() | wire.Trial() | wire.Violation():
                return fact
    return None


def _why_run_for_tolerance(facts: Sequence[wire.Fact], failed: wire.Fact | None, old: Problem, current: Problem) -> str | None:
    """A mismatch was counted by the tolerance of then. What passed passes by a wider one, and by one that its largest error keeps."""
    before, after = _tolerances(old), _tolerances(current)
    if before == after:
        return None
    if isinstance(failed, wire.Trial) and failed.outcome is TrialOutcome.MISMATCHED:
        return "the tolerance changed, and it missed the one before"
    for fact in facts:
        if isinstance(fact, wire.Trial) and fact.outcome is TrialOutcome.PASSED:
            was, now = before.get(fact.workload_id, old.spec.tolerance), after.get(fact.workload_id, current.spec.tolerance)
            wider = now.atol >= was.atol and now.rtol >= was.rtol
            error_fits = fact.max_absolute_error is not None and fact.max_absolute_error <= now.atol
            budget_holds = now.budget_factor is None or (
                was.budget_factor is not None and now.budget_factor >= was.budget_factor and now.budget_floor >= was.budget_floor
            )
            if not (budget_holds and (wider or error_fits)):
                return "the tolerance is tighter than what it is known to keep"
    return None


def _tolerances(problem: Problem) -> dict[str, wire.Tolerance]:
    return {workload.workload_id: workload.tolerance or problem.spec.tolerance for workload in problem.spec.workloads}


def _why_run_for_libraries(facts: Sequence[wire.Fact], failed: wire.Fact | None, old: Libraries, current: Libraries) -> str | None:
    """Where libraries were allowed, nobody looked for them; where they were labelled, less thoroughly than where they are forbidden."""
    if old is current or current is Libraries.ALLOWED or failed is not None:
        return None
    evidence = [fact for fact in facts if isinstance(fact, wire.Evidence)]
    process_count = max(1, sum(isinstance(fact, wire.Round) for fact in facts))
    if len(evidence) < process_count:
        return "it was not searched for libraries"
    if current is Libraries.FORBIDDEN and not any(map(used_libraries, evidence)):
        return "libraries are forbidden now, which is looked for more thoroughly"
    return None
