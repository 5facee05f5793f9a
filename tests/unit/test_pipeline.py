"""What the pipeline makes of a box's end."""

import pytest

from grader.errors import SandboxBroken
from grader.isolation import BoxCause, BoxExit
from grader.pipeline import _build_outcome, cut
from sandbox import wire
from sandbox.wire import BuildOutcome


@pytest.mark.parametrize("piece", ["a", "ä", "‘", "\N{GRINNING FACE}"])
def test_text_of_any_width_is_cut_to_its_bytes(piece: str) -> None:
    """Never over the limit, and never a half character at the end."""
    text, truncated = cut((piece * 100_000).encode()[: wire.LOG_LIMIT_BYTES])
    assert truncated and len(text.encode()) <= wire.LOG_LIMIT_BYTES and set(text) == {piece}


def test_bytes_that_are_no_text_are_cut_too() -> None:
    """Each becomes three, and the limit is the same."""
    text, truncated = cut(b"\xff" * wire.LOG_LIMIT_BYTES)
    assert truncated and len(text.encode()) <= wire.LOG_LIMIT_BYTES
    assert cut(b"short \xff") == ("short \ufffd", False)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (BoxExit(cause=BoxCause.EXITED, exit_code=0), (BuildOutcome.BUILT, None)),
        (BoxExit(cause=BoxCause.EXITED, exit_code=1), (BuildOutcome.REJECTED, None)),
        (BoxExit(cause=BoxCause.EXITED, exit_code=3), (BuildOutcome.REJECTED, "UNSUPPORTED")),
        (BoxExit(cause=BoxCause.EXITED, exit_code=4), (BuildOutcome.REJECTED, "ENTRY_NOT_FOUND")),
        (BoxExit(cause=BoxCause.SIGNALLED, signal=11), (BuildOutcome.REJECTED, "BUILDER_DIED")),
        (BoxExit(cause=BoxCause.SANDBOX_VIOLATION, signal=31), (BuildOutcome.REJECTED, "BUILDER_DIED")),
        (BoxExit(cause=BoxCause.WALL_LIMIT), (BuildOutcome.TIMED_OUT, None)),
        (BoxExit(cause=BoxCause.MEMORY_LIMIT), (BuildOutcome.OUT_OF_MEMORY, None)),
        (BoxExit(cause=BoxCause.OUTPUT_LIMIT), (BuildOutcome.OUTPUT_EXCEEDED, None)),
    ],
)
def test_only_a_clean_exit_is_a_build(end: BoxExit, outcome: tuple[BuildOutcome, str | None]) -> None:
    """Every other end of a build box is the submission's failure."""
    assert _build_outcome(end) == outcome


def test_a_broken_builder_is_our_fault() -> None:
    """Then the attempt is repeated and nobody is blamed."""
    with pytest.raises(SandboxBroken):
        _build_outcome(BoxExit(cause=BoxCause.EXITED, exit_code=5, output=b"Traceback"))
