"""Folds facts into a verdict and a report.  Pure: no clock, no files, no torch.

The default is to reject: ACCEPTED needs every trial of every plan passed and the judge's own word that it is finished. Nothing that a
runner says can accept; exit code 0, silence and a closed link are never a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from grader.failures import load_failed, trial_failed
from grader.model import Decision, Report, Verdict
from grader.policy import forbidden, used
from grader.times import flags, impossible, median, overall
from sandbox import wire
from sandbox.wire import BuildOutcome, LoadOutcome, TrialOutcome

__all__ = ["IncompleteFacts", "fold", "median"]
T = TypeVar("T")


class IncompleteFacts(ValueError):
    """The facts end before anything was decided: the grader's fault, not the kernel's."""


def fold(facts: Iterable[wire.Fact]) -> Report:
    """Draw the report. IncompleteFacts where neither a failure nor the judge's Finished is among them."""
    facts = tuple(facts)
    verdict, reason, summary = _decide(facts)
    measurements = tuple(_of(facts, wire.Measurement)) if verdict is Verdict.ACCEPTED else ()
    end = _last(facts, wire.RunEnd)
    return Report(
        verdict=verdict,
        reason=reason,
        summary=summary,
        speedups=overall(measurements),
        build=_last(facts, wire.Build),
        trials=tuple(_of(facts, wire.Trial)),
        measurements=measurements,
        environment=_last(facts, wire.Environment),
        output=end.output if end else "",
        flags=flags(measurements),
        libraries=used(_last(facts, wire.Evidence)),
    )


def _decide(facts: tuple[wire.Fact, ...]) -> Decision:
    """The first rule that applies decides."""
    end = _last(facts, wire.RunEnd)
    for fact in facts:
        match fact:
            case wire.Build() if fact.outcome is not BuildOutcome.BUILT:
                return _build(fact)
            case wire.Violation():
                reason = "TIMING_TAMPERED" if fact.kind is wire.ViolationKind.TIMING else "SANDBOX_VIOLATION"
                return Verdict.DISQUALIFIED, reason, f"{fact.detail}; no honest kernel does that."
            case wire.Load() if fact.outcome is not LoadOutcome.LOADED:
                return load_failed(fact, end)
            case wire.Trial() if fact.outcome is not TrialOutcome.PASSED:
                return trial_failed(fact, end)
    if not any(isinstance(fact, wire.Finished) for fact in facts):
        raise IncompleteFacts("the judge did not finish")
    missing = _missing(facts)
    if missing:
        return Verdict.RUNTIME_ERROR, "INCOMPLETE", f"{missing}; the kernel's process must answer every call."
    if (decision := forbidden(_last(facts, wire.Evidence))) is not None:
        return decision
    return impossible(tuple(_of(facts, wire.Measurement))) or (Verdict.ACCEPTED, "", _accepted(facts))


def _build(build: wire.Build) -> Decision:
    match build.outcome:
        case BuildOutcome.TIMED_OUT:
            return Verdict.TIME_LIMIT_EXCEEDED, "BUILD", "The compiler was stopped at its time limit; make the source smaller or simpler."
        case BuildOutcome.OUT_OF_MEMORY:
            return Verdict.MEMORY_LIMIT_EXCEEDED, "BUILD", "The compiler took more memory than a build may; make the source simpler."
        case BuildOutcome.OUTPUT_EXCEEDED:
            return Verdict.OUTPUT_LIMIT_EXCEEDED, "BUILD", "The compiler printed more than a build may; mend the first error of the log."
    sentences = {
        "UNSUPPORTED": "The source uses what this device does not have; the log names the line.",
        "ENTRY_NOT_FOUND": "It compiled, but the entry point is not in it; the log says what to add.",
    }
    default = "The compiler rejected the source; the log has file and line."
    return Verdict.COMPILE_ERROR, build.reason or "REJECTED", sentences.get(build.reason or "", default)


def _missing(facts: tuple[wire.Fact, ...]) -> str | None:
    """What a plan asks for and no fact shows."""
    passed: Counter[tuple[str, wire.TrialPhase]] = Counter()
    for trial in _of(facts, wire.Trial):
        if trial.outcome is TrialOutcome.PASSED:
            passed[trial.workload_id, trial.phase] += trial.run_count
    measured = {measurement.workload_id for measurement in _of(facts, wire.Measurement)}
    plans = list(_of(facts, wire.Plan))
    if not any(plan.trials for plan in plans):
        return "Nothing was planned"
    for plan in plans:
        for workload_id, phase, count in plan.trials:
            if passed[workload_id, phase] < count:
                return f"Only {passed[workload_id, phase]} of {count} trials were seen"
        if not set(plan.measured) <= measured:
            return "A measurement is missing"
    if not any(isinstance(fact, wire.Load) for fact in facts):
        return "The artifact was never loaded"
    return None


def _accepted(facts: tuple[wire.Fact, ...]) -> str:
    trials = list(_of(facts, wire.Trial))
    run_count, workload_count = sum(trial.run_count for trial in trials), len({trial.workload_id for trial in trials})
    return f"Right on all {run_count} runs with fresh inputs, {workload_count} workloads."


def _of(facts: tuple[wire.Fact, ...], kind: type[T]) -> Iterable[T]:
    return (fact for fact in facts if isinstance(fact, kind))


def _last(facts: tuple[wire.Fact, ...], kind: type[T]) -> T | None:
    return next((fact for fact in reversed(facts) if isinstance(fact, kind)), None)
