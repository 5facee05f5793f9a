"""Checks problems for `grader-cli problems check` and `import`, and prints the findings.

Needs the extras `server` and `judge`: only `grader/cli/extras.py` and `imports.py` load this.
"""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from grader.cli.exits import Exit, GraderFailed
from grader.cli.output import open_console, plain, print_line
from grader.devices import EMULATED
from grader.dispatch.gpus import Gpu
from grader.errors import JudgeBroken, ProblemInvalid
from grader.formats import expected_layouts, formats
from grader.model import Problem
from grader.server.wiring import chosen_gpus
from grader.views.sanitize import one_line
from grader_extensions.formats.adjustments import Adjustments
from grader_extensions.formats.arguments import with_arguments
from grader_extensions.formats.problem_sets import import_all
from grader_extensions.problem_check.admission import Admission, AdmissionOutcome, check
from grader_extensions.problem_check.check_box import CheckBox, open_box
from sandbox.protocol.signatures import cuda_signature
from sandbox.protocol.wire import Finding, FindingOutcome

_OUTCOMES = {
    FindingOutcome.PASSED: ("ok", "green"),
    FindingOutcome.FAILED: ("FAILED", "red"),
    FindingOutcome.WARNING: ("warning", "yellow"),
    FindingOutcome.UNKNOWN: ("unknown", "yellow"),
}


async def check_all(path: Path, device: str, budget_s: float, adjustments: Adjustments, *, sandbox: str, trusted: bool, json: bool) -> Exit:
    """Check every problem that `problems import` would take, with the changes to each; exit code 1 where one is not admitted."""
    gpu = None if device == EMULATED else next(iter(chosen_gpus(device)), None)
    imports = [entry for entry in import_all(path, adjustments=adjustments) if entry.same_as is None]
    if not imports:
        raise ProblemInvalid(str(path), f"holds no problem; looked for {expected_layouts(formats())}")
    broken = [entry for entry in imports if entry.unusable or entry.reason]
    refused = {str(entry.path): f"can't be judged here: {entry.unusable}" if entry.unusable else entry.reason for entry in broken}
    if refused and len(imports) == 1:
        raise ProblemInvalid(*next(iter(refused.items())))
    async with open_box(sandbox, trusted=trusted) as box:
        checks = [
            await check_problem(entry.problem, gpu, budget_s, box, json=json) for entry in imports if entry.problem and not entry.unusable
        ]
    admitted = not refused and all(admission.admitted for admission in checks)
    if json:
        refusals = [{"path": name, "reason": reason} for name, reason in refused.items()]
        problems = [
            {
                "problem_id": admission.problem_id,
                "digest": admission.digest,
                "admitted": admission.admitted,
                "outcome": admission.outcome.value,
                "findings": [asdict(finding) for finding in admission.findings],
            }
            for admission in checks
        ]
        data = {"admitted": admitted, "problems": problems, "refused": refusals}
        print(json_module.dumps(data, indent=2))
    else:
        for name, reason in refused.items():
            print_line(f"{name}: refused: {one_line(reason, most_chars=1000)}", "red")
    return Exit.DONE if admitted else Exit.OTHER_VERDICT


async def check_problem(problem: Problem, gpu: Gpu | None, budget_s: float, box: CheckBox | None, *, json: bool) -> Admission:
    """Check a problem, in a box unless it is None, and print the findings unless JSON is wanted. GraderFailed where the check fails."""
    try:
        admission = await check(problem, gpu, budget_s, box=box)
    except JudgeBroken as error:
        raise GraderFailed(f"{problem.problem_id!r} can't be checked: {error}") from None
    if not json:
        open_console().print(plain(f"{problem.problem_id}: {one_line(problem.title)}", "bold"))
        open_console().print(_findings(admission))
        print_line(*_conclusion(admission))
        if admission.described is not None and not admission.described.obstacle:  # only the check could learn the declaration
            print_line(f"language cuda: define\n\n    {cuda_signature(with_arguments(problem.spec, admission.described))}\n")
    return admission


def _findings(admission: Admission) -> Table:
    grouped: dict[tuple[str, FindingOutcome, str], list[str]] = {}
    for finding in admission.findings:
        grouped.setdefault((finding.check, finding.outcome, finding.message), []).append(finding.workload_id or "all")
    table = Table("check", "found", "workloads", "what to do", box=None, pad_edge=False)
    for (name, outcome, message), workloads in grouped.items():
        texts = (one_line(", ".join(workloads), most_chars=60), one_line(message, most_chars=1000))
        table.add_row(plain(one_line(name)), plain(*_OUTCOMES[outcome]), *map(plain, texts))
    return table


def _conclusion(admission: Admission) -> tuple[str, str]:
    rest = f" (workloads not checked: {len(admission.left_out)})" if admission.left_out else ""
    match admission.outcome:
        case AdmissionOutcome.ADMITTED:
            return f"admitted: the right answer passes, and everything wrong that was tried is rejected{rest}\n", "green"
        case AdmissionOutcome.WARNED:
            return f"admitted with warnings ({check_names(admission.warnings)}): a wrong kernel of that kind could pass{rest}\n", "yellow"
        case AdmissionOutcome.UNCHECKED:
            return "not checked: see why above\n", "yellow"
        case AdmissionOutcome.REFUSED:
            return f"refused ({check_names(admission.refusals)}): see what to do above\n", "red"


def check_names(findings: Sequence[Finding]) -> str:
    """Return the names of the checks that found something."""
    return ", ".join(dict.fromkeys(finding.check for finding in findings))
