"""Measures the time from Submit to a verdict on a warm server, and each step of it; with --starts that of a server's start.

    python -m tools.bench_latency [--isolations docker bubblewrap] [--modes test benchmark ranked] [--kernels PATH...]
                                  [--rounds 6] [--pause 2] [--starts 0] [--together 0]

Each isolation has a server of its own. Every kernel is first graded once, so that judges are warm, then --rounds times
with a comment that is new (cold), and --rounds times unchanged (cached). Steps are those of the report's timeline; one
that takes less than 5 ms everywhere is left out. Ranked mode, which takes minutes, is graded once. Times are comparable
within one run only, and on the emulated device they say nothing of a GPU.

--starts N starts a server N times on a new state directory and again on that, and submits the first kernel with
grader-cli alone, artifact cached. CPU is that of the processes that are still there or were waited for.

--together N submits N variants of each kernel at once, and again when all are built.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from grader.api.client import GraderClient
from grader.v1 import report_pb2, submission_pb2
from grader.views.workload_rows import step_times
from tools.page import ROOT, Table, arguments_of, facts, table_lines
from tools.service import host
from tools.service.load import percentile

EXAMPLES = ROOT / "kernels_examples"
# A raw CUDA kernel, a wrong and a right torch extension, a Triton kernel and a model.
KERNELS = (
    "vector_add/grid_stride.cu",
    "tril_matmul/stale_memory.cu",
    "tril_matmul/correct_2d.cu",
    "row_softmax/triton_row.py",
    "row_softmax/model.py",
)
SHOWN_S = 0.005


@dataclass(kw_only=True)
class LatencyCell:
    """Gradings of one kernel in one mode, cold or cached: verdicts, seconds in all, and seconds of each step."""

    isolation: str
    kernel: str
    mode: str
    state: str
    verdicts: list[str] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    steps_s: list[dict[str, float]] = field(default_factory=list)

    def step_s(self, name: str, percent: int) -> float:
        """Return a percentile of a step's seconds."""
        return percentile([steps.get(name, 0.0) for steps in self.steps_s], percent)


async def measure(options: argparse.Namespace) -> list[LatencyCell]:
    """Grade every kernel in every mode on every isolation."""
    cells = list[LatencyCell]()
    for isolation in options.isolations:
        async with _server(isolation, options, {Path(kernel).parent.name for kernel in options.kernels}) as client:
            for kernel, mode in itertools.product(options.kernels, options.modes):
                cold, cached, warming = (
                    LatencyCell(isolation=isolation, kernel=kernel, mode=mode, state=state) for state in ("cold", "cached", "")
                )
                source = (EXAMPLES / kernel).read_text("utf-8")
                await _grade(client, warming, source)
                for cell in (cold, cached):
                    for _ in range(1 if mode == "ranked" else options.rounds):
                        await asyncio.sleep(options.pause)
                        await _grade(client, cell, _variant(kernel, time.time_ns()) if cell is cold else source)
                cells += [cold, cached]
                sys.stderr.write(f"{isolation} {mode} {kernel}: {percentile(cached.wall_s, 50):.2f} s cached\n")
    return cells


def _variant(kernel: str, mark: object) -> str:
    """Return a kernel's source with a comment of its own, so that nothing was built of it before."""
    path = EXAMPLES / kernel
    return f"{path.read_text('utf-8')}\n{'#' if path.suffix == '.py' else '//'} {mark}\n"


async def _grade(client: GraderClient, cell: LatencyCell, text: str) -> None:
    path = Path(cell.kernel)
    kernel = submission_pb2.Submission(
        problem=f"problems/{path.parent.name}",
        sources=[submission_pb2.SourceFile(path=path.name, content=text)],
        mode=f"MODE_{cell.mode.upper()}",
    )
    start_s = time.monotonic()
    submission = await client.submit(kernel)
    async for event in client.watch(submission.name):
        if event.WhichOneof("event") == "submission":
            submission = event.submission
    cell.wall_s.append(time.monotonic() - start_s)
    if submission.state != submission_pb2.SUBMISSION_STATE_SUCCEEDED:
        raise RuntimeError(f"{cell.kernel} was not graded: {submission.error.message}")
    cell.verdicts.append(report_pb2.Verdict.Name(submission.report.verdict).removeprefix("VERDICT_"))
    cell.steps_s.append(step_times(submission))


async def rate_table(options: argparse.Namespace) -> list[str]:
    """Return how many variants of a kernel, submitted at once, are graded a minute."""
    rows = Table(headings=("kernel", "isolation", "mode", "build", "verdict", "n", "a minute"))
    for isolation in options.isolations:
        async with _server(isolation, options, {Path(kernel).parent.name for kernel in options.kernels}) as client:
            for kernel, mode in itertools.product(options.kernels, options.modes):
                run = time.time_ns()
                variants = [_variant(kernel, f"{run} {number}") for number in range(options.together)]
                for state in ("cold", "cached"):
                    cell, start_s = LatencyCell(isolation=isolation, kernel=kernel, mode=mode, state=state), time.monotonic()
                    await asyncio.gather(*(_grade(client, cell, text) for text in variants))
                    rate = 60 * len(variants) / (time.monotonic() - start_s)
                    rows.add(kernel, isolation, mode, state, "/".join(sorted(set(cell.verdicts))), len(variants), f"{rate:.0f}")
    return rows.lines()


@asynccontextmanager
async def _server(isolation: str, options: argparse.Namespace, problems: Iterable[str]) -> AsyncIterator[GraderClient]:
    """Run a server with these examples only: on a GPU it takes the baselines of all its problems when it starts."""
    with _stopped(isolation, options, problems) as (server, directory):
        server.start()
        try:
            async with GraderClient(f"unix:{directory}/s") as client:
                await server.until_answering(client)
                yield client
        finally:
            server.stop()


@contextmanager
def _stopped(isolation: str, options: argparse.Namespace, problems: Iterable[str]) -> Iterator[tuple[host.Process, Path]]:
    with tempfile.TemporaryDirectory(prefix="grader-latency-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        for problem in problems:
            shutil.copytree(EXAMPLES / problem, directory / "problems" / problem)
        words = ["--listen", f"unix:{directory}/s", "--problems", f"{directory}/problems", "--sandbox", isolation]
        words += ["--device", options.device, *shlex.split(options.server)]
        yield host.Process("grader.server.main", words, directory / "state"), directory


def start_table(options: argparse.Namespace) -> list[str]:
    """Return how long a server takes until it serves, and a submission without a server."""
    rows = Table(headings=("step", "isolation", "n", "wall s p50", "p95", "CPU s p50", "shared memory MiB"))
    kernel = options.kernels[0]
    for isolation in options.isolations:
        samples: dict[str, list[tuple[float, float, float]]] = {"start": [], "restart": [], "first submit": [], "submit": []}
        for _ in range(options.starts):
            with _stopped(isolation, options, [Path(kernel).parent.name]) as (server, directory):
                for step in ("start", "restart"):
                    samples[step].append(server.serves())
                words = ["submit", str(EXAMPLES / kernel), "--sandbox", isolation, "--device", options.device]
                command = [sys.executable, "-m", "grader.cli.main", *words, "--state-dir", f"{directory}/state"]
                for step in ("first submit", "submit"):
                    begin_s, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
                    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                    samples[step].append((time.monotonic() - begin_s, cpu_s, 0.0))
        for step, figures in samples.items():
            wall_s, cpu_s, memory_mib = zip(*figures, strict=True)
            walls = [f"{percentile(wall_s, percent):.2f}" for percent in (50, 95)]
            rows.add(step, isolation, len(figures), *walls, f"{percentile(cpu_s, 50):.2f}", f"{max(memory_mib):.0f}")
    return rows.lines()


def table(cells: Sequence[LatencyCell]) -> list[str]:
    """Return a row for each cell."""
    names = dict.fromkeys(name for cell in cells for steps in cell.steps_s for name in steps)
    shown = [name for name in names if any(cell.step_s(name, 95) >= SHOWN_S for cell in cells)]
    columns = ("kernel", "isolation", "mode", "build", "verdict", "n", "total s p50", "p95")
    rows = Table(headings=(*columns, *(f"{name} p50/p95" for name in shown)))
    for cell in cells:
        steps = [f"{cell.step_s(name, 50):.2f}/{cell.step_s(name, 95):.2f}" for name in shown]
        totals = [f"{percentile(cell.wall_s, percent):.2f}" for percent in (50, 95)]
        verdicts = "/".join(sorted(set(cell.verdicts)))
        rows.add(cell.kernel, cell.isolation, cell.mode, cell.state, verdicts, len(cell.wall_s), *totals, *steps)
    return rows.lines()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    words = {"nargs": "+"}
    options = arguments_of(
        "tools.bench_latency",
        __doc__,
        arguments,
        {
            "isolations": (["docker", "bubblewrap"], "isolations", words),
            "modes": (["test", "benchmark"], "modes", {**words, "choices": ("test", "benchmark", "ranked")}),
            "kernels": (list(KERNELS), "kernels below kernels_examples", words),
            "rounds": (6, "gradings of each kernel, cold and again cached"),
            "pause": (0.0, "seconds between two gradings, as of somebody who edits"),
            "device": ("emulated", "device that kernels are run on: emulated, cuda, cuda:INDEX"),
            "starts": (0, "starts of a server that are measured, in place of gradings"),
            "together": (0, "variants of each kernel that are submitted at once, in place of gradings"),
            "server": ("", "further options of grader-server, such as '--warm-boxes 0'"),
        },
    )
    if options.starts:
        lines = start_table(options)
    else:
        lines = asyncio.run(rate_table(options)) if options.together else table(asyncio.run(measure(options)))
    head = facts("python -m tools.bench_latency", sys.argv[1:] if arguments is None else arguments)
    head |= {"cores": str(os.cpu_count()), "load before": load}
    sys.stdout.write("\n".join([*table_lines(("fact", "value"), head.items()), "", *lines]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
