"""`grader-cli problems check`: checks that a problem tells right answers from wrong ones, in a box unless the problem is trusted.

Needs the extras `server` and `judge`: only `grader/cli/extras.py` loads this.
"""

from __future__ import annotations

import fcntl
import hashlib
import json as json_module
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from grader.admission.check_box import CheckBox
from grader.admission.problem_check import Admission, AdmissionOutcome, check
from grader.cli.check_options import AdjustOptions, CheckPlace, safe_isolations
from grader.cli.exits import Exit, GraderFailed, UsageError
from grader.cli.output import plain, print_line, stdout_console
from grader.devices import EMULATED
from grader.dispatch.gpus import Gpu
from grader.errors import JudgeBroken, ProblemInvalid
from grader.formats import expected_layouts, formats
from grader.formats.adjustments import Adjustments, literal
from grader.isolation.directories import leave_runtime, shared_slot_directory
from grader.isolation.select import ClosableIsolation, make
from grader.isolation.settings import BoxSettings
from grader.isolations import AUTO
from grader.model import Problem
from grader.problems.store import Imported, import_all
from grader.server.wiring import chosen_gpus
from grader.views.sanitize import one_line
from sandbox.protocol.signatures import cuda_signature, with_arguments
from sandbox.protocol.wire import Finding, FindingOutcome

_OUTCOMES = {
    FindingOutcome.PASSED: ("ok", "green"),
    FindingOutcome.FAILED: ("FAILED", "red"),
    FindingOutcome.WARNING: ("warning", "yellow"),
    FindingOutcome.UNKNOWN: ("unknown", "yellow"),
}


async def check_all(path: Path, device: str, budget_s: float, place: CheckPlace, changes: AdjustOptions, *, json: bool) -> Exit:
    """Check every problem that `problems import` would take, with the changes to each; exit code 1 where one is not admitted."""
    gpu = None if device == EMULATED else next(iter(chosen_gpus(device)), None)
    imports = [entry for entry in import_all(path, adjustments=read_adjustments(changes)) if entry.same_as is None]
    if not imports:
        raise ProblemInvalid(str(path), f"holds no problem; looked for {expected_layouts(formats())}")
    refused = {str(entry.path): reason for entry in imports if (reason := _refusal(entry))}
    if refused and len(imports) == 1:
        raise ProblemInvalid(*next(iter(refused.items())))
    async with check_box(place) as box:
        checks = [
            await check_problem(entry.problem, gpu, budget_s, box, json=json) for entry in imports if entry.problem and not entry.unusable
        ]
    admitted = not refused and all(admission.admitted for admission in checks)
    if json:
        refusals = [{"path": name, "reason": reason} for name, reason in refused.items()]
        data = {"admitted": admitted, "problems": [_to_data(admission) for admission in checks], "refused": refusals}
        print(json_module.dumps(data, indent=2))
    else:
        for name, reason in refused.items():
            print_line(f"{name}: refused: {one_line(reason, most_chars=1000)}", "red")
    return Exit.DONE if admitted else Exit.OTHER_VERDICT


def _refusal(entry: Imported) -> str:
    return f"can't be judged here: {entry.unusable}" if entry.unusable else entry.reason


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
    """A row for each finding, with the workloads that it is of."""
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
    """Join the names of the checks that the findings are of, each once."""
    return ", ".join(dict.fromkeys(finding.check for finding in findings))


def _to_data(admission: Admission) -> dict[str, object]:
    return {
        "problem_id": admission.problem_id,
        "digest": admission.digest,
        "admitted": admission.admitted,
        "outcome": admission.outcome.value,
        "findings": [asdict(finding) for finding in admission.findings],
    }


def read_adjustments(options: AdjustOptions) -> Adjustments:
    """Read `--set`, `--tolerance`, `--allow-lower-precision` and `--keep-weights`. Raises UsageError."""
    constants: dict[str, str] = {}
    for text in options.constants:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise UsageError(f"--set {text!r} is not NAME=VALUE; write it as batch_size=4")
        if name in constants:
            raise UsageError(f"--set {name} is given twice; give it once")
        try:
            constants[name] = literal(value)
        except ValueError as error:
            raise UsageError(f"--set {name}: {error}") from None
    try:
        return Adjustments(
            constants=constants,
            tolerance=options.tolerance,
            allow_lower_precision=options.allow_lower_precision,
            keep_weights=options.keep_weights,
        )
    except ValueError as error:
        raise UsageError(f"--tolerance: {error}") from None


@asynccontextmanager
async def check_box(place: CheckPlace) -> AsyncIterator[CheckBox | None]:
    """Open the box that a check runs in; None where the problem is trusted. GraderFailed where no isolation works here."""
    if place.trusted:
        yield None
        return
    directory = Path(tempfile.gettempdir()) / f"grader-check-{os.geteuid()}"
    directory.mkdir(mode=0o711, exist_ok=True)
    if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
        raise GraderFailed(f"{directory} belongs to another user; remove it, or set TMPDIR to a directory of your own")
    state_id = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:12]
    settings = BoxSettings(state_id=f"check{state_id}", runtime_dir=directory)
    names = safe_isolations() if place.sandbox == AUTO else [place.sandbox]
    isolation = await usable_isolation(names, settings)
    try:
        with _lock_file(directory) as descriptor, suppress(BlockingIOError):  # raised where another check of this user runs
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            await isolation.sweep()  # removes the boxes of a check that was killed
        with _lock_file(directory) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield CheckBox(isolation, settings)
    finally:
        await isolation.close()
        leave_runtime(settings)


async def usable_isolation(names: Sequence[str], settings: BoxSettings) -> ClosableIsolation:
    """Return the first of these isolations that works here; GraderFailed where none does."""
    reasons = []
    for name in names:
        isolation = make(name, settings)
        finding = await isolation.check()
        if finding.usable:
            return isolation
        await isolation.close()
        reasons.append(f"{name}: {finding.detail}")
    raise GraderFailed(
        f"no sandbox for the problem's code works here ({'; '.join(reasons)}); "
        "install bubblewrap or start a Docker engine, or pass --trusted to run the code as you"
    )


@contextmanager
def _lock_file(directory: Path) -> Iterator[int]:
    """Open the directory's lock. It lies where the slots' are: the directory itself is removed with the last check."""
    locks = shared_slot_directory()
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = locks / f"{directory.name}-{hashlib.sha256(bytes(directory.resolve())).hexdigest()[:12]}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
