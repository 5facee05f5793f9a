"""Folds facts into a verdict and a report.  Pure: no clock, no files, no torch.

The default is to reject: ACCEPTED needs every trial of every plan passed and the judge's own word that it is finished. Nothing that a
runner says can accept; exit code 0, silence and a closed link are never a pass.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from grader.model import Report, Verdict
from sandbox import wire
from sandbox.wire import BuildOutcome, LoadOutcome, TrialOutcome

T = TypeVar("T")
Decision = tuple[Verdict, str, str]  # verdict, reason, the sentence for people

# A claim this far below everything that the judge's clock saw is no noise: no kernel is timed so wrong by accident. The host's clock
# of a busy machine sees 50 times a short kernel's time and is given more: an honest 0.2 ms was seen as 7 ms beside four compilers.
TAMPERED_FACTOR = 10.0
TAMPERED_FLOOR_NS = {wire.Clock.DEVICE_EVENTS: 100_000, wire.Clock.HOST: 20_000_000}


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
        speedups=_overall(measurements),
        build=_last(facts, wire.Build),
        trials=tuple(_of(facts, wire.Trial)),
        measurements=measurements,
        environment=_last(facts, wire.Environment),
        output=end.output if end else "",
        flags=_flags(measurements),
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
                return _load(fact, end)
            case wire.Trial() if fact.outcome is not TrialOutcome.PASSED:
                return _trial(fact, end)
    if not any(isinstance(fact, wire.Finished) for fact in facts):
        raise IncompleteFacts("the judge did not finish")
    missing = _missing(facts)
    if missing:
        return Verdict.RUNTIME_ERROR, "INCOMPLETE", f"{missing}; the kernel's process must answer every call."
    return _tampered(facts) or (Verdict.ACCEPTED, "", _accepted(facts))


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


def _load(load: wire.Load, end: wire.RunEnd | None) -> Decision:
    match load.outcome:
        case LoadOutcome.ENTRY_NOT_FOUND:
            return Verdict.COMPILE_ERROR, "ENTRY_NOT_FOUND", f"{load.message}."
        case LoadOutcome.TIMED_OUT:
            return Verdict.TIME_LIMIT_EXCEEDED, "LOAD", "Loading the artifact did not end; look at its static constructors."
        case LoadOutcome.RAISED:
            return Verdict.RUNTIME_ERROR, "LOAD", f"Loading the artifact failed: {load.message}"
    return _ended(end, load.message)


def _trial(trial: wire.Trial, end: wire.RunEnd | None) -> Decision:
    where = _where(trial)
    match trial.outcome:
        case TrialOutcome.CRASHED:
            return _ended(end, trial.message, where)
        case TrialOutcome.TIMED_OUT:
            if end is not None and end.cause in ("memory_limit", "output_limit", "sandbox_violation"):
                return _ended(end, "", where)
            return (
                Verdict.TIME_LIMIT_EXCEEDED,
                "TRIAL",
                f"The kernel did not answer in time {where}; look for a loop or a wait without end.",
            )
        case TrialOutcome.RAISED:
            # A message from a hidden workload would tell its sizes; what fails there should fail on a size of one's own too.
            told = "; try sizes that are odd, prime or 1" if trial.hidden else f": {trial.message}"
            return Verdict.RUNTIME_ERROR, "RAISED", f"The kernel failed {where}{told}"
        case TrialOutcome.UNWRITTEN:
            return (
                Verdict.WRONG_ANSWER,
                "UNWRITTEN_OUTPUT",
                f"It never wrote {_share(trial.unwritten_count, trial)} {where}: "
                "they still hold the NaN that the judge or the allocator put there; check the grid and the index arithmetic.",
            )
        case TrialOutcome.NON_FINITE:
            return (
                Verdict.WRONG_ANSWER,
                "NON_FINITE",
                f"It wrote NaN or infinity to {_share(trial.nonfinite_count, trial)} {where}, "
                "where the reference is finite; look for overflow.",
            )
        case TrialOutcome.WRONG_SHAPE | TrialOutcome.WRONG_DTYPE:
            told = "An output has another shape or dtype than the problem asks for" if trial.hidden else trial.message
            return Verdict.WRONG_ANSWER, trial.outcome.name, f"{told[:1].upper()}{told[1:]} ({where})."
        case TrialOutcome.INPUT_MODIFIED:
            return Verdict.WRONG_ANSWER, "INPUT_MODIFIED", f"It changed its inputs {where}; write to the outputs only."
        case TrialOutcome.OUT_OF_BOUNDS:
            return Verdict.WRONG_ANSWER, "OUT_OF_BOUNDS", f"It wrote outside its tensors {where}; check the bounds of every store."
    if not trial.mismatched_count and trial.budget_ratio is not None:
        return (
            Verdict.WRONG_ANSWER,
            "MISMATCH",
            f"Every element is within tolerance, but the error is {trial.budget_ratio:.3g} times what this dtype allows {where}; "
            "compute in the task's precision.",
        )
    return (
        Verdict.WRONG_ANSWER,
        "MISMATCH",
        f"{_share(trial.mismatched_count, trial)} differ from the reference {where}; "
        f"the largest absolute error is {_number(trial.max_absolute_error)}.",
    )


def _ended(end: wire.RunEnd | None, message: str, where: str = "while it was loaded") -> Decision:
    """How the kernel's process ended, in a word."""
    if end is None:
        return Verdict.RUNTIME_ERROR, "EXITED", f"{message or 'the process ended'} {where}."
    match end.cause:
        case "memory_limit":
            return Verdict.MEMORY_LIMIT_EXCEEDED, "HOST_MEMORY", f"The kernel's process took more memory than it may {where}."
        case "output_limit":
            return Verdict.OUTPUT_LIMIT_EXCEEDED, "STDOUT", f"The kernel printed more than it may {where}; print less."
        case "wall_limit":
            return Verdict.TIME_LIMIT_EXCEEDED, "RUN", f"The whole run took longer than it may; it was stopped {where}."
        case "sandbox_violation":
            return Verdict.DISQUALIFIED, "SANDBOX_VIOLATION", f"The kernel's process made a forbidden system call {where}."
        case "process_limit":
            return Verdict.RUNTIME_ERROR, "PROCESS_LIMIT", f"The kernel's process could not start more processes {where}."
    if end.signal is not None:
        reason = {11: "ILLEGAL_ADDRESS", 7: "ILLEGAL_ADDRESS", 6: "ABORTED", 8: "ARITHMETIC"}.get(end.signal, "SIGNALLED")
        hint = "; check every index and pointer" if reason == "ILLEGAL_ADDRESS" else ""
        return Verdict.RUNTIME_ERROR, reason, f"The kernel's process died of signal {end.signal} {where}{hint}."
    return (
        Verdict.RUNTIME_ERROR,
        "EXITED",
        f"The kernel's process ended by itself with exit code {end.exit_code} {where}; only what it computed counts.",
    )


def _missing(facts: tuple[wire.Fact, ...]) -> str | None:
    """What a plan asks for and no fact shows."""
    passed = Counter((trial.workload_id, trial.phase) for trial in _of(facts, wire.Trial) if trial.outcome is TrialOutcome.PASSED)
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


def _tampered(facts: tuple[wire.Fact, ...]) -> Decision | None:
    """A claimed time out of the clock's reach. The other way round is the kernel's own loss."""
    for measurement in _of(facts, wire.Measurement):
        if measurement.reported is None:
            continue
        claim, seen = median(measurement.reported), min(measurement.certified.durations_ns)
        if seen > TAMPERED_FACTOR * claim and seen - claim > TAMPERED_FLOOR_NS[measurement.clock]:
            return (
                Verdict.DISQUALIFIED,
                "TIMING_TAMPERED",
                f"Its process claims {claim / 1e6:.3g} ms per launch where the judge's clock never saw less than {seen / 1e6:.3g} ms; "
                "no honest kernel is timed so far apart.",
            )
    return None


def _accepted(facts: tuple[wire.Fact, ...]) -> str:
    trials = list(_of(facts, wire.Trial))
    return f"Right on all {len(trials)} runs with fresh inputs, {len({trial.workload_id for trial in trials})} workloads."


def _overall(measurements: tuple[wire.Measurement, ...]) -> tuple[wire.Speedup, ...]:
    """Per baseline, the geometric mean over workloads; the interval's ends likewise, which is wider than needed, never narrower."""
    names = sorted({speedup.baseline for measurement in measurements for speedup in measurement.speedups})
    return tuple(
        _geometric(name, [speedup for measurement in measurements for speedup in measurement.speedups if speedup.baseline == name])
        for name in names
    )


def _geometric(name: str, speedups: list[wire.Speedup]) -> wire.Speedup:
    def mean(values: list[float]) -> float:
        if any(value <= 0 for value in values):
            return 0.0
        return math.exp(min(math.fsum(math.log(value) for value in values) / len(values), 700.0))

    return wire.Speedup(
        baseline=name,
        ratio=mean([one.ratio for one in speedups]),
        ratio_low=mean([one.ratio_low for one in speedups]),
        ratio_high=mean([one.ratio_high for one in speedups]),
    )


def _flags(measurements: tuple[wire.Measurement, ...]) -> tuple[str, ...]:
    flags = []
    if any(not measurement.reported_confirmed for measurement in measurements):
        flags.append("REPORTED_TIME_NOT_CONFIRMED")
    if any(measurement.baseline_slowed for measurement in measurements):
        flags.append("BASELINE_SLOWED")
    if any(not measurement.speedups for measurement in measurements):
        flags.append("SPEEDUP_NOT_RESOLVED")
    if any(measurement.clock is wire.Clock.HOST for measurement in measurements):
        flags.append("EMULATED_NOT_RANKED")
    return tuple(flags)


def median(samples: wire.Samples) -> float:
    """The middle one, in nanoseconds."""
    ordered = sorted(samples.durations_ns)
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _where(trial: wire.Trial) -> str:
    name = "a hidden workload" if trial.hidden else f"workload '{trial.workload_id}'"
    return f"on {name}" if trial.phase is wire.TrialPhase.VERIFY else f"on {name} while it was timed"


def _share(part: int, trial: wire.Trial) -> str:
    """So many output elements; of a hidden workload only the share, for the count would tell its size."""
    percent = f"{100 * part / max(trial.element_count, 1):.3g} %"
    return f"{percent} of the output elements" if trial.hidden else f"{part} of {trial.element_count} output elements ({percent})"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _of(facts: tuple[wire.Fact, ...], kind: type[T]) -> Iterable[T]:
    return (fact for fact in facts if isinstance(fact, kind))


def _last(facts: tuple[wire.Fact, ...], kind: type[T]) -> T | None:
    return next((fact for fact in reversed(facts) if isinstance(fact, kind)), None)
