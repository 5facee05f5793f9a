"""Which sanitizer looks at a kernel, once it was verified: in mode sanitize, and after a failed test on the emulated device.

It looks in a box of its own, at one public workload, with no more rights than the kernel has. What it finds is a claim, as of profile mode.
"""

from __future__ import annotations

from dataclasses import replace

from grader.grading.build import module_argv
from grader.grading.claims import ProfileClaims
from grader.grading.profile import GPU_SANITIZER, RunTool, without_result
from grader.model import NewSubmission
from sandbox.protocol import wire
from sandbox.protocol.languages import languages
from sandbox.protocol.output import EMULATED_SANITIZER
from sandbox.protocol.wire import ToolOutcome

SANITIZER = RunTool(
    name=EMULATED_SANITIZER,
    files=(),
    options=("--sanitize",),
    command=module_argv("sandbox.runner.emulated_sanitizer", "{out}"),
)


def sanitizer_follows(new: NewSubmission, wrong: wire.Trial | None, *, violated: bool, on_gpu: bool) -> bool:
    """Whether the kernel is run once more under a sanitizer: in its mode always, and on the emulated device after a failed test.

    wrong: the trial that failed, if any. A competition's submissions are only judged; a kernel that broke the rules has no bug to find.
    """
    if new.mode is wire.Mode.SANITIZE:
        return True
    failed_test = new.mode is wire.Mode.TEST and wrong is not None and not violated
    return failed_test and not (on_gpu or new.skip_sanitizer or new.competition_id) and is_compiled(new.language)


def is_compiled(language: str) -> bool:
    """Whether its sources can be compiled for the emulated device's sanitizer."""
    return languages()[language].is_c


def tool_for(language: str, *, on_gpu: bool) -> RunTool | ProfileClaims:
    """The sanitizer of the device, or why there is none."""
    if on_gpu:
        return GPU_SANITIZER
    if not is_compiled(language):
        return without_result(ToolOutcome.UNAVAILABLE, "it looks at CUDA C++ only, not at kernels in Python", EMULATED_SANITIZER)
    return SANITIZER


def without_counts(found: ProfileClaims) -> ProfileClaims:
    """What explains a failed test: findings, and not how the kernel uses memory."""
    return replace(found, profile=replace(found.profile, access_counts=None))


def not_built(build: wire.Build) -> ProfileClaims:
    """A source that compiles, but not with the sanitizer."""
    why = build.log.strip().splitlines()[-1:] or [build.outcome.value]
    return without_result(ToolOutcome.FAILED, f"the kernel could not be compiled for it: {why[0]}", EMULATED_SANITIZER)
