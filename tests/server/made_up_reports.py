"""Made-up reports as a GPU's graders write them: accepted, wrong, and of a profile.  Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from grader.model import Report, Score, Verdict
from sandbox.protocol import wire

WORKLOADS = {"4096x8192": 1.0, "8192x4096": 0.98, "1024x32768": 1.2, "16384x1024": 0.6}  # with how long each takes
HIDDEN = ("7x1", "129x33", "37x1000", "1021x4099")
RULE = "|out - ref| <= 1e-37 + 0.001 * |ref|, rms error against float64 at most 64 times PyTorch's + 1e-07 * rms(ref)"
PTXAS = "ptxas info    : Compiling entry function 'softmax' for 'sm_90'\nptxas info    : Used 32 registers, used 1 barriers\n"
ENVIRONMENT = wire.Environment(
    device="NVIDIA H200",
    device_kind="cuda",
    clock=wire.Clock.DEVICE_EVENTS,
    architecture="sm_90",
    isolation="docker",
    versions={"torch": "2.13.0", "cuda": "13.0", "nvcc": "13.0.48", "driver": "580.65"},
    ceilings={"bytes_per_s": 4.2e12, "flops_per_s:float32": 4.1e14, "flops_per_s:float32_ieee": 5.5e13},
)
KERNEL = wire.KernelUse(name="softmax(float const*, float*, long)", registers=32, shared_bytes=512)
BUILD = wire.Build(
    outcome=wire.BuildOutcome.BUILT, log=PTXAS, duration_ns=9_800_000_000, artifact_digest="e" * 64, headers="full", kernels=(KERNEL,)
)
STEPS_S = {
    wire.Step.QUEUED: 1.2,
    wire.Step.BOX: 0.1,
    wire.Step.COMPILE: 9.8,
    wire.Step.ARTIFACT: 0.1,
    wire.Step.LOAD: 2.5,
    wire.Step.VERIFY: 4.1,
    wire.Step.BASELINE: 8.0,
    wire.Step.MEASURE: 31.5,
    wire.Step.CLOSE: 0.2,
}


def accepted(score: float, *, flags: Sequence[str] = (), workloads: Sequence[str] = tuple(WORKLOADS), sample_count: int = 120) -> Report:
    """A ranked report with all that it may have. score: the speedup over PyTorch eager."""
    low, high = score * 0.988, score * 1.012
    spans, begin_ns = [], 0
    for step, seconds in STEPS_S.items():
        spans.append(wire.Span(step=step, begin_ns=begin_ns, duration_ns=int(seconds * 1e9)))
        begin_ns += spans[-1].duration_ns
    names = [*((workload, False) for workload in workloads), *((workload, True) for workload in HIDDEN)]
    return Report(
        verdict=Verdict.ACCEPTED,
        reason="",
        summary=f"It is right on {len(names)} workloads, {len(HIDDEN)} of them hidden, and {score:.2f} times as fast as PyTorch eager.",
        speedups=(wire.Speedup(baseline="eager", ratio=score, ratio_low=low, ratio_high=high),),
        build=BUILD,
        trials=tuple(trial(name, hidden=hidden, index=index) for name, hidden in names for index in range(3)),
        measurements=tuple(measurement(name, score, seed, sample_count) for seed, name in enumerate(workloads)),
        environment=ENVIRONMENT,
        flags=tuple(flags),
        score=Score(value=score, low=low, high=high),
        rule=RULE,
        timeline=tuple(spans),
    )


def trial(workload_id: str, *, hidden: bool = False, index: int = 0) -> wire.Trial:
    """Return a trial that passed."""
    return wire.Trial(
        workload_id=workload_id,
        phase=wire.TrialPhase.VERIFY,
        index=index,
        outcome=wire.TrialOutcome.PASSED,
        hidden=hidden,
        element_count=32_768,
        max_absolute_error=3e-8,
        max_relative_error=4e-7,
        budget_ratio=0.25,
        duration_ns=1_500,
    )


def measurement(workload_id: str, speedup: float, seed: int, sample_count: int) -> wire.Measurement:
    """Times around 100 us. speedup: over PyTorch eager."""
    draw, scale = random.Random(seed), WORKLOADS.get(workload_id, 1.0)

    def samples(median_us: float, count: int) -> wire.Samples:
        return wire.Samples(durations_ns=tuple(int(draw.gauss(median_us * 1000 * scale, median_us * 15)) for _ in range(count)))

    compiled = speedup * 0.55
    return wire.Measurement(
        workload_id=workload_id,
        clock=wire.Clock.DEVICE_EVENTS,
        certified=samples(100, sample_count),
        bound_ns=int(99_000 * scale),
        floor_ns=900,
        reported=samples(99, 60),
        reported_confirmed=True,
        baselines={"eager": samples(100 * speedup, sample_count), "compile": samples(100 * compiled, sample_count)},
        speedups=tuple(
            wire.Speedup(baseline=name, ratio=ratio, ratio_low=ratio * 0.98, ratio_high=ratio * 1.02)
            for name, ratio in (("eager", speedup), ("compile", compiled))
        ),
        reported_baselines={"eager": samples(99.5 * speedup, 60)},
        moved_bytes=int(268_435_456 * scale),
        flops=int(100_663_296 * scale),
        conditions={"sm_clock_mhz": "1980", "temperature_c": "41"},
        turn_count=124,
        half_width=0.02,
        end=wire.MeasurementEnd.WIDTH,
    )


def mismatched() -> Report:
    """The report of a wrong answer, with wrong elements and their pattern."""
    half = wire.WrongPattern(
        output="y", shape=(128, 256), kind=wire.PatternKind.REGION, count=16_384,
        ranges=(wire.IndexRange(axis=1, size=256, first=128, last=255),),
    )  # fmt: skip
    mismatch = replace(
        trial("128x256"),
        outcome=wire.TrialOutcome.MISMATCHED,
        mismatched_count=16_384,
        message="16384 of 32768 elements differ",
        wrong_elements=tuple(
            wire.WrongElement(output="y", index=(0, 128 + at), expected=0.01, actual=0.02, allowed_error=1e-5) for at in range(5)
        ),
        wrong_pattern=half,
    )
    return Report(
        verdict=Verdict.WRONG_ANSWER,
        reason="MISMATCH",
        summary="16384 of 32768 elements of y differ on workload '128x256'.",
        build=BUILD,
        trials=(mismatch,),
        environment=ENVIRONMENT,
        output="softmax of 128 rows\n" * 20,
        flags=("THROTTLED",),
        libraries=("cub",),
        rule=RULE,
    )


def profiled() -> Report:
    """An accepted one, with what tools found."""
    finding = wire.SanitizerFinding(
        kind=wire.SanitizerKind.RACE,
        severity=wire.SanitizerSeverity.ERROR,
        message="two threads write tree[0] without a barrier between",
        path="softmax.cu",
        line=1,
        memory="tree",
        block=(0, 0, 0),
        thread=(1, 0, 0),
        count=128,
    )
    profile = wire.KernelProfile(
        tools=(
            wire.ProfileTool(name="cuobjdump", outcome=wire.ToolOutcome.RAN, detail="SASS of 1 kernel"),
            wire.ProfileTool(name="ncu", outcome=wire.ToolOutcome.UNAVAILABLE, detail="the driver gives counters to administrators only"),
        ),
        workload_id="128x256",
        architecture="sm_90",
        kernels=(KERNEL,),
        findings=(finding,),
        remarks=("It has no vectorised loads.",),
        launches=(wire.KernelLaunch(kernel="softmax", grid=(128, 1, 1), block=(128, 1, 1), shared_bytes=512, count=3, duration_ns=9_000),),
    )
    return replace(accepted(3.3), profile=profile, score=None)
