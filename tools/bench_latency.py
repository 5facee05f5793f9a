"""How long a warm server takes from Submit to a verdict, and what the time goes into.

    python -m tools.bench_latency [--isolations docker bubblewrap] [--modes test benchmark ranked] [--kernels PATH...] [--rounds 6]
    python -m tools.bench_latency --pause 2 --modes test
    python -m tools.bench_latency --variants 50 [--modes test] [--isolations bubblewrap]

Each isolation has a server of its own, with the problems of these kernels. Every kernel is first graded once, so that judges are warm.
Then it is graded --rounds times with a comment that is new (cold), and --rounds times unchanged (cached). p50 and p95 of each step are
those of the report's own timeline; a step that takes less than 5 ms everywhere is left out. Ranked mode, which takes minutes, is graded
once.

--variants: so many variants of a tiled matmul are submitted together, of which some are wrong or do not compile; first cold, then again.
Prints submissions per minute, the share of the lane's time in which a kernel was verified or measured, and the CPU time of all programs
of this machine meanwhile: divided by the cores, it is how long the round takes at least. Times are comparable within
one run only: this machine may have other work. On the emulated device a time says nothing of a GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from grader.api.client import GraderClient
from grader.v1 import report_pb2, submission_pb2
from grader.views.workload_rows import step_times
from tools.page import Table, facts
from tools.service import host
from tools.service.load import percentile

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "kernels_examples"
# What a raw CUDA kernel, a wrong and a right torch extension, a Triton kernel and a model cost; as the first figures of this had them.
KERNELS = (
    "vector_add/grid_stride.cu",
    "tril_matmul/stale_memory.cu",
    "tril_matmul/correct_2d.cu",
    "row_softmax/triton_row.py",
    "row_softmax/model.py",
)
SHOWN_S = 0.005
WORK = frozenset({report_pb2.STEP_VERIFY, report_pb2.STEP_MEASURE, report_pb2.STEP_BASELINE})
MATMUL = """// variant {note}
extern "C" __global__ void k(const float* a, const float* b, float* c, int m, int n, int q) {{
  __shared__ float ta[{tile}][{tile}], tb[{tile}][{tile}];
  int y = blockIdx.y * {tile} + threadIdx.y, x = blockIdx.x * {tile} + threadIdx.x;
  float s = 0;
  for (int p = 0; p < q; p += {tile}) {{
    ta[threadIdx.y][threadIdx.x] = (y < m && p + threadIdx.x < q) ? a[y * q + p + threadIdx.x] : 0;
    tb[threadIdx.y][threadIdx.x] = (p + threadIdx.y < q && x < n) ? b[(p + threadIdx.y) * n + x] : 0;
    __syncthreads();
    #pragma unroll {unroll}
    for (int j = 0; j < {tile}; ++j) s += ta[threadIdx.y][j] * tb[j][threadIdx.x]{wrong};
    __syncthreads();
  }}
  if (y < m && x < n{edge}) c[y * n + x] = s;
}}
extern "C" void solve(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t q, cudaStream_t stream) {{
  dim3 threads({tile}, {tile}), blocks((n + {tile} - 1) / {tile}, (m + {tile} - 1) / {tile});
  k<<<blocks, threads, 0, stream>>>(a, b, c, m, n, q){end}
}}
"""
MATMUL_PROBLEM = "matmul_fp32"
ALONE = 10  # variants of each kind, compiled one after the other, for how long a compiler takes if nothing else runs


class TimelineSpan(Protocol):
    """A step of a timeline, of a report as the judge or as the API has it."""

    @property
    def step(self) -> object:
        """Which one."""


SpanT = TypeVar("SpanT", bound=TimelineSpan)


@dataclass(kw_only=True)
class GradedKernel:
    """One grading: wall seconds from Submit to its end, its verdict, and the seconds of each step."""

    wall_s: float
    verdict: str
    steps: dict[str, float]
    lane_s: float = 0.0  # from having the device to giving it back
    work_s: float = 0.0  # of these, verifying or timing


@dataclass(kw_only=True)
class LatencyCell:
    """All gradings of one kernel in one mode, cold or cached."""

    isolation: str
    kernel: str
    mode: str
    state: str
    graded: list[GradedKernel] = field(default_factory=list)

    def total(self, percent: int) -> float:
        """A percentile of the wall times, in seconds."""
        return percentile([one.wall_s for one in self.graded], percent)

    def step(self, name: str, percent: int) -> float:
        """A percentile of a step's times, in seconds."""
        return percentile([one.steps.get(name, 0.0) for one in self.graded], percent)


@dataclass(kw_only=True)
class VariantRound:
    """Variants that were submitted together."""

    isolation: str
    mode: str
    state: str
    count: int
    seconds: float
    per_minute: float
    working_share: float  # of the lane's time
    cpu_s: float  # of all programs of this machine
    over_compilers: float  # the seconds over those that the compilers alone would take on all cores; 0: nothing is compiled
    verdicts: dict[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    given = _parser().parse_args(arguments)
    cells, rounds = asyncio.run(_measured(given))
    if given.json:
        sys.stdout.write(json.dumps({"cells": [asdict(one) for one in cells], "rounds": [asdict(one) for one in rounds]}) + "\n")
        return 0
    head = facts(f"python -m tools.bench_latency {shlex.join(sys.argv[1:] if arguments is None else arguments)}")
    head |= {"cores": str(os.cpu_count()), "load before": given.load}
    parts = [Table(headings=("what", "which"), rows=[(key, value) for key, value in head.items()]).lines()]
    parts += [_table(cells)] if cells else []
    parts += [_rounds_table(rounds)] if rounds else []
    sys.stdout.write("\n\n".join("\n".join(part) for part in parts) + "\n")
    return 0


async def _measured(given: argparse.Namespace) -> tuple[list[LatencyCell], list[VariantRound]]:
    cells: list[LatencyCell] = []
    rounds: list[VariantRound] = []
    for isolation in given.isolations:
        problems = {MATMUL_PROBLEM} if given.variants else {Path(kernel).parent.name for kernel in given.kernels}
        async with _server(isolation, given.device, given.server, problems) as client:
            if given.variants:
                rounds += [one for mode in given.modes for one in await _variants(client, isolation, mode, given.variants)]
                continue
            for kernel, mode in itertools.product(given.kernels, given.modes):
                cells += await _cells(client, isolation, kernel, mode, given)
                _tell(cells[-1])
    return cells, rounds


async def _cells(client: GraderClient, isolation: str, kernel: str, mode: str, given: argparse.Namespace) -> list[LatencyCell]:
    path = EXAMPLES / kernel
    source, problem, mark = path.read_text("utf-8"), path.parent.name, "#" if path.suffix == ".py" else "//"
    cold = LatencyCell(isolation=isolation, kernel=kernel, mode=mode, state="cold")
    cached = LatencyCell(isolation=isolation, kernel=kernel, mode=mode, state="cached")
    count = 1 if mode == "ranked" else given.rounds
    await _graded(client, problem, path.name, source, mode)  # the judge and the cache are warm after this
    for number in range(count):
        await asyncio.sleep(given.pause)
        text = f"{source}\n{mark} {time.time_ns()} {number}\n"
        cold.graded.append(await _graded(client, problem, path.name, text, mode))
    for _ in range(count):
        await asyncio.sleep(given.pause)
        cached.graded.append(await _graded(client, problem, path.name, source, mode))
    return [cold, cached]


async def _variants(client: GraderClient, isolation: str, mode: str, count: int) -> list[VariantRound]:
    """The same variants twice: cold, then cached."""
    run, found = f"{time.time_ns()}", []
    await _graded(client, MATMUL_PROBLEM, "k.cu", variant(0, "warm"), mode)
    alone = [await _graded(client, MATMUL_PROBLEM, "k.cu", variant(number, f"{run} alone {number}"), "test") for number in range(ALONE)]
    compilers_s = count * statistics.fmean(one.steps.get("compile", 0.0) for one in alone) / (os.cpu_count() or 1)
    for state in ("cold", "cached"):
        begun_s, begun_cpu_s = time.monotonic(), host.CoreTimes.now().busy_s
        graded = await asyncio.gather(
            *(_graded(client, MATMUL_PROBLEM, "k.cu", variant(number, f"{run} {number}"), mode) for number in range(count))
        )
        seconds, cpu_s = time.monotonic() - begun_s, host.CoreTimes.now().busy_s - begun_cpu_s
        verdicts = {name: sum(one.verdict == name for one in graded) for name in sorted({one.verdict for one in graded})}
        lane_s = sum(one.lane_s for one in graded)
        found.append(
            VariantRound(
                isolation=isolation,
                mode=mode,
                state=state,
                count=count,
                seconds=seconds,
                per_minute=60 * count / seconds,
                working_share=sum(one.work_s for one in graded) / lane_s if lane_s else 0.0,
                cpu_s=cpu_s,
                over_compilers=seconds / compilers_s if state == "cold" and compilers_s else 0.0,
                verdicts=verdicts,
            )
        )
        sys.stderr.write(f"{isolation} {mode} {count} variants, {state}: {found[-1].per_minute:.0f} a minute\n")
    return found


def variant(number: int, note: str) -> str:
    """A matmul: of ten, one is wrong, one leaves a column unwritten, and one does not compile."""
    kind = ("", "", "", "", "", "", "", "wrong", "unwritten", "broken")[number % 10]
    return MATMUL.format(
        note=note,
        tile=(4, 8, 16)[number % 3],
        unroll=(1, 2, 4)[number // 3 % 3],
        wrong=" * 1.01f" if kind == "wrong" else "",
        edge=" && x != 5" if kind == "unwritten" else "",
        end="" if kind == "broken" else ";",
    )


async def _graded(client: GraderClient, problem: str, path: str, text: str, mode: str) -> GradedKernel:
    source = submission_pb2.SourceFile(path=path, content=text)
    asked = submission_pb2.Submission(problem=f"problems/{problem}", sources=[source], mode=f"MODE_{mode.upper()}", skip_sanitizer=True)
    begun_s = time.monotonic()
    found = await client.submit(asked)
    async for event in client.watch(found.name):
        if event.WhichOneof("event") == "submission":
            found = event.submission
    wall_s = time.monotonic() - begun_s
    if found.state != submission_pb2.SUBMISSION_STATE_SUCCEEDED:
        raise RuntimeError(f"{path} was not graded: {found.error.message}")
    spans = found.report.timeline
    return GradedKernel(
        wall_s=wall_s,
        verdict=report_pb2.Verdict.Name(found.report.verdict).removeprefix("VERDICT_"),
        steps=step_times(found),
        lane_s=_seconds(lane_spans(spans, report_pb2.STEP_DEVICE)) if found.report.build.outcome == report_pb2.BUILD_OUTCOME_BUILT else 0.0,
        work_s=_seconds(one for one in spans if one.step in WORK),
    )


def lane_spans(spans: Sequence[SpanT], device_step: object) -> Sequence[SpanT]:
    """The steps of a grading's timeline after it had the device: those after the last device_step; none where it never had it."""
    taken = max((index for index, one in enumerate(spans) if one.step == device_step), default=len(spans))
    return spans[taken + 1 :]


def _seconds(spans: Iterable[report_pb2.Span]) -> float:
    return sum(one.duration.ToNanoseconds() for one in spans) / 1e9


@asynccontextmanager
async def _server(isolation: str, device: str, options: str, problems: Iterable[str]) -> AsyncIterator[GraderClient]:
    """A server of this isolation with these examples, warm where its first call is answered. On a GPU it takes the baselines of all its
    problems when it starts, so it has no others."""
    with tempfile.TemporaryDirectory(prefix="grader-latency-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        for problem in problems:
            shutil.copytree(EXAMPLES / problem, directory / "problems" / problem)
        words = ["--listen", f"unix:{directory}/s", "--problems", f"{directory}/problems", "--sandbox", isolation, "--device", device]
        server = host.Process("grader.server.main", [*words, "--log-level", "warning", *shlex.split(options)], directory / "state")
        server.start()
        try:
            async with GraderClient(f"unix:{directory}/s") as client:
                await host.until_answering(server, client)
                yield client
        finally:
            server.stop()


def _table(cells: Sequence[LatencyCell]) -> list[str]:
    names = dict.fromkeys(name for cell in cells for one in cell.graded for name in one.steps)
    shown = [name for name in names if any(cell.step(name, 95) >= SHOWN_S for cell in cells)]
    made = Table(
        headings=("kernel", "isolation", "mode", "build", "verdict", "n", "total s p50", "p95", *(f"{name} p50/p95" for name in shown))
    )
    for cell in cells:
        verdicts = "/".join(sorted({one.verdict for one in cell.graded}))
        steps = [f"{cell.step(name, 50):.2f}/{cell.step(name, 95):.2f}" for name in shown]
        totals = (f"{cell.total(50):.2f}", f"{cell.total(95):.2f}")
        made.add(cell.kernel, cell.isolation, cell.mode, cell.state, verdicts, len(cell.graded), *totals, *steps)
    return made.lines()


def _rounds_table(rounds: Sequence[VariantRound]) -> list[str]:
    made = Table(
        headings=(
            "isolation",
            "mode",
            "build",
            "variants",
            "seconds",
            "CPU seconds",
            "per minute",
            "over the compilers' time",
            "lane at work",
            "verdicts",
        )
    )
    for one in rounds:
        verdicts = ", ".join(f"{count} {name}" for name, count in one.verdicts.items())
        over = f"{one.over_compilers:.2f}" if one.over_compilers else "-"
        figures = (f"{one.seconds:.1f}", f"{one.cpu_s:.1f}", f"{one.per_minute:.1f}", over, f"{100 * one.working_share:.0f} %")
        made.add(one.isolation, one.mode, one.state, one.count, *figures, verdicts)
    return made.lines()


def _tell(cell: LatencyCell) -> None:
    median_s = statistics.median(one.wall_s for one in cell.graded)
    sys.stderr.write(f"{cell.isolation} {cell.mode} {cell.kernel}: {median_s:.2f} s cached\n")


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tools.bench_latency", description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    made.add_argument("--isolations", nargs="+", default=["docker", "bubblewrap"], metavar="NAME", help="(docker bubblewrap)")
    made.add_argument("--modes", nargs="+", choices=("test", "benchmark", "ranked"), default=["test", "benchmark"], help="(test benchmark)")
    made.add_argument("--kernels", nargs="+", default=list(KERNELS), metavar="PATH", help="below kernels_examples (five of each kind)")
    made.add_argument("--rounds", type=int, default=6, metavar="N", help="gradings of each kernel, cold and again cached (6)")
    made.add_argument("--pause", type=float, default=0.0, metavar="S", help="between two gradings, as of somebody who edits (0)")
    made.add_argument("--variants", type=int, default=0, metavar="N", help="instead: so many variants of a matmul at once")
    made.add_argument("--device", default="emulated", help="what kernels are run on: emulated, cuda, cuda:INDEX (emulated)")
    made.add_argument("--server", default="", metavar="OPTIONS", help="further options of grader-server, such as '--warm-boxes 0'")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.set_defaults(load=" ".join(f"{one:.1f}" for one in os.getloadavg()))
    return made


if __name__ == "__main__":
    sys.exit(main())
