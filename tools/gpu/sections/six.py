"""The six kernels of the triangular matmul story, with verdicts and times."""

from __future__ import annotations

import statistics
from dataclasses import replace

from grader.cli.demo import PROBLEM, STORY
from grader.model import Problem
from sandbox.protocol import wire
from tests.harness.grading import ROOT, Graded, grader, load_problem
from tools.gpu.figures import Interval, quantile, shown_us
from tools.gpu.problems import as_problem
from tools.gpu.run import FIRST_GPU, Run
from tools.gpu.sections.attempt import attempt

N = 4096
BASELINES = ("eager", "compile")


async def run(run: Run) -> None:
    """Grade them one after the other, as a user's submissions."""
    problem = at_full_size(load_problem(PROBLEM)) if not run.choices.emulated else load_problem(PROBLEM)
    verdicts = run.section.table("kernel", "verdict", "as expected", "unwritten", "seconds", "what it says")
    times = run.section.table(
        "kernel",
        "workload",
        "do_bench, us",
        "certified, us",
        "eager do_bench, us",
        "compile do_bench, us",
        "against eager",
        "against compile",
        "flags",
    )
    right = 0
    async with grader(isolation=run.choices.isolation, lanes=FIRST_GPU) as grading:
        run.environment = await grading.environment(run.choices.device)
        run.say(f"the judge is up: {run.environment.device}")
        for name in STORY:
            source = (ROOT / "kernels_examples" / PROBLEM / f"{name}.cu").read_text("utf-8")
            expected = source.split("\n", 1)[0].removeprefix("// expect:").strip()
            graded = await attempt(run, grading, name, problem, source, "torch_extension")
            if graded is None:
                continue
            run.say(f"{name}: {graded.verdict}, {graded.seconds:.1f} s")
            as_expected = graded.is_one_of((expected,))
            right += as_expected
            verdicts.rows.append(
                (
                    name,
                    graded.verdict,
                    "yes" if as_expected else f"no: {expected}",
                    _unwritten(graded),
                    f"{graded.seconds:.1f}",
                    graded.report.summary,
                )
            )
            run.section.raw[name] = [wire.as_json(fact) for fact in graded.facts]
            times.rows += [time_row(name, one, graded) for one in graded.report.measurements]
    run.claim(
        f"the six have their verdicts, in {grading.isolation_name} boxes, N = {N} among the sizes",
        right == len(STORY),
        f"{right} of {len(STORY)}",
    )


def at_full_size(problem: Problem) -> Problem:
    """The problem with a workload of N = 4096, if it has none for a GPU by itself."""
    spec = problem.spec
    if any(one.axes == {"n": N} and one.device_kind in ("", "cuda") for one in spec.workloads):
        return problem
    added = wire.Workload(workload_id=f"n{N}", axes={"n": N}, device_kind="cuda", moved_bytes=3 * 4 * N * N, flops=N**3)
    return replace(as_problem(replace(spec, workloads=(*spec.workloads, added))), title=problem.title)


def time_row(name: str, one: wire.Measurement, graded: Graded) -> tuple[str, ...]:
    """Medians, with what lies between 20 % and 80 %, and speedups with their intervals."""
    baselines = [one.reported_baselines.get(baseline) for baseline in BASELINES]
    speedups = {speedup.baseline: interval(speedup).shown for speedup in one.speedups}
    return (
        name,
        one.workload_id,
        shown(one.reported),
        shown(one.certified),
        *(shown(samples) for samples in baselines),
        *(speedups.get(baseline, "") for baseline in BASELINES),
        ", ".join(graded.report.flags),
    )


def shown(samples: wire.Samples | None) -> str:
    """Median (p20..p80) in microseconds."""
    if samples is None or not samples.durations_ns:
        return ""
    low, high = (quantile(samples.durations_ns, share) / 1000 for share in (0.2, 0.8))
    return f"{shown_us(statistics.median(samples.durations_ns) / 1000)} ({shown_us(low)}..{shown_us(high)})"


def interval(speedup: wire.Speedup) -> Interval:
    """For the tables."""
    return Interval(ratio=speedup.ratio, low=speedup.ratio_low, high=speedup.ratio_high)


def _unwritten(graded: Graded) -> str:
    shares = [trial.unwritten_count / max(trial.element_count, 1) for trial in graded.report.trials]
    most = max(shares, default=0.0)
    return f"{100 * most:.2f} %" if most else ""
