"""`grader-cli doctor`: what works on this machine, and what to do about what does not.  Tries things; installs nothing."""

from __future__ import annotations

import json as json_module
import logging
from dataclasses import asdict
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from grader.artifacts import usage
from grader.cli.exits import Exit
from grader.cli.output import open_console, plain
from grader.config import Settings
from grader.observability import log as log_setup
from grader.views.sanitize import one_line
from grader_extensions.operation import host_findings, server_doctor
from grader_extensions.operation.host_findings import HostFinding, finding


async def doctor(*, json: bool) -> Exit:
    """Look, print, and answer whether kernels can be graded here."""
    boxes = await host_findings.isolations()
    log_setup.configure(level=logging.CRITICAL)  # what is wrong is in the findings
    kernel_finding = await host_findings.own_kernel() if any(box.usable for box in boxes) else None
    findings = [
        *await host_findings.compilers(),
        *host_findings.devices(),
        *await host_findings.gpus(boxes),
        *boxes,
        *([kernel_finding] if kernel_finding else []),
        cache(),
        *state(),
    ]
    ready = host_findings.can_grade(findings)
    if json:
        print(json_module.dumps({"ready": ready, "findings": [asdict(entry) for entry in findings]}, indent=2))
    else:
        console = open_console()
        console.print(_table(findings))
        verdict = "kernels can be graded here" if ready else "kernels can't be graded here yet; see what to do above"
        console.print(Text(f"\n{verdict}", style="green" if ready else "red"))
    return Exit.DONE if ready else Exit.GRADER_FAILED


def cache() -> HostFinding:
    """Where built kernels are kept, and how many."""
    directory = Settings().cache_path
    try:
        count, size_bytes = usage(directory)
    except OSError as error:
        remedy = "name a directory of your own in GRADER_CACHE_DIR"
        return finding("cache", "artifacts", f"{directory} can't be read: {error.strerror}", remedy)
    return finding("cache", "artifacts", f"{directory}: {count} built, {size_bytes / 1e6:.1f} MB")


def state() -> list[HostFinding]:
    """Findings on the state of this user's submissions; of a server with other options, `grader-server doctor` says it."""
    settings = Settings()
    checks = (*server_doctor.ledger(settings, datetime.now(UTC)), *server_doctor.space(settings))
    wrong = server_doctor.CheckupStatus.WRONG
    return [
        HostFinding(kind="state", name=check.name, usable=check.standing is not wrong, detail=check.detail, remedy=check.remedy)
        for check in checks
    ]


def _table(findings: list[HostFinding]) -> Table:
    table = Table("", "", "", "", box=None, show_header=False, pad_edge=False)
    for entry in findings:
        mark = Text("yes", style="green") if entry.usable else Text("no", style="red")
        table.add_row(entry.kind, entry.name, mark, plain(one_line(entry.detail, most_chars=1000)))
        for note in (*entry.warnings, *((f"do: {entry.remedy}",) if entry.remedy else ())):
            table.add_row("", "", "", plain(one_line(note, most_chars=1000), "yellow"))
    return table
