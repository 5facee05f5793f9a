"""How a kernel that failed is judged: a verdict, a reason, and a sentence for people that says what to do.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from grader.model import Decision, Reason, Verdict
from grader.verdict.wrong_patterns import describe, likely_cause
from sandbox.protocol import wire
from sandbox.protocol.devices import FaultKind, fault_of
from sandbox.protocol.wire import BoxCause, LoadOutcome, Symptom, TrialOutcome

_DEVICE_FAULTS = {
    FaultKind.ILLEGAL_ADDRESS: (Reason.ILLEGAL_ADDRESS, "it accessed memory outside its allocations"),
    FaultKind.MISALIGNED_ADDRESS: (Reason.ILLEGAL_ADDRESS, "an address is not aligned to the size of the access"),
    FaultKind.INVALID_ADDRESS_SPACE: (Reason.ILLEGAL_ADDRESS, "an address is in a memory space that the instruction does not support"),
    FaultKind.INVALID_PC: (Reason.ILLEGAL_ADDRESS, "it jumped to an address without code"),
    FaultKind.ASSERT: (Reason.DEVICE_ASSERT, "an assert() in device code failed; its condition does not hold for these inputs"),
    FaultKind.STACK_OVERFLOW: (
        Reason.STACK_OVERFLOW,
        "its stack was overrun; end the recursion, and keep large arrays out of local memory",
    ),
    FaultKind.TIMEOUT: (Reason.DEVICE_FAULT, "it ran longer than the device allows; look for an endless loop or wait"),
}
_BOX_ENDS = {
    BoxCause.MEMORY_LIMIT: (Verdict.MEMORY_LIMIT_EXCEEDED, Reason.HOST_MEMORY, "The kernel's process exceeded its memory limit {where}."),
    BoxCause.OUTPUT_LIMIT: (Verdict.OUTPUT_LIMIT_EXCEEDED, Reason.STDOUT, "The kernel's output exceeded the limit {where}; print less."),
    BoxCause.WALL_LIMIT: (Verdict.TIME_LIMIT_EXCEEDED, Reason.RUN, "The whole run exceeded its time limit; it was stopped {where}."),
    BoxCause.SANDBOX_VIOLATION: (
        Verdict.DISQUALIFIED,
        Reason.SANDBOX_VIOLATION,
        "The kernel's process made a forbidden system call {where}.",
    ),
    BoxCause.PROCESS_LIMIT: (Verdict.RUNTIME_ERROR, Reason.PROCESS_LIMIT, "The kernel's process could not start more processes {where}."),
}
# What the emulated device says of itself, and Triton of what its version has no more.
_LACKS = re.compile(r"the emulated device (?:has no|can't)|removed in favor of")
_OPENMP = re.compile(r"undefined symbol: (?:omp|GOMP)_")
_SIGNALS = {11: Reason.ILLEGAL_ADDRESS, 7: Reason.ILLEGAL_ADDRESS, 6: Reason.ABORTED, 8: Reason.ARITHMETIC}


def load_failed(load: wire.Load, end: wire.RunEnd | None) -> Decision:
    """Why the artifact could not be loaded."""
    match load.outcome:
        case LoadOutcome.ENTRY_NOT_FOUND:
            return Verdict.COMPILE_ERROR, Reason.ENTRY_NOT_FOUND, f"{load.message}."
        case LoadOutcome.TIMED_OUT:
            return Verdict.TIME_LIMIT_EXCEEDED, Reason.LOAD, "Loading the artifact did not finish in time; check its static constructors."
        case LoadOutcome.RAISED if fault_of(load.message)[0]:
            return _device(load.message, "while its artifact was loaded")
        case LoadOutcome.RAISED:
            advice = "; OpenMP is not linked: leave its functions out, or use std::thread" if _OPENMP.search(load.message) else ""
            return Verdict.RUNTIME_ERROR, Reason.LOAD, f"Loading the artifact failed: {load.message}{advice}"
    return _ended(end, load.message)


# What is said of a hidden workload, by reason: no share, no error, no exit code, because each could reveal its size. Sent on purpose, an
# exit code would be eight bits of it.
_HIDDEN = {
    Reason.UNWRITTEN_OUTPUT: "It left output elements unwritten {where}; check the grid and the index arithmetic.",
    Reason.NON_FINITE: "It wrote NaN or infinity {where}, where the reference is finite; look for overflow and uninitialised memory.",
    Reason.MISMATCH: "Output elements differ from the reference {where}; try sizes that are odd, prime or 1 with grader-cli sweep.",
    Reason.RAISED: "The kernel failed {where}; try sizes that are odd, prime or 1 with grader-cli sweep.",
    Reason.EXITED: "The kernel's process exited {where}; a kernel must return to its caller.",
    Reason.ILLEGAL_ADDRESS: "It accessed memory outside its allocations {where}; check every index and pointer.",
}
_FROM_RUN_END = frozenset({Reason.EXITED, Reason.ILLEGAL_ADDRESS, Reason.ABORTED, Reason.ARITHMETIC, Reason.SIGNALLED})
_HIDDEN_DEFAULT = "The kernel's process died {where}; try sizes that are odd, prime or 1 with grader-cli sweep."

# What follows the sentence of a workload that is shown: what the errors look like.
_SYMPTOMS = {
    Symptom.FLOAT16: "The errors look like half precision or TF32 (10 bits of mantissa); compute in the task's precision",
    Symptom.TF32: "The errors look like TF32 (10 bits of mantissa, cut off); compute in the task's precision",
    Symptom.BFLOAT16: "The errors look like bfloat16 (7 bits of mantissa); compute in the task's precision",
    Symptom.FLOAT16_SUM: "The sums look like half precision, whose errors grow with the length of a sum; add up in float32",
    Symptom.BFLOAT16_SUM: "The sums look like bfloat16, whose errors grow with the length of a sum; add up in float32",
    Symptom.PREVIOUS_ANSWER: "It is the answer to the inputs of the run before, bit by bit; compute each call's answer from its own inputs",
    Symptom.OUTPUT_READ: "They were computed from what the output held before; clear the output first, and do not multiply it by 0",
    Symptom.UNCHANGED: "What is to be changed in place is as it was, bit by bit; write the answer there, to the memory of the input",
    Symptom.RESULT_IGNORED: "It is given its outputs, as its parameters say, and what it returns is not taken; write to the outputs",
}


def trial_failed(trial: wire.Trial, end: wire.RunEnd | None) -> Decision:
    """Why a trial did not pass."""
    if trial.hidden:  # a runner may make names up: one of ours, or none
        code, fault = fault_of(trial.message)
        trial = replace(trial, message="" if fault is None else code)
    verdict, reason, summary = _trial_failed(trial, end)
    if trial.hidden and reason and trial.outcome is not TrialOutcome.DEVICE_FAULT and (reason in _HIDDEN or reason in _FROM_RUN_END):
        summary = _HIDDEN.get(reason, _HIDDEN_DEFAULT).format(where=_where(trial))
    return verdict, reason, summary if trial.hidden else " ".join(filter(None, (summary, *_hints(trial))))


def _hints(trial: wire.Trial) -> Iterator[str]:
    if trial.cuda_error:
        yield f"A CUDA call of the kernel failed ({trial.cuda_error}); check what each launch and call returns."
    if trial.symptom is not None:
        yield f"{_SYMPTOMS[trial.symptom]}."
    if trial.wrong_pattern is not None:
        yield describe(trial.wrong_pattern)
    if trial.phase is wire.TrialPhase.CERTIFY and trial.outcome in (TrialOutcome.UNWRITTEN, TrialOutcome.MISMATCHED):
        yield (
            "It was right before it was timed: no call may rely on an earlier one, and a kernel's own streams have to join the given "
            "stream before it returns."
        )
    yield likely_cause(trial)


def _trial_failed(trial: wire.Trial, end: wire.RunEnd | None) -> Decision:
    where = _where(trial)
    match trial.outcome:
        case TrialOutcome.CRASHED:
            return _ended(end, trial.message, where)
        case TrialOutcome.TIMED_OUT:
            if end is not None and end.cause in (BoxCause.MEMORY_LIMIT, BoxCause.OUTPUT_LIMIT, BoxCause.SANDBOX_VIOLATION):
                return _ended(end, "", where)
            advice = "look for an endless loop or wait, or take a faster device or smaller sizes"
            return Verdict.TIME_LIMIT_EXCEEDED, Reason.TRIAL, f"The kernel did not finish in time {where}; {advice}."
        case TrialOutcome.DEVICE_FAULT:
            return _device(trial.message, where)
        case TrialOutcome.OUT_OF_MEMORY:
            return _out_of_memory(where)
        case TrialOutcome.RAISED:
            reason = Reason.UNSUPPORTED if _LACKS.search(trial.message) else Reason.RAISED
            return Verdict.RUNTIME_ERROR, reason, f"The kernel failed {where}: {trial.message}"
        case TrialOutcome.UNWRITTEN:
            cause = "computed them from the previous contents of the output: they hold what the judge or the allocator put there"
            summary = f"It never wrote {_share(trial.unwritten_count, trial)} {where}, or {cause}; check the grid and the index arithmetic."
            return Verdict.WRONG_ANSWER, Reason.UNWRITTEN_OUTPUT, summary
        case TrialOutcome.NON_FINITE:
            hint = "look for overflow, a division by zero, and memory that is read before it is written"
            sentence = f"It wrote NaN or infinity to {_share(trial.nonfinite_count, trial)} {where}, where the reference is finite; {hint}."
            return Verdict.WRONG_ANSWER, Reason.NON_FINITE, sentence
        case TrialOutcome.WRONG_SHAPE | TrialOutcome.WRONG_DTYPE:
            sentence = "An output has a different shape or dtype than the problem declares" if trial.hidden else trial.message
            return Verdict.WRONG_ANSWER, Reason[trial.outcome.name], f"{sentence[:1].upper()}{sentence[1:]} ({where})."
        case TrialOutcome.INPUT_MODIFIED:
            return Verdict.WRONG_ANSWER, Reason.INPUT_MODIFIED, f"It changed its inputs {where}; write to the outputs only."
        case TrialOutcome.OUT_OF_BOUNDS:
            return Verdict.WRONG_ANSWER, Reason.OUT_OF_BOUNDS, f"It wrote outside its tensors {where}; check the bounds of every store."
    if not trial.mismatched_count and trial.budget_ratio is not None:
        error = f"the error is {trial.budget_ratio:.3g} times what this dtype allows {where}; compute in the task's precision"
        return Verdict.WRONG_ANSWER, Reason.MISMATCH, f"Every element is within tolerance, but {error}."
    largest = "unknown" if trial.max_absolute_error is None else f"{trial.max_absolute_error:.3g}"
    sentence = f"{_share(trial.mismatched_count, trial)} differ from the reference {where}; the largest absolute error is {largest}."
    return Verdict.WRONG_ANSWER, Reason.MISMATCH, sentence


def _device(message: str, where: str) -> Decision:
    """Name the fault for which the device stopped it. Only the driver's name is shown: what comes behind it may tell a hidden size."""
    code, fault = fault_of(message)
    if fault is FaultKind.OUT_OF_MEMORY:
        return _out_of_memory(where)
    stopped = f"The device stopped the kernel {where} ({code or 'a fault without a name'})"
    if fault not in _DEVICE_FAULTS:
        return Verdict.RUNTIME_ERROR, Reason.DEVICE_FAULT, f"{stopped}; run it under compute-sanitizer, which names the line."
    reason, cause = _DEVICE_FAULTS[fault]
    advice = "; check every index, and run it under compute-sanitizer" if reason is Reason.ILLEGAL_ADDRESS else ""
    return Verdict.RUNTIME_ERROR, reason, f"{stopped}: {cause}{advice}."


def _out_of_memory(where: str) -> Decision:
    sentence = f"Out of device memory {where}; allocate less, and free or reuse what earlier calls allocated."
    return Verdict.MEMORY_LIMIT_EXCEEDED, Reason.DEVICE_MEMORY, sentence


def _ended(end: wire.RunEnd | None, message: str, where: str = "while it was loaded") -> Decision:
    if end is None:
        return Verdict.RUNTIME_ERROR, Reason.EXITED, f"{message or 'the process ended'} {where}."
    if end.cause in _BOX_ENDS:
        verdict, reason, sentence = _BOX_ENDS[end.cause]
        return verdict, reason, sentence.format(where=where)
    if end.signal is not None:
        reason = _SIGNALS.get(end.signal, Reason.SIGNALLED)
        hint = "; check every index and pointer" if reason == Reason.ILLEGAL_ADDRESS else ""
        return Verdict.RUNTIME_ERROR, reason, f"The kernel's process was killed by signal {end.signal} {where}{hint}."
    code = "" if end.exit_code is None else f" with exit code {end.exit_code}"
    return Verdict.RUNTIME_ERROR, Reason.EXITED, f"The kernel's process exited{code} {where}; a kernel must return to its caller."


def _where(trial: wire.Trial) -> str:
    name = "a hidden workload" if trial.hidden else f"workload '{trial.workload_id}'"
    return f"on {name}" if trial.phase is wire.TrialPhase.VERIFY else f"on {name} while it was timed"


def _share(part: int, trial: wire.Trial) -> str:
    return f"{part} of {trial.element_count} output elements ({100 * part / max(trial.element_count, 1):.3g} %)"
