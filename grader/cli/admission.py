"""`grader-cli problems check`: says whether a problem tells right answers from wrong ones."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from grader.admission.check_box import CheckBox
from grader.admission.problem_check import Admission, AdmissionOutcome, check
from grader.cli.adjusting import adjustments
from grader.cli.check_options import AdjustOptions, CheckPlace
from grader.cli.check_place import check_box
from grader.cli.exits import Exit, GraderFailed
from grader.cli.output import plain, print_line, stdout_console
from grader.devices import EMULATED
from grader.dispatch.gpus import Gpu
from grader.errors import JudgeBroken, ProblemInvalid
from grader.formats import expected_layouts, formats
from grader.model import Problem
from grader.problems.store import Imported, import_all
from grader.server.wiring import chosen_gpus
from grader.views.sanitize import one_line
from sandbox.protocol.signatures import cuda_signature, with_arguments
from sandbox.protocol.wire import Finding, FindingOutcome

_STYLES = {
    FindingOutcome.PASSED: "green",
    FindingOutcome.FAILED: "red",
    FindingOutcome.WARNING: "yellow",
    FindingOutcome.UNKNOWN: "yellow",
}
_WORDS = {
    FindingOutcome.PASSED: "ok",
    FindingOutcome.FAILED: "FAILED",
    FindingOutcome.WARNING: "warning",
    FindingOutcome.UNKNOWN: "unknown",
}


async def check_all(path: Path, device: str, budget_s: float, place: CheckPlace, changes: AdjustOptions, *, json: bool) -> Exit:
    """Check every problem that `problems import` would find, with what is to be changed in each; exit code 1 where one is not admitted."""
    gpu, found = _gpu(device), _found(path, changes)
    async with check_box(place) as box:
        checks = [await checked(one.problem, gpu, budget_s, box, json=json) for one in found if one.problem and not one.unusable]
    refused = {str(one.path): reason for one in found if (reason := _why_refused(one))}
    admitted = not refused and all(one.admitted for one in checks)
    if json:
        refusals = [{"path": at, "reason": reason} for at, reason in refused.items()]
        print(json_module.dumps({"admitted": admitted, "problems": [_plain(one) for one in checks], "refused": refusals}, indent=2))
    else:
        for at, reason in refused.items():
            print_line(f"{at}: refused: {one_line(reason, most_chars=1000)}", "red")
    return Exit.DONE if admitted else Exit.OTHER_VERDICT


def render(found: Admission) -> Table:
    """One row for each check and what it found, with the workloads where it was so."""
    grouped: dict[tuple[str, FindingOutcome, str], list[str]] = {}
    for one in found.findings:
        grouped.setdefault((one.check, one.outcome, one.message), []).append(one.workload_id or "all")
    table = Table("check", "found", "workloads", "what to do", box=None, pad_edge=False)
    for (check_name, outcome, message), workloads in grouped.items():
        cells = (one_line(check_name), plain(_WORDS[outcome], _STYLES[outcome]), one_line(", ".join(workloads), most_chars=60))
        table.add_row(plain(cells[0]), cells[1], plain(cells[2]), plain(one_line(message, most_chars=1000)))
    return table


async def checked(problem: Problem, gpu: Gpu | None, budget_s: float, box: CheckBox | None, *, json: bool) -> Admission:
    """Check one, in a box unless it is None, and print what was found unless JSON is wanted; GraderFailed where the check itself fails."""
    try:
        found = await check(problem, gpu, budget_s, box=box)
    except JudgeBroken as error:
        raise GraderFailed(f"{problem.problem_id!r} can't be checked: {error}") from None
    if not json:
        console = stdout_console()
        console.print(plain(f"{problem.problem_id}: {one_line(problem.title)}", "bold"))
        console.print(render(found))
        console.print(plain(*_verdict(found)), soft_wrap=True)
        if (declared := _declared(problem, found)) is not None:
            console.print(plain(declared), soft_wrap=True)
    return found


def _found(path: Path, changes: AdjustOptions) -> list[Imported]:
    """Each problem once; ProblemInvalid where there is none."""
    found = [one for one in import_all(path, adjustments=adjustments(changes)) if one.same_as is None]
    if not found:
        raise ProblemInvalid(str(path), f"holds no problem; looked for {expected_layouts(formats())}")
    if len(found) == 1 and (reason := _why_refused(found[0])):
        raise ProblemInvalid(str(found[0].path), reason)
    return found


def _why_refused(one: Imported) -> str:
    return f"can't be judged here: {one.unusable}" if one.unusable else one.reason


def _verdict(found: Admission) -> tuple[str, str]:
    rest = f" (workloads not checked: {len(found.left_out)})" if found.left_out else ""
    match found.outcome:
        case AdmissionOutcome.ADMITTED:
            return f"admitted: the right answer passes, and everything wrong that was tried is rejected{rest}\n", "green"
        case AdmissionOutcome.WARNED:
            return f"admitted with warnings ({names_of(found.warnings)}): a wrong kernel of that kind could pass{rest}\n", "yellow"
        case AdmissionOutcome.UNCHECKED:
            return "not checked: see why above\n", "yellow"
        case AdmissionOutcome.REFUSED:
            return f"refused ({names_of(found.refusals)}): see what to do above\n", "red"


def names_of(findings: Sequence[Finding]) -> str:
    """The checks that found something, each once."""
    return ", ".join(dict.fromkeys(one.check for one in findings))


def _declared(problem: Problem, found: Admission) -> str | None:
    """How an entry in CUDA is declared, where only the check could learn that."""
    if found.described is None or found.described.obstacle:
        return None
    return f"language cuda: define\n\n    {cuda_signature(with_arguments(problem.spec, found.described))}\n"


def _gpu(device: str) -> Gpu | None:
    return None if device == EMULATED else next(iter(chosen_gpus(device)), None)


def _plain(found: Admission) -> dict[str, object]:
    findings: Iterable[dict[str, object]] = (asdict(one) for one in found.findings)
    return {
        "problem_id": found.problem_id,
        "digest": found.digest,
        "admitted": found.admitted,
        "outcome": found.outcome.value,
        "findings": list(findings),
    }
