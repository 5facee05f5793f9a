"""Output and failures of a later process of ranked mode, once an earlier one has met a hidden workload."""

from __future__ import annotations

import pytest

from grader.grading.pipeline import LEFT_OUT, after_hidden, run_end
from grader.isolation import BoxExit
from grader.verdict.failure_reasons import load_failed, trial_failed
from sandbox.protocol import wire
from sandbox.protocol.wire import BoxCause, LoadOutcome, TrialOutcome, TrialPhase

SIZE = "40144"


def failed(outcome: TrialOutcome) -> wire.Trial:
    """A public workload's trial that says the size in every field that the kernel can choose."""
    return wire.Trial(
        workload_id="public",
        phase=TrialPhase.VERIFY,
        index=0,
        outcome=outcome,
        element_count=1 << 20,
        mismatched_count=int(SIZE),
        unwritten_count=int(SIZE),
        nonfinite_count=int(SIZE),
        max_absolute_error=float(SIZE),
        message=f"n is {SIZE}",
    )


ENDED = BoxExit(cause=BoxCause.EXITED, exit_code=int(SIZE), output=f"n is {SIZE}".encode())


@pytest.mark.parametrize("outcome", [outcome for outcome in TrialOutcome if outcome is not TrialOutcome.PASSED])
def test_a_failed_trial_of_a_later_process_does_not_say_the_size(outcome: TrialOutcome) -> None:
    end = run_end(ENDED, None, met_before=True)
    assert SIZE not in " ".join(trial_failed(after_hidden(failed(outcome)), end))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "outcome", [TrialOutcome.MISMATCHED, TrialOutcome.UNWRITTEN, TrialOutcome.NON_FINITE, TrialOutcome.RAISED, TrialOutcome.CRASHED]
)
def test_a_failed_trial_of_the_first_process_does(outcome: TrialOutcome) -> None:
    """The control: as it is shown of a public workload."""
    end = run_end(ENDED, None)
    assert SIZE in trial_failed(failed(outcome), end)[2] or "4.01e+04" in trial_failed(failed(outcome), end)[2]


@pytest.mark.parametrize("outcome", [LoadOutcome.RAISED, LoadOutcome.CRASHED, LoadOutcome.ENTRY_NOT_FOUND])
def test_a_failed_load_of_a_later_process_does_not_say_the_size(outcome: LoadOutcome) -> None:
    """With the control: unchanged it does."""
    load = wire.Load(outcome=outcome, message=f"n is {SIZE}")
    assert SIZE in load_failed(load, run_end(ENDED, None))[2]
    assert SIZE not in load_failed(after_hidden(load), run_end(ENDED, None, met_before=True))[2]  # type: ignore[arg-type]


def test_a_later_process_is_shown_neither_output_nor_exit_code() -> None:
    """Printed output is mentioned only where there is some. No errors of a passed trial are kept: a kernel can choose them."""
    end = run_end(ENDED, None, met_before=True)
    assert (end.output, end.exit_code, end.signal) == (LEFT_OUT, None, None)
    assert run_end(BoxExit(cause=BoxCause.KILLED), None, met_before=True).output == ""
    assert after_hidden(failed(TrialOutcome.PASSED)).max_absolute_error is None  # type: ignore[union-attr]


def test_the_report_says_that_something_is_left_out() -> None:
    """Where nothing came later, and where nothing is hidden, all is shown and nothing is said."""
    end = BoxExit(cause=BoxCause.KILLED, output=b"n is 1000\nn is 1537\n", arrivals=((0, 100), (10, 200)))
    assert run_end(end, 150).output == f"n is 1000\n{LEFT_OUT}"
    assert run_end(end, 250).output == run_end(end, None).output == "n is 1000\nn is 1537\n"
