"""Folds facts into a verdict and a report.  Pure: no clock, no files, no torch.

The default is to reject: ACCEPTED needs every trial of every plan passed and the judge's own word that it is finished. Nothing that a
runner says can accept; exit code 0, silence and a closed link are never a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from grader.model import Decision, Ranking, Reason, Report, Verdict
from grader.verdict.compiler_diagnostics import defined_twice, first_error
from grader.verdict.failure_reasons import load_failed, trial_failed
from grader.verdict.scores import merged, practice_score, score, speedups
from grader.verdict.timing_audit import flags, impossible
from sandbox.protocol import wire
from sandbox.protocol.wire import BoxCause, BuildOutcome, LoadOutcome, TrialOutcome

T = TypeVar("T")
Facts = tuple[wire.Fact, ...]
_EXPLAINED = (Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR)  # by what a sanitizer saw
NOT_SCORED = "NOT_SCORED"  # accepted in ranked mode, and on no board
PRACTICE_SCORE = "PRACTICE_SCORE"  # on a board of the emulated device, by times that its clock did not resolve
NAMED_LIBRARIES = 4  # in the sentence for people
_BUILD_LIMITS = {
    BuildOutcome.TIMED_OUT: (Verdict.TIME_LIMIT_EXCEEDED, "The compiler reached its time limit; make the source smaller or simpler."),
    BuildOutcome.OUT_OF_MEMORY: (Verdict.MEMORY_LIMIT_EXCEEDED, "The compiler took more memory than a build may; make the source simpler."),
    BuildOutcome.OUTPUT_EXCEEDED: (Verdict.OUTPUT_LIMIT_EXCEEDED, "The compiler printed too much; fix the first error in the log."),
}
_BUILD_FAILURES = {
    Reason.UNSUPPORTED: "The source uses what this device, or this grader, does not have; the log names the line.",
    Reason.IMPORT_FAILED: "The module could not be imported; the log has file and line.",
    Reason.ENTRY_NOT_FOUND: "It compiled, but the entry point is not in it; the log says what to add.",
}


class IncompleteFacts(ValueError):
    """The facts end before anything was decided: the grader's fault, not the kernel's."""


def fold(facts: Iterable[wire.Fact], ranking: Ranking | None = None) -> Report:
    """Draw the report; ranking: in ranked mode only. IncompleteFacts where the facts end before a failure, and before every process that
    the ranking asks for has the judge's Finished."""
    facts = tuple(facts)
    begun = [index for index, fact in enumerate(facts) if isinstance(fact, wire.Round)]
    rounds = [facts[here:there] for here, there in pairwise([*begun, len(facts)])] if begun else [facts]
    decision = _decide(facts, rounds, ranking)
    accepted = decision[0] is Verdict.ACCEPTED
    processes: list[tuple[wire.Measurement, ...]] = [tuple(_of(process, wire.Measurement)) for process in rounds] if accepted else [()]
    figure, unscored = None, tuple[str, ...]()
    if ranking is not None and accepted and (figure := score(processes, ranking)) is None:
        figure = practice_score(processes, ranking)
        unscored = (NOT_SCORED if figure is None else PRACTICE_SCORE,)
    report = report_of(facts, decision, processes)
    return replace(
        report,
        speedups=speedups(processes),
        trials=tuple(trial for process in rounds for trial in _of(process, wire.Trial)),
        output=report.output if ranking is None else "",  # public runs are enough for prints
        flags=(*report.flags, *unscored),
        score=figure,
        process_count=len(rounds),
    )


def report_of(facts: Facts, decision: Decision, processes: list[tuple[wire.Measurement, ...]]) -> Report:
    """Put a report together without a score. processes: the measurements that count, by process."""
    verdict, reason, summary = decision
    end = _last(facts, wire.RunEnd)
    crash = _crash(facts) if verdict is Verdict.RUNTIME_ERROR else None
    profile = None if verdict is Verdict.DISQUALIFIED else _last(facts, wire.KernelProfile)
    build = _last(facts, wire.Build)
    if verdict in _EXPLAINED:
        contradiction = f"The entry's parameters do not fit: {_ended(build.mismatch)} " if build and build.mismatch else ""
        summary = f"{contradiction}{summary}{_cause(profile)}"
    screening = _last(facts, wire.Screening)
    if screening and screening.outcome is wire.ScreeningOutcome.FAILED:
        summary = f"On the emulated device, before a GPU was used: {summary}"
    if build and build.unbuilt and verdict in (Verdict.ACCEPTED, *_EXPLAINED):
        summary = f"Without its extension {build.unbuilt.rstrip('.')}, which did not build: {summary}"
    return Report(
        verdict=verdict,
        reason=reason,
        summary=summary,
        build=build,
        trials=tuple(_of(facts, wire.Trial)),
        measurements=merged(processes),
        environment=_last(facts, wire.Environment),
        output=end.output if end else "",
        flags=tuple(flags([row for measurements in processes for row in measurements])),
        libraries=tuple(dict.fromkeys(name for evidence in _of(facts, wire.Evidence) for name in used_libraries(evidence))),
        rule=plan.rule if (plan := _last(facts, wire.Plan)) else "",
        profile=profile,
        screening=screening,
        exit_code=crash.exit_code if crash else None,
        signal=crash.signal if crash else None,
        timeline=timeline.spans if (timeline := _last(facts, wire.AttemptTimeline)) else (),
    )


def _cause(profile: wire.KernelProfile | None) -> str:
    """Name what the sanitizer takes for the cause, as the end of a verdict's sentence. The kernel's process reports it."""
    findings = profile.findings if profile else ()
    cause = next((finding for finding in findings if finding.severity is wire.SanitizerSeverity.ERROR), None)
    if cause is None:
        return ""
    if cause.kind in (wire.SanitizerKind.UNINITIALISED_READ, wire.SanitizerKind.RACE):
        # Threads that skip a barrier leave unwritten what the others read behind it.
        cause = next((finding for finding in findings if finding.kind is wire.SanitizerKind.DIVERGENT_BARRIER), cause)
    where = f"{cause.path}:{cause.line}: " if cause.path else ""
    return f" The sanitizer reports: {where}{_ended(cause.message)}"


def _decide(facts: Facts, rounds: list[Facts], ranking: Ranking | None) -> Decision:
    """The first rule that applies decides."""
    if (decision := first_failure(facts)) is not None:
        return decision
    if not all(any(isinstance(fact, wire.Finished) for fact in process) for process in rounds):
        raise IncompleteFacts("the judge did not finish")
    if ranking is not None and len(rounds) < ranking.process_count:
        raise IncompleteFacts(f"{len(rounds)} of {ranking.process_count} processes were judged")
    if len({next(iter(_of(process, wire.Plan)), None) for process in rounds}) > 1:
        raise IncompleteFacts("not all processes were asked for the same")
    for process in rounds:  # each by itself: what another process did proves nothing of this one
        if lack := missing(process):
            return Verdict.RUNTIME_ERROR, Reason.INCOMPLETE, f"{lack}; the kernel's process must answer every call."
    if (decision := caught(facts)) is not None:
        return decision
    trials = [trial for process in rounds for trial in _of(process, wire.Trial)]
    # How often a hidden workload was timed would tell how long it takes.
    run_count = sum(trial.run_count for trial in trials if not trial.hidden or trial.phase is wire.TrialPhase.VERIFY)
    workload_count = len({trial.workload_id for trial in trials})
    processes = f", {len(rounds)} processes" if len(rounds) > 1 else ""
    return Verdict.ACCEPTED, "", f"Right on all {run_count} runs with fresh inputs, {workload_count} workloads{processes}."


def first_failure(facts: Facts) -> Decision | None:
    """The first fact that decides against the kernel."""
    for index, fact in enumerate(facts):
        match fact:
            case wire.Build() if fact.outcome is not BuildOutcome.BUILT:
                return _build(fact)
            case wire.Violation():
                reason = Reason.TIMING_TAMPERED if fact.kind is wire.ViolationKind.TIMING else Reason.SANDBOX_VIOLATION
                return Verdict.DISQUALIFIED, reason, f"{fact.detail}; no honest kernel does that."
            case wire.Load() if fact.outcome is not LoadOutcome.LOADED:
                return load_failed(fact, _end_after(facts, index))
            case wire.Trial() if fact.outcome is not TrialOutcome.PASSED:
                return trial_failed(fact, _end_after(facts, index))
    return None


def _crash(facts: Facts) -> wire.RunEnd | None:
    """How the kernel's process ended by itself, where that decided; not where a hidden workload was run, of which it could tell."""
    for index, fact in enumerate(facts):
        match fact:
            case wire.Load(outcome=LoadOutcome.CRASHED) | wire.Trial(outcome=TrialOutcome.CRASHED, hidden=False):
                end = _end_after(facts, index)
                return end if end is not None and end.cause in (BoxCause.EXITED, BoxCause.SIGNALLED) else None
            case wire.Trial() if fact.outcome is not TrialOutcome.PASSED:
                return None
    return None


def _end_after(facts: Facts, index: int) -> wire.RunEnd | None:
    """How the process of this fact ended: a sweep goes on in another one."""
    return next(iter(_of(facts[index:], wire.RunEnd)), None)


def caught(facts: Facts) -> Decision | None:
    """Disqualify a kernel that uses or claims what it may not."""
    for evidence in _of(facts, wire.Evidence):
        if (decision := forbidden_libraries(evidence)) is not None:
            return decision
    return impossible(tuple(_of(facts, wire.Measurement)))


def used_libraries(evidence: wire.Evidence) -> tuple[str, ...]:
    """Return every library of the evidence."""
    return tuple(dict.fromkeys((*evidence.imported, *evidence.seen)))


def forbidden_libraries(evidence: wire.Evidence) -> Decision | None:
    """Disqualify a kernel that uses libraries where its problem forbids them."""
    names = used_libraries(evidence)
    if evidence.policy is not wire.Libraries.FORBIDDEN or not names:
        return None
    where = "the built kernel calls" if evidence.imported else "it was seen to call"
    listed = ", ".join(names[:NAMED_LIBRARIES])
    rest = f" and {len(names) - NAMED_LIBRARIES} more" if len(names) > NAMED_LIBRARIES else ""
    sentence = f"The problem forbids libraries, and {where} {listed}{rest}; write that part as your own kernel."
    return Verdict.DISQUALIFIED, Reason.POLICY, sentence


def _build(build: wire.Build) -> Decision:
    if build.outcome in _BUILD_LIMITS:
        verdict, sentence = _BUILD_LIMITS[build.outcome]
        if build.outcome is BuildOutcome.TIMED_OUT and " error: " in build.fallback:  # with its place
            sentence = f"The compiler reached its time limit. Its first error with the quick headers: {_ended(build.fallback)}"
        return verdict, Reason.BUILD, sentence
    reason = Reason(build.reason) if build.reason else Reason.REJECTED
    sentence = _BUILD_FAILURES.get(reason, "The compiler rejected the source; the log has file and line.")
    if reason is not Reason.ENTRY_NOT_FOUND and (error := first_error(build.log)) is not None:
        sentence = f"{sentence.partition(';')[0]}: {error.place}: {_ended(error.message)}"
    elif (twice := defined_twice(build.log)) is not None:
        name, first, second = twice
        sentence = (
            f"{first} and {second} both define {name}; each .cu file is compiled: keep one, or name a file that another includes .cuh."
        )
    return Verdict.COMPILE_ERROR, reason, sentence


def missing(facts: Facts) -> str | None:
    """Name what a plan asks for and no fact shows."""
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


def _of(facts: Facts, kind: type[T]) -> Iterable[T]:
    return (fact for fact in facts if isinstance(fact, kind))


def _last(facts: Facts, kind: type[T]) -> T | None:
    return next((fact for fact in reversed(facts) if isinstance(fact, kind)), None)


def _ended(text: str) -> str:
    text = text.rstrip(".")
    return text if text.endswith("?") else f"{text}."
