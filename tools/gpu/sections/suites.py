"""The GPU tests, as sections: pytest on a group of files of tests/gpu, with the rows that they print."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.harness.grading import ISOLATION_VARIABLE, ROOT
from tools.gpu.page import pasted_rows
from tools.gpu.run import Run

TESTS = ROOT / "tests" / "gpu"
TABLES_VARIABLE = "GRADER_GPU_TABLES"  # of tests/gpu/conftest.py, which only pytest imports
GROUPS = ("attacks", "honest", "faults", "conformance")
TAIL = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What pytest counted, and the ids of tests that failed."""

    passed: int = 0
    skipped: int = 0
    failed: tuple[str, ...] = ()


def files_of(group: str, folder: Path = TESTS) -> list[Path]:
    """The test files of a group, by their names; "tests" has those of no other group."""
    groups = {name: sorted(folder.glob(f"test_*{name.removesuffix('s')}*.py")) for name in GROUPS}
    if group in groups:
        return groups[group]
    taken = {path for paths in groups.values() for path in paths}
    return [path for path in sorted(folder.glob("test_*.py")) if path not in taken]


def suite(group: str) -> Callable[[Run], Coroutine[None, None, None]]:
    """The section of that group."""

    async def run(run: Run) -> None:
        await _run(run, files_of(group))

    return run


async def _run(run: Run, paths: list[Path]) -> None:
    if not paths:
        run.claim("its tests pass", None, "there are no such tests in tests/gpu")
        return
    with tempfile.TemporaryDirectory(prefix="grader-suite-") as place:
        result = Path(place) / "result.xml"
        # Where pytest-timeout was not carried in, its settings are unknown words; the section has a limit of its own.
        words = ["-q", "-s", "--all-cases", *([] if find_spec("pytest_timeout") else ["-o", "addopts="])]
        command = [sys.executable, "-m", "pytest", *words, "-p", "no:cacheprovider", f"--junitxml={result}", *map(str, paths)]
        if any(run.choices.kernels):
            command += ["-k", " or ".join(filter(None, run.choices.kernels))]
        output, code = await _streamed(run, command, Path(place))
        found = counted(result.read_text("utf-8")) if result.exists() else Outcome()
        run.section.notes += tables_in(Path(place)) or ["\n".join(pasted_rows(output))]
    run.section.raw |= {
        "exit_code": code,
        "passed": found.passed,
        "skipped": found.skipped,
        "failed": list(found.failed),
        "output": output[-TAIL:],
    }
    detail = f"{found.passed} passed, {found.skipped} skipped, {len(found.failed)} failed"
    names = ", ".join(path.name for path in paths)
    if found.failed:
        run.section.notes.append("Failed: " + ", ".join(f"`{name}`" for name in found.failed[:40]))
    if code is None:
        run.section.failure = f"stopped when the section's time was up: {detail}\n{output[-TAIL:]}"
    elif code != 0 and not found.failed:
        run.section.failure = f"pytest ended with exit code {code}\n{output[-TAIL:]}"
    # Where everything is skipped, nothing was shown.
    run.claim(f"{names}: every test passes", code == 0 and found.passed > 0, detail)


def tables_in(folder: Path) -> list[str]:
    """The tables that the tests have written, each under its name."""
    texts = {path.stem: path.read_text("utf-8").splitlines() for path in sorted(folder.glob("*.md"))}
    return [f"{name}:\n\n" + "\n".join(line for line in lines if line.startswith("|")) for name, lines in texts.items()]


async def _streamed(run: Run, command: list[str], tables: Path) -> tuple[str, int | None]:
    """What it printed, and its exit code; None where the time was up. Its lines are progress."""
    environment = {**os.environ, ISOLATION_VARIABLE: run.choices.isolation, TABLES_VARIABLE: str(tables), "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        limit=1 << 22,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(run.left_s):
            async for line in process.stdout:
                lines.append(line.decode("utf-8", "replace"))
                if lines[-1].strip():
                    run.say(lines[-1].rstrip()[:240])
            return "".join(lines), await process.wait()
    except TimeoutError:
        # As Ctrl-C, so that pytest's fixtures take boxes and judges away and the results are written.
        os.killpg(process.pid, signal.SIGINT)
        try:
            async with asyncio.timeout(20):
                lines.append((await process.stdout.read()).decode("utf-8", "replace"))
                await process.wait()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return "".join(lines), None


def counted(xml: str) -> Outcome:
    """Read pytest's result file."""
    passed, skipped, failed = 0, 0, []
    for case in ElementTree.fromstring(xml).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed.append(f"{case.get('classname', '').split('.')[-1]}::{case.get('name', '')}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return Outcome(passed=passed, skipped=skipped, failed=tuple(failed))
