"""Checks problems for `grader-cli problems check` and `import`, and prints the findings.

Needs the extras `server` and `judge`: only `grader/cli/extras.py` and the core's `problems import` load this.
"""

from __future__ import annotations

import json as json_module
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.table import Table

from grader.cli.exits import Exit, GraderFailed
from grader.cli.imports import read_adjustments as read_adjustments
from grader.cli.output import plain, print_line, print_note, stdout_console
from grader.devices import EMULATED
from grader.dispatch.gpus import Gpu
from grader.errors import JudgeBroken, ProblemInvalid
from grader.formats import expected_layouts, formats, with_description
from grader.formats.adjustments import Adjustments
from grader.model import Problem
from grader.problems.store import Imported, constants_of, import_all
from grader.server.wiring import chosen_gpus
from grader.views.sanitize import one_line
from grader_extensions.formats.arguments import with_arguments
from grader_extensions.problem_check.admission import Admission, AdmissionOutcome, check, describe
from grader_extensions.problem_check.check_box import CheckBox, open_box
from sandbox.protocol.signatures import cuda_signature
from sandbox.protocol.wire import Described, Finding, FindingOutcome

IMPORT_BUDGET_S = 30.0  # of the problem that an import checks
DESCRIBE_BUDGET_S = 120.0  # of all problems together
REASON_CHARS, SHOWN_CONSTANTS = 300, 6
_UNCHECKED = re.compile(r"not checked(?: to the end)?: ")
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
        stdout_console().print(plain(f"{problem.problem_id}: {one_line(problem.title)}", "bold"))
        stdout_console().print(_findings(admission))
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
            return f"admitted with warnings ({_names(admission.warnings)}): a wrong kernel of that kind could pass{rest}\n", "yellow"
        case AdmissionOutcome.UNCHECKED:
            return "not checked: see why above\n", "yellow"
        case AdmissionOutcome.REFUSED:
            return f"refused ({_names(admission.refusals)}): see what to do above\n", "red"


def _names(findings: Sequence[Finding]) -> str:
    return ", ".join(dict.fromkeys(finding.check for finding in findings))


async def examine(
    imports: Sequence[Imported], *, check: bool, sandbox: str, trusted: bool, force: bool, json: bool
) -> AsyncIterator[Imported]:
    """Check each import, or learn its arguments only: `ProblemCheck` in `grader/extensions.py`."""
    if not check:
        for entry in imports if trusted else await _describe_all(imports, sandbox):
            yield entry
        return
    async with open_box(sandbox, trusted=trusted) as box:
        for entry in imports:
            yield await _checked(entry, box, force=force, json=json)


async def _describe_all(imports: Sequence[Imported], sandbox: str) -> Sequence[Imported]:
    """Learn the arguments of the entry of each problem where only its own code has them. Where that fails they stay as they are."""
    waiting = [entry.problem for entry in imports if entry.fresh and entry.problem is not None and _is_described(entry.problem)]
    if not waiting:
        return imports
    print_note(f"learning the arguments of {len(waiting)} problems in a sandbox, at most {DESCRIBE_BUDGET_S:.0f} s (not with --no-check)")
    try:
        async with open_box(sandbox) as box:
            assert box is not None
            descriptions = await describe(waiting, box, DESCRIBE_BUDGET_S)
    except (GraderFailed, JudgeBroken) as error:
        print_note(f"not learned: {one_line(str(error))}")
        return imports
    return [_described(entry, descriptions.get(entry.problem.digest) if entry.problem else None) for entry in imports]


def _is_described(problem: Problem) -> bool:
    """Return whether only the problem's own code knows its arguments."""
    return hasattr(formats().get(problem.spec.format), "with_description")


def _described(entry: Imported, description: Described | None) -> Imported:
    if entry.problem is None or description is None:
        return entry
    return replace(entry, problem=with_description(entry.problem, description))


async def _checked(entry: Imported, box: CheckBox | None, *, force: bool, json: bool) -> Imported:
    """Check a problem. Without the memory or time for it the problem is stored unchecked, as it is in a set."""
    if entry.problem is None or not entry.fresh or entry.unusable:
        return entry
    admission = await check_problem(entry.problem, None, IMPORT_BUDGET_S, box, json=json)
    match admission.outcome:
        case AdmissionOutcome.ADMITTED:
            warnings = entry.warnings
        case AdmissionOutcome.WARNED:
            warnings = (*entry.warnings, f"a wrong kernel could pass ({_names(admission.warnings)})")
        case AdmissionOutcome.UNCHECKED:
            warnings = (*entry.warnings, f"not checked: {_unchecked_reason(entry, admission)}")
        case AdmissionOutcome.REFUSED if force:
            warnings = (*entry.warnings, f"although refused ({_names(admission.refusals)})")
        case AdmissionOutcome.REFUSED:
            reason = f"refused ({_names(admission.refusals)}): {one_line(admission.refusals[0].message, most_chars=REASON_CHARS)}"
            return Imported(path=entry.path, reason=f"{reason}; --force imports it all the same")
    return _described(replace(entry, warnings=warnings), admission.described)


def _unchecked_reason(entry: Imported, admission: Admission) -> str:
    """The first reason, and the constants that make the problem smaller."""
    assert entry.problem is not None
    reason = _UNCHECKED.sub("", admission.left_out[0].message) if admission.left_out else "nothing was found"
    constants = constants_of(formats()[entry.problem.spec.format], entry.path)
    listed = ", ".join(f"{name} = {value}" for name, value in list(constants.items())[:SHOWN_CONSTANTS])
    return one_line(reason, most_chars=REASON_CHARS) + (f"; its constants: {listed}" if listed else "")
