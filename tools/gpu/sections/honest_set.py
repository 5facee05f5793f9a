"""Every kernel of tests/honest, several times over: all are accepted, every time, and their wrong twins are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.harness.grading import Grading, grader
from tests.honest.kernel_files import HERE, Kernel, all_in
from tools.gpu.page import Table
from tools.gpu.run import FIRST_GPU, Run
from tools.gpu.stream import Came, Lane, Submitted, chosen

MEASURE_S = 1.0
COLUMNS = ("kernel", "language", "mode", "verdict", "reason", "gradings", "seconds each")


@dataclass(slots=True, kw_only=True)
class Graded:
    """A kernel, and what came of it each time. wanted: the verdict that it has to get."""

    kernel: Kernel
    wanted: str
    came: list[Came] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether it had that verdict every time, and at least once."""
        return bool(self.came) and all(one.verdict == self.wanted for one in self.came)

    @property
    def row(self) -> tuple[str, ...]:
        """For the table."""
        verdicts = Counter(one.verdict for one in self.came)
        reasons = sorted({one.reason for one in self.came if one.reason})
        return (
            self.kernel.name,
            self.kernel.language,
            self.kernel.mode.value,
            ", ".join(verdict if len(verdicts) == 1 else f"{count} {verdict}" for verdict, count in verdicts.most_common()),
            "; ".join(reasons),
            str(len(self.came)),
            ", ".join(f"{one.seconds:.1f}" for one in self.came),
        )


async def run(run: Run) -> None:
    """Grade each of them `repeats` times, in rounds, so that a round that was cut is the last one; the wrong twins once."""
    kernels = [Graded(kernel=one, wanted="ACCEPTED") for one in chosen(all_in("kernels"), run)]
    controls = [Graded(kernel=one, wanted="WRONG_ANSWER") for one in chosen(all_in("controls"), run)]
    table = run.section.table(*COLUMNS)
    refused = run.section.table(*COLUMNS, title="Wrong twins, which are refused.")
    run.section.raw["rows"] = []
    async with grader(isolation=run.choices.isolation, lanes=FIRST_GPU, hidden=(HERE / "problems",)) as grading:
        run.environment = await grading.environment(run.choices.device)
        with grading.profile(measure_s=MEASURE_S):
            run.say(f"{run.choices.repeats} rounds of {len(kernels)} kernels, and {len(controls)} wrong twins")
            await _graded(
                run, Lane(run, grading), [*kernels * run.choices.repeats, *controls], {"ACCEPTED": table, "WRONG_ANSWER": refused}
            )
    _conclude(run, grading, kernels, controls)
    if not controls:
        run.section.tables.remove(refused)


async def _graded(run: Run, lane: Lane, those: list[Graded], tables: Mapping[str, Table]) -> None:
    async def came(number: int, one: Came) -> None:
        graded = those[number]
        graded.came.append(one)
        rows = {each.kernel.name: each.row for each in those if each.came and each.wanted == graded.wanted}
        tables[graded.wanted].rows = list(rows.values())
        run.section.raw["rows"].append(_plain(graded, one))
        run.say(f"{graded.kernel.name}: {one.verdict} {one.reason}".rstrip() + f", {one.seconds:.1f} s")
        if one.verdict != graded.wanted:
            said = one.failure if one.graded is None else one.graded.explanation[:2000]
            run.section.notes.append(f"{graded.kernel.name}: {graded.kernel.why}\n\n```\n{said}\n```")

    await lane.grade_all([submitted(one.kernel) for one in those], came)


def submitted(kernel: Kernel) -> Submitted:
    """The kernel, in the mode that its file names."""
    problem = kernel.read_problem()
    sources = kernel.submission(problem.problem_id).sources
    return Submitted(name=kernel.name, problem=problem, sources=sources, language=kernel.language, mode=kernel.mode)


def _plain(graded: Graded, one: Came) -> dict[str, str]:
    return {
        "kernel": graded.kernel.name,
        "language": graded.kernel.language,
        "mode": graded.kernel.mode.value,
        "wanted": graded.wanted,
        "verdict": one.verdict,
        "reason": one.reason,
        "seconds": f"{one.seconds:.1f}",
    }


def _conclude(run: Run, grading: Grading, kernels: list[Graded], controls: list[Graded]) -> None:
    repeats, section = run.choices.repeats, run.section
    wrong = [one.kernel.name for one in kernels if one.came and not one.right]
    count = sum(len(one.came) for one in kernels)
    text = f"{len(kernels)} honest kernels are accepted every time, in {grading.isolation_name} boxes"
    section.claim(text, not wrong and count > 0, ", ".join(wrong) or f"{count} gradings")
    section.claim(f"each was graded {repeats} times", count == repeats * len(kernels), f"{count} of {repeats * len(kernels)}")
    if controls:
        accepted = [one.kernel.name for one in controls if not one.right]
        section.claim(f"{len(controls)} wrong twins are refused", not accepted, ", ".join(accepted))
    part, parts = run.choices.share
    section.raw["share"] = f"{part}/{parts}"
