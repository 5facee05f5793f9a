"""Measures the artifact cache: builds a kernel of about 1 MB in a real box, then takes it from the cache again and again.

    .venv/bin/python -m tools.bench_cache [--sandbox auto|docker|bubblewrap|process] [--count 100]

A figure is from job to artifact: the pipeline's own `build_artifact`, with the key, the look at the toolchain, the checks of the entry
and the copy for the judge; `with the workspace` adds the directories that each attempt gets.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shlex
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from grader.artifacts import ArtifactCache
from grader.dispatch.local_fleet import LocalFleet
from grader.formats import native
from grader.grading.attempt import StepClock
from grader.grading.build import build_artifact
from grader.isolation.select import choose
from grader.isolation.settings import BoxSettings
from grader.model import Lease, NewSubmission, SourceFile, Submission, SubmissionState
from grader.observability import log
from sandbox.protocol import wire
from tools.page import ROOT, facts, table_lines

PROBLEM = ROOT / "kernels_examples" / "vector_add"
LIMIT_S = 0.050
SOURCE = """#include <cuda_runtime.h>
__device__ const char ballast[1 << 20] = {1};
__global__ void add(const float* a, const float* b, float* c, long n) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] * ballast[i % (1 << 20)] * 0 + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, long n, cudaStream_t stream) {
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);
}
"""


def main() -> int:
    """Measure and print; 1 where half of the lookups take longer than 50 ms."""
    parser = argparse.ArgumentParser(description="Measures the artifact cache through the real pipeline.")
    parser.add_argument("--sandbox", default="auto", choices=("auto", "docker", "bubblewrap", "process"))
    parser.add_argument("--count", type=int, default=100)
    given = parser.parse_args()
    log.configure(level=logging.WARNING)
    return asyncio.run(bench(given.sandbox, given.count))


async def bench(sandbox: str, count: int) -> int:
    """Build once, look up `count` times."""
    with tempfile.TemporaryDirectory(prefix="grader-bench-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o711)
        settings = BoxSettings(state_id="benchcache", runtime_dir=Path(place) / "run")
        settings.runtime_dir.mkdir(mode=0o711)
        isolation, _ = await choose(sandbox, settings)
        cache = ArtifactCache(Path(place) / "cache", 64 << 20)
        try:
            begun_s = time.perf_counter()
            toolchain = await isolation.fingerprint()
            walk_s = time.perf_counter() - begun_s
            fleet = LocalFleet(isolation=isolation, settings=settings, cache=cache)
            built, built_s, _, size_bytes = await job(fleet)
            assert not built.cached, built.log
            found = [await job(fleet) for _ in range(count)]
            assert all(build.cached for build, *_ in found) and toolchain == await isolation.fingerprint()
        finally:
            await isolation.close()
    head = {
        **facts(f"python -m tools.bench_cache {shlex.join(sys.argv[1:])}"),
        "isolation": isolation.NAME,
        "built": f"{size_bytes / 1e6:.2f} MB in {built_s:.2f} s",
        "toolchain walked in": f"{walk_s * 1e3:.0f} ms",
    }
    rows = [_percentiles("job to artifact", [one[1] for one in found]), _percentiles("with the workspace", [one[2] for one in found])]
    lines = [*table_lines(("what", "which"), head.items()), "", *table_lines(("from the cache", "times", "p50", "p95"), rows)]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(statistics.median(one[1] for one in found) >= LIMIT_S)


async def job(fleet: LocalFleet) -> tuple[wire.Build, float, float, int]:
    """One job: its build, how long that took, how long with its directories, and the artifact's size."""
    new = NewSubmission(problem_id="vector_add", language="cuda", sources=(SourceFile(path="kernel.cu", content=SOURCE),))
    problem = native.load(PROBLEM)
    submission = Submission(
        submission_id="bench", new=new, problem_digest=problem.digest, state=SubmissionState.RUNNING, create_time=datetime.now(UTC)
    )
    lease = Lease(submission=submission, problem=problem, attempt=1, worker_id="bench")
    begun_s = time.perf_counter()
    with fleet.workspace(lease) as work:
        inside_s = time.perf_counter()
        build = await build_artifact(
            lease, fleet, work, wire.Environment(device="", device_kind="emulated", clock=wire.Clock.HOST), StepClock()
        )
        ended_s = time.perf_counter()
        assert build.outcome is wire.BuildOutcome.BUILT, build.log
        return build, ended_s - inside_s, ended_s - begun_s, work.artifact_path.stat().st_size


def _percentiles(what: str, times_s: list[float]) -> tuple[object, ...]:
    centiles = statistics.quantiles(times_s, n=100, method="inclusive")
    return (what, len(times_s), f"{centiles[49] * 1e3:.1f} ms", f"{centiles[94] * 1e3:.1f} ms")


if __name__ == "__main__":
    raise SystemExit(main())
