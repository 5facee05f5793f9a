"""Reasons and sentences of the device's reports; nothing in them tells a hidden size."""

from __future__ import annotations

import pytest

from grader.model import Verdict
from grader.verdict.failure_reasons import load_failed, trial_failed
from sandbox.protocol import wire


def failed(outcome: wire.TrialOutcome, message: str = "", **fields: object) -> wire.Trial:
    phase = wire.TrialPhase.VERIFY
    return wire.Trial(workload_id="n64", phase=phase, index=0, outcome=outcome, message=message, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "reason", "advice"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "ILLEGAL_ADDRESS", "compute-sanitizer"),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", "ILLEGAL_ADDRESS", "aligned"),
        ("CUDA_ERROR_INVALID_ADDRESS_SPACE", "ILLEGAL_ADDRESS", "compute-sanitizer"),
        ("CUDA_ERROR_INVALID_PC", "ILLEGAL_ADDRESS", "jumped"),
        ("CUDA_ERROR_ASSERT", "DEVICE_ASSERT", "assert()"),
        ("CUDA_ERROR_HARDWARE_STACK_ERROR", "STACK_OVERFLOW", "recursion"),
        ("CUDA_ERROR_LAUNCH_FAILED", "DEVICE_FAULT", "compute-sanitizer"),
        ("CUDA_ERROR_LAUNCH_TIMEOUT", "DEVICE_FAULT", "loop"),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", "DEVICE_FAULT", "CUDA_ERROR_ECC_UNCORRECTABLE"),
        ("ACCEPTED", "DEVICE_FAULT", "device"),
    ],
)
def test_the_drivers_name_decides_the_reason(code: str, reason: str, advice: str) -> None:
    """However the box ended afterwards. The sentence says what to do."""
    trial, end = failed(wire.TrialOutcome.DEVICE_FAULT, f"{code}: while it ran"), wire.RunEnd(cause=wire.BoxCause.KILLED)
    verdict, verdict_reason, sentence = trial_failed(trial, end)
    assert (verdict, verdict_reason) == (Verdict.RUNTIME_ERROR, reason)
    assert advice in sentence and "'n64'" in sentence


@pytest.mark.parametrize(
    "message", ["CUDA_ERROR_ILLEGAL_ADDRESS at 7919", "7919", "CUDA_ERROR_OUT_OF_MEMORY 7919 bytes", "CUDA_ERROR_N7919", "CUDA_ERROR_7919"]
)
@pytest.mark.parametrize("outcome", [wire.TrialOutcome.DEVICE_FAULT, wire.TrialOutcome.OUT_OF_MEMORY])
def test_what_stands_behind_the_drivers_name_is_not_told(outcome: wire.TrialOutcome, message: str) -> None:
    """The rest of the message is untrusted, and may tell a hidden size."""
    sentence = trial_failed(failed(outcome, message, hidden=True, element_count=7919), None)[2]
    assert "7919" not in sentence and "n64" not in sentence and "hidden" in sentence


def test_too_little_device_memory_is_a_limit() -> None:
    """In a trial, and while the artifact is loaded."""
    wanted = (Verdict.MEMORY_LIMIT_EXCEEDED, "DEVICE_MEMORY")
    assert trial_failed(failed(wire.TrialOutcome.OUT_OF_MEMORY), None)[:2] == wanted
    load = wire.Load(outcome=wire.LoadOutcome.RAISED, message="CUDA_ERROR_OUT_OF_MEMORY: in a static constructor")
    assert load_failed(load, None)[:2] == wanted
    unrelated = wire.Load(outcome=wire.LoadOutcome.RAISED, message="no CUDA_ERROR_OUT_OF_MEMORY here")
    assert load_failed(unrelated, None)[:2] == (Verdict.RUNTIME_ERROR, "LOAD")


@pytest.mark.parametrize("end", [{"exit_code": 79}, {"signal": 31}, {"signal": 11}])
def test_how_a_process_ended_on_a_hidden_workload_is_not_told_to_the_bit(end: dict[str, int]) -> None:
    """A kernel that learns a size could end with it; on a public workload the number helps, and is shown."""
    how = wire.RunEnd(cause="exited", **end)  # type: ignore[arg-type]
    hidden, public = (trial_failed(failed(wire.TrialOutcome.CRASHED, hidden=is_hidden), how) for is_hidden in (True, False))
    assert hidden[:2] == public[:2] and "hidden workload" in hidden[2]
    assert str(next(iter(end.values()))) in public[2] and not any(character.isdigit() for character in hidden[2].replace("or 1", ""))


@pytest.mark.parametrize("outcome", ["MISMATCHED", "UNWRITTEN", "NON_FINITE", "RAISED", "WRONG_SHAPE"])
def test_neither_share_nor_message_of_a_hidden_workload_is_told(outcome: str) -> None:
    """A share of 3.03 % is one element of 33, and of no other size."""
    counts = {"element_count": 33, "mismatched_count": 1, "unwritten_count": 1, "nonfinite_count": 1, "max_absolute_error": 3.03}
    trials = (failed(wire.TrialOutcome[outcome], "length 3.03", hidden=is_hidden, **counts) for is_hidden in (True, False))
    hidden, public = (trial_failed(trial, None)[2] for trial in trials)
    assert "3.03" in public and not any(character.isdigit() for character in hidden.replace("or 1", ""))


def explained(kind: wire.PatternKind, **fields: object) -> str:
    """The sentence of a wrong answer with this pattern."""
    pattern = wire.WrongPattern(output="c", shape=(64, 64), kind=kind, count=4096)
    return trial_failed(
        failed(wire.TrialOutcome.MISMATCHED, wrong_pattern=pattern, element_count=4096, mismatched_count=2016, **fields), None
    )[2]


def test_a_pattern_of_a_hidden_workload_adds_no_sentence() -> None:
    """The judge makes none of one; were there one, nothing would be said of it."""
    assert "diagonal" not in explained(wire.PatternKind.UPPER_TRIANGLE, hidden=True)
    assert "diagonal" in explained(wire.PatternKind.UPPER_TRIANGLE)
