"""Writes what the GPU tests find as a page: `python -m pytest tests/gpu -m gpu --gpu-report DIR`. A pytest plugin.

A test module is a section, a test function is a claim. A claim holds if all its cases pass, fails if one fails, and is not shown if a case
was skipped or did not begin. DIR/gpu.md and DIR/gpu.json are written again after every test, so that an interrupted run keeps what it has.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from grader.dispatch.gpus import discover
from sandbox.protocol import wire
from tools.page import Table, command_output, facts, outcome, table_lines

MESSAGE_LIMIT = 2000  # characters of a failure that the page shows
NAMES_LIMIT = 8  # failed cases that a claim names
KEY = pytest.StashKey["Report"]()


@dataclass(slots=True, kw_only=True)
class Claim:
    """The outcomes of one test function's cases."""

    text: str
    planned: int = 0
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # why

    @property
    def holds(self) -> bool | None:
        """Return whether it holds; None where it was not shown."""
        if self.failed:
            return False
        return True if 0 < self.planned == self.passed else None

    @property
    def detail(self) -> str:
        """How many cases passed, and what became of the others."""
        parts = [f"failed: {', '.join(self.failed[:NAMES_LIMIT])}"] if self.failed else []
        parts += [f"{self.skipped.count(why)} skipped: {why}" for why in dict.fromkeys(self.skipped)]
        unbegun = self.planned - self.passed - len(self.failed) - len(self.skipped)
        parts += [f"{unbegun} not begun"] if unbegun else []
        return "; ".join([f"{self.passed} of {self.planned}", *parts])


@dataclass(slots=True, kw_only=True)
class Section:
    """Results of the tests of one module. raw: figures for programs, as JSON."""

    name: str
    title: str
    seconds: float = 0.0
    claims: dict[str, Claim] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)

    def table(self, *headings: str, title: str = "") -> Table:
        """The table with these headings and this title; a new one if there is none."""
        for entry in self.tables:
            if (entry.headings, entry.title) == (headings, title):
                return entry
        self.tables.append(Table(headings=headings, title=title))
        return self.tables[-1]

    def lines(self) -> Iterator[str]:
        """The section as markdown."""
        yield from (f"## {self.name}", "", f"{self.title} Took {self.seconds:.0f} s.", "")
        for table in self.tables:
            yield from ([table.title, ""] if table.title else [])
            yield from (*table.lines(), "")
        for note in self.notes:
            yield from (note, "")

    def data(self) -> dict[str, Any]:
        """The section for programs."""
        return {
            "name": self.name,
            "title": self.title,
            "seconds": round(self.seconds, 2),
            "claims": [{"text": claim.text, "holds": claim.holds, "detail": claim.detail} for claim in self.claims.values()],
            "tables": [
                {"title": entry.title, "headings": list(entry.headings), "rows": [[str(cell) for cell in row] for row in entry.rows]}
                for entry in self.tables
            ],
            "notes": self.notes,
            "raw": self.raw,
        }


class Report:
    """The page of this run. Collects the outcomes of tests marked `gpu`, and stops the run when its time is over."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._begun = time.monotonic()
        self._session: pytest.Session | None = None
        self.directory: Path | None = config.getoption("gpu_report")
        self.sections: dict[str, Section] = {}  # by the path of the module
        self.facts: dict[str, str] = {}

    def section(self, path: str, title: str = "") -> Section:
        """The section of a test module, by its path in node ids."""
        return self.sections.setdefault(path, Section(name=Path(path).stem.removeprefix("test_"), title=title))

    def describe(self, environment: wire.Environment) -> None:
        """Add what the judge reports of its device to the facts."""
        versions = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
        ceilings = ", ".join(f"{name} {value:.4g}" for name, value in environment.ceilings.items())
        details = {"isolation": environment.isolation, "judge's device": f"{environment.device} {environment.architecture}".strip()}
        self.facts |= details | {name: text for name, text in (("judge's versions", versions), ("measured ceilings", ceilings)) if text}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Of tests with a parameter `kernel`, take the slice that --gpu-slice names."""
        number, count = config.getoption("gpu_slice")
        sliced = [item for item in items if "kernel" in getattr(getattr(item, "callspec", None), "params", {})] if count > 1 else []
        if left_out := {*sliced} - {*sliced[number - 1 :: count]}:
            config.hook.pytest_deselected(items=[item for item in items if item in left_out])
            items[:] = [item for item in items if item not in left_out]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what this run plans."""
        self._session = session
        for item in session.items:
            if isinstance(item, pytest.Function) and item.get_closest_marker("gpu") is not None:
                path, _, _ = item.nodeid.partition("::")
                section = self.section(path, (item.module.__doc__ or "").split("\n\n")[0].replace("\n", " "))
                name = item.originalname
                section.claims.setdefault(name, Claim(text=name.removeprefix("test_").replace("_", " "))).planned += 1
        if self.sections and self.directory is not None:
            self.facts = host_facts(self._config)
            self.write()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test's outcome."""
        path, _, name = report.nodeid.partition("::")
        if path not in self.sections:
            return
        section = self.sections[path]
        section.seconds += report.duration
        function, _, case = name.partition("[")
        claim, case = section.claims[function], case.removesuffix("]")
        if report.failed:
            claim.failed.append(case or report.when)
            claim.passed -= report.when == "teardown"
            section.notes.append(f"{function} {case} failed:\n\n```\n{_message(report)}\n```")
        elif report.skipped:
            claim.skipped.append(_message(report))
        elif report.when == "call":
            claim.passed += 1
        if report.when == "teardown":
            self.write()
            limit_s = self._config.getoption("gpu_seconds")
            if limit_s is not None and time.monotonic() - self._begun > limit_s and self._session is not None:
                self._session.shouldstop = f"the {limit_s:.0f} s of --gpu-seconds are over"

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A report of a GPU that shows nothing is a failure."""
        if self._shows_nothing and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def _shows_nothing(self) -> bool:
        wanted = bool(self.sections) and self.directory is not None and self._config.getoption("gpu_device") == "cuda"
        return wanted and not any(claim.passed for section in self.sections.values() for claim in section.claims.values())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the tables."""
        for section in self.sections.values():
            if section.tables:
                terminalreporter.section(section.name)
                terminalreporter.write_line("\n".join(section.lines()))
        if self.sections and self.directory is not None:
            terminalreporter.write_line(f"report: {self.directory / 'gpu.md'}")
        if self._shows_nothing:
            terminalreporter.write_line("nothing was shown: no GPU test passed; --gpu-device emulated shows the flow without a GPU")

    def write(self) -> None:
        """Write both files, if they were asked for."""
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        sections = list(self.sections.values())
        (self.directory / "gpu.md").write_text(markdown(self.facts, sections), "utf-8")
        data = {"facts": self.facts, "sections": [part.data() for part in sections]}
        (self.directory / "gpu.json").write_text(json.dumps(data, default=str, separators=(",", ":")) + "\n", "utf-8")


def markdown(facts: dict[str, str], sections: Sequence[Section]) -> str:
    """The whole page."""
    claims = [(part.name, claim.text, outcome(claim.holds), claim.detail) for part in sections for claim in part.claims.values()]
    lines = [f"# GPU measurements, {facts.get('date', '').split(' ')[0]}", "", *table_lines(("what", "which"), facts.items()), ""]
    lines += ["## Claims", "", *table_lines(("section", "claim", "outcome", "found"), claims), ""]
    return "\n".join([*lines, *(line for part in sections for line in part.lines())]).rstrip() + "\n"


def host_facts(config: pytest.Config) -> dict[str, str]:
    """Date, commit and command, then device, driver, compilers and packages, as far as they are known without a GPU of one's own."""
    gpus = discover()
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc"
    output = command_output(["nvcc" if shutil.which("nvcc") else str(toolkit), "--version"])
    machine = facts(f"python -m pytest {shlex.join(config.invocation_params.args)}")
    number, count = config.getoption("gpu_slice")
    return {
        **machine,
        "commit": config.getoption("gpu_commit") or machine["commit"],
        "device": ", ".join(f"{gpu.index}: {gpu.name} ({gpu.memory_bytes / 2**30:.0f} GiB)" for gpu in gpus) or "no GPU",
        "driver": gpus[0].driver if gpus else "",
        "nvcc": next((line.rsplit(", ", 1)[-1] for line in output.splitlines() if "release" in line), "none"),
        "torch": _version("torch"),
        "triton": _version("triton"),
        "cores": str(len(os.sched_getaffinity(0))),
        "isolation": config.getoption("gpu_isolation"),
        "slice": f"{number}/{count}",
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "without metadata"


def _message(report: pytest.TestReport) -> str:
    match report.longrepr:
        case (_, _, str(reason)):
            return reason.removeprefix("Skipped: ")
        case None:
            return ""
        case longrepr:
            crash = getattr(longrepr, "reprcrash", None)
            return (crash.message if crash is not None else str(longrepr))[-MESSAGE_LIMIT:]


def _slice(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a slice; write 1/2 for the first of two halves")
    return int(number), int(count)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the GPU tests."""
    group = parser.getgroup("gpu", "tests of tests/gpu")
    group.addoption("--gpu-report", type=lambda text: Path(text).absolute(), metavar="DIR", help="write DIR/gpu.md and DIR/gpu.json")
    group.addoption("--gpu-isolation", default="auto", help="what boxes are: docker, bubblewrap, process or auto (default)")
    group.addoption(
        "--gpu-device", default="cuda", choices=("cuda", "emulated"), help="emulated: show the flow without a GPU; no time is claimed"
    )
    group.addoption("--gpu-seconds", type=float, metavar="S", help="begin no test after so many seconds; the exit code is then 2")
    group.addoption("--gpu-slice", type=_slice, default=(1, 1), metavar="K/N", help="of tests with a kernel, every Nth from the Kth on")
    group.addoption(
        "--gpu-count", type=int, metavar="N", help="how many gradings, jobs, submissions or repetitions, where a test makes many"
    )
    group.addoption(
        "--gpu-measure-s", type=float, metavar="S", help="seconds of measuring for each workload; each test has its own default"
    )
    group.addoption(
        "--gpu-warm-boxes", type=int, metavar="N", help="boxes that wait for a job; by default as many as a server with one GPU has"
    )
    group.addoption("--gpu-commit", help="the commit that the page names, where the tree is no git repository")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the page."""
    config.stash[KEY] = Report(config)
    config.pluginmanager.register(config.stash[KEY], "gpu-report")


@pytest.fixture(scope="session")
def gpu_report(request: pytest.FixtureRequest) -> Report:
    """The page of this run."""
    return request.config.stash[KEY]


@pytest.fixture(scope="module")
def section(request: pytest.FixtureRequest, gpu_report: Report) -> Section:
    """This module's part of the page: section.table("kernel", "us").add("vector_add", 5.1)."""
    return gpu_report.section(request.node.nodeid)
