"""Which sanitizer looks at a kernel once it was verified, and for how long: in mode sanitize, and after
a failed test on the emulated device.

It looks in a box of its own, at one public workload, with no more rights than the kernel has. What it
finds is a claim, as of profile mode. The verdict is known before and never changes, so the sanitizer
is bounded, and after a failed test it runs only while no other attempt needs the lane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from grader.grading.build import module_argv
from grader.grading.profile import GPU_SANITIZER, ProfileClaims, RunTool, without_result
from grader.model import NewSubmission
from sandbox.protocol import wire
from sandbox.protocol.languages import languages
from sandbox.protocol.output import EMULATED_SANITIZER
from sandbox.protocol.wire import BoxCause, ToolOutcome, TrialOutcome

FAILED_TEST_S, SANITIZE_MODE_S = 10.0, 120.0
EXPLAINED = frozenset(
    (
        TrialOutcome.MISMATCHED,
        TrialOutcome.UNWRITTEN,
        TrialOutcome.NON_FINITE,
        TrialOutcome.INPUT_MODIFIED,
        TrialOutcome.OUT_OF_BOUNDS,
        TrialOutcome.DEVICE_FAULT,
    )
)

SANITIZER = RunTool(
    name=EMULATED_SANITIZER,
    files=(),
    options=("--sanitize",),
    command=module_argv("sandbox.runner.emulated_sanitizer", "{out}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Facts of the run that judged the kernel, as far as a sanitizer is concerned. failure: the trial
    that failed, if any. end: of its process."""

    loaded: bool = False
    violated: bool = False
    failure: wire.Trial | None = None
    end: wire.RunEnd | None = None

    def after(self, fact: wire.Fact) -> RunResult:
        """Add a fact."""
        match fact:
            case wire.Load(outcome=outcome):
                return replace(self, loaded=outcome is wire.LoadOutcome.LOADED)
            case wire.Violation():
                return replace(self, violated=True)
            case wire.Trial(outcome=outcome) if outcome is not TrialOutcome.PASSED and self.failure is None:
                return replace(self, failure=fact)
            case wire.RunEnd():
                return replace(self, end=fact)
        return self

    @property
    def finished(self) -> bool:
        """Tell whether it loaded and came back. If not, it would not under a sanitizer, which is slower."""
        return self.loaded and (self.failure is None or self.failure.outcome is not TrialOutcome.TIMED_OUT)

    @property
    def explainable(self) -> bool:
        """Tell whether a sanitizer may see the cause: of a wrong access, not of a limit or a shape."""
        if self.failure is None or self.violated:
            return False
        crashed = self.failure.outcome is TrialOutcome.CRASHED
        return self.failure.outcome in EXPLAINED or (crashed and self.end is not None and self.end.cause is BoxCause.SIGNALLED)


def sanitizer_follows(new: NewSubmission, result: RunResult, *, on_gpu: bool) -> bool:
    """Tell whether the report is to have what a sanitizer sees: in its mode, and on the emulated device
    after a failed test. A competition's submissions are only judged; of a kernel that broke the rules
    nothing more is shown."""
    if new.mode is wire.Mode.SANITIZE:
        return not result.violated
    failed_test = new.mode is wire.Mode.TEST and result.explainable
    return failed_test and not (on_gpu or new.skip_sanitizer or new.competition_id) and is_compiled(new.language)


def limit_s(mode: wire.Mode) -> float:
    """Bound the time of building for the sanitizer and of running under it, together."""
    return SANITIZE_MODE_S if mode is wire.Mode.SANITIZE else FAILED_TEST_S


def is_compiled(language: str) -> bool:
    """Whether its sources can be compiled for the emulated device's sanitizer."""
    return languages()[language].is_c


def tool_for(new: NewSubmission, result: RunResult, *, on_gpu: bool, contended: bool) -> RunTool | ProfileClaims:
    """The sanitizer of the device, or why none runs. contended: another attempt needs the lane."""
    tool, why = GPU_SANITIZER if on_gpu else SANITIZER, ""
    if not on_gpu and not is_compiled(new.language):
        why = "it looks at CUDA C++ only, not at kernels in Python"
    elif not result.finished:
        why = "the kernel did not load, or did not end in time; under it the kernel takes longer"
    elif contended and new.mode is not wire.Mode.SANITIZE:
        why = "others wait for the device; --mode sanitize runs it all the same"
    return without_result(ToolOutcome.UNAVAILABLE, why, tool.name) if why else tool


def without_counts(found: ProfileClaims) -> ProfileClaims:
    """What explains a failed test: findings, and not how the kernel uses memory."""
    return replace(found, profile=replace(found.profile, access_counts=None))


def too_slow(mode: wire.Mode) -> ProfileClaims:
    """A source whose compilation for the sanitizer takes too long."""
    return without_result(
        ToolOutcome.FAILED,
        f"the kernel was not compiled for it within {limit_s(mode):g} s, waiting for a builder included",
        EMULATED_SANITIZER,
    )


def too_late(mode: wire.Mode, tool: str) -> ProfileClaims:
    """A sanitizer that could not begin, because of other work on the host."""
    why = f"other work on the host did not end within {limit_s(mode):g} s; --mode sanitize waits for it"
    return without_result(ToolOutcome.UNAVAILABLE, why, tool)


def not_built(build: wire.Build) -> ProfileClaims:
    """A source that compiles, but not with the sanitizer."""
    why = build.log.strip().splitlines()[-1:] or [build.outcome.value]
    return without_result(ToolOutcome.FAILED, f"the kernel could not be compiled for it: {why[0]}", EMULATED_SANITIZER)
