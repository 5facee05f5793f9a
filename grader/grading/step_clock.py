"""What the time of an attempt goes into, by one clock: that of the process that grades."""

from __future__ import annotations

import time
from collections.abc import Callable

from sandbox.protocol import wire
from sandbox.protocol.wire import Stage, Step

SPAN_LIMIT = 500  # of an attempt; a sweep has many sizes
_STEPS = {
    Stage.LOADING: Step.LOAD,
    Stage.BASELINE: Step.BASELINE,
    Stage.VERIFYING: Step.VERIFY,
    Stage.MEASURING: Step.MEASURE,
    Stage.PROFILING: Step.PROFILE,
}


class StepClock:
    """The steps of one attempt, one after the other without gaps. clock: monotonic nanoseconds."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._origin_ns = clock()
        self.by_host_clock = True  # whether the host's clock times kernels, and not that of a GPU
        self._begun: list[tuple[Step, int]] = []  # each step, and when it began

    def enter(self, step: Step) -> None:
        """This step begins, and the one before it ends."""
        if (not self._begun or self._begun[-1][0] is not step) and len(self._begun) < SPAN_LIMIT:
            self._begun.append((step, self._clock()))

    def follow(self, fact: wire.Fact) -> None:
        """Enter the step that a judge's fact begins. When it was found and when it arrives is the same to a millisecond."""
        if isinstance(fact, wire.Progress) and fact.stage in _STEPS:
            self.enter(_STEPS[fact.stage])
        elif isinstance(fact, wire.Environment):
            self.by_host_clock = fact.clock is wire.Clock.HOST
        elif isinstance(fact, wire.Finished):
            self.enter(Step.CLOSE)

    @property
    def times(self) -> bool:
        """Whether something is timed now."""
        return bool(self._begun) and self._begun[-1][0] in (Step.BASELINE, Step.MEASURE)

    def timeline(self) -> wire.AttemptTimeline:
        """The steps up to now."""
        ends = [begin_ns for _, begin_ns in self._begun[1:]] + [self._clock()]
        return wire.AttemptTimeline(
            spans=tuple(
                wire.Span(step=step, begin_ns=begin_ns - self._origin_ns, duration_ns=end_ns - begin_ns)
                for (step, begin_ns), end_ns in zip(self._begun, ends, strict=True)
            )
        )
