"""Every file of kernels_examples/: its verdict against its first line, and on a GPU how fast it is beside PyTorch."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.model import Problem
from sandbox.protocol import wire
from tests.harness.grading import ROOT, Graded, Grading, grader, load_problem, usable_gpus
from tools.gpu.figures import shown_us
from tools.gpu.run import Run
from tools.gpu.sections.attempt import attempt
from tools.gpu.sections.lanes import language_of

MEASURE_S = 2.0
EXAMPLES = ROOT / "kernels_examples"
AHEAD = 3  # under way for each lane, so that some build while another is on it
BASELINES = ("eager", "compile")
LEAD = ("// expect:", "# expect:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One file, and what its first line says."""

    path: Path
    source: str
    expected: str
    problem: Problem
    language: str

    @property
    def name(self) -> str:
        """Problem and file."""
        return f"{self.path.parent.name}/{self.path.name}"


def all_examples(root: Path = EXAMPLES) -> Iterator[Example]:
    """In the order of their names; ValueError names a file that says nothing."""
    problems = {path.parent.name: load_problem(path.parent.name) for path in sorted(root.glob("*/problem.toml"))}
    for name, problem in problems.items():
        files = [path for suffix in ("cu", "cpp", "py") for path in (root / name).glob(f"*.{suffix}") if path.name != "reference.py"]
        for path in sorted(files):
            source = path.read_text("utf-8")
            first = source.split("\n", 1)[0]
            lead = next((one for one in LEAD if first.startswith(one)), None)
            if lead is None:
                raise ValueError(f"{path}: line 1 has to say '// expect: VERDICT REASON'")
            expected = first.removeprefix(lead).strip()
            yield Example(path=path, source=source, expected=expected, problem=problem, language=language_of(path, source))


async def run(run: Run) -> None:
    """Grade them all; on the emulated device without times, which would say nothing."""
    verdicts = run.section.table("kernel", "language", "expected", "verdict", "as expected", "seconds")
    times = run.section.table("kernel", "workload", "certified, us", "of eager", "of torch.compile", "of bandwidth", "of peak", "flags")
    examples = [one for one in all_examples() if any(part in one.name for part in run.choices.kernels)]
    mode = wire.Mode.TEST if run.choices.emulated else wire.Mode.BENCHMARK
    free, right = asyncio.Semaphore(AHEAD * max(1, len(usable_gpus()))), 0

    async def one(grading: Grading, example: Example) -> Graded | None:
        async with free:
            if run.time_is_up:
                return None
            graded = await attempt(run, grading, example.name, example.problem, example.source, example.language, mode)
        if graded is not None:
            run.say(f"{example.name}: {graded.verdict}, {graded.seconds:.1f} s")
        return graded

    async with grader(isolation=run.choices.isolation, lanes=None) as grading:
        run.environment = await grading.environment(run.choices.device)
        with grading.profile(measure_s=run.choices.measure_s or MEASURE_S):
            found = await asyncio.gather(*(one(grading, example) for example in examples))
    for example, graded in zip(examples, found, strict=True):
        if graded is None:
            verdicts.rows.append((example.name, example.language, example.expected, "none", "no", ""))
            continue
        as_expected = graded.is_one_of((example.expected,))
        right += as_expected
        row = (graded.verdict, "yes" if as_expected else "no", f"{graded.seconds:.1f}")
        verdicts.rows.append((example.name, example.language, example.expected, *row))
        if not as_expected:
            run.section.notes.append(f"{example.name}:\n\n```\n{graded.explanation}\n```")
        ceilings = run.environment.ceilings
        times.rows += [_time_row(example, measured, ceilings, graded) for measured in graded.report.measurements]
    if not times.rows:
        run.section.tables.remove(times)
    text = f"every file of kernels_examples/ gets the verdict that its first line says, in {grading.isolation_name} boxes"
    run.section.claim(text, right == len(examples), f"{right} of {len(examples)}")


def _time_row(example: Example, one: wire.Measurement, ceilings: dict[str, float], graded: Graded) -> tuple[str, ...]:
    """Shares in percent: of PyTorch's speed, of the bandwidth that was measured, of the peak in the first output's type."""
    certified_ns = statistics.median(one.certified.durations_ns)
    speedups = {speedup.baseline: f"{100 * speedup.ratio:.0f} %" for speedup in one.speedups}
    dtype = example.problem.spec.outputs[0].dtype if example.problem.spec.outputs else "float32"
    shares = [
        f"{100 * amount / certified_ns * 1e9 / ceiling:.0f} %" if amount and ceiling and certified_ns > 0 else ""
        for amount, ceiling in ((one.moved_bytes, ceilings.get("bytes_per_s")), (one.flops, ceilings.get(f"flops_per_s:{dtype}")))
    ]
    of_pytorch = [speedups.get(baseline, "") for baseline in BASELINES]
    return (example.name, one.workload_id, shown_us(certified_ns / 1000), *of_pytorch, *shares, ", ".join(graded.report.flags))
