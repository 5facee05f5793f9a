"""Imports, checks and grades what a manifest lists, as a user does, and compares the results with the manifest.

    python -m tools.verdicts MANIFEST DIR [--only 002,003] [--sandbox bubblewrap] [--device emulated] [--mode benchmark]

`make seeds`, `make formats` and `make public` name the manifests in `tools/manifests`; their paths are below DIR. The exit
code is 1 if a result is not as expected.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.api.client import GraderClient
from grader.cli import sources
from grader.cli.session import ServerRequirement, Target, connect
from grader.cli.submit import build_submission, nanoseconds, problem_at
from grader.errors import GraderError
from grader.v1 import submission_pb2
from grader.views import formatting
from tools.page import ROOT, arguments_of, facts, table_lines

SET_HEADINGS = ("group", "problem set", "imported", "gradable", "refused", "as expected")
TIME_HEADINGS = ("kernel", "workload", "certified", "do_bench in its process", "PyTorch", "speedup over PyTorch", "over torch.compile")
HEADINGS = ("group", "kernel", "author's claim", "verdict", "reason", "time", "as expected")


@dataclass(slots=True, kw_only=True)
class ProblemSet:
    """A file or directory to import. options: of `problems import`. imported, refused: expected counts; None: any. gradable: how many
    `problems check` must find gradable; None: it is not run. reasons: each reason for a refusal has one of these."""

    path: Path
    group: str
    options: Sequence[str] = ()
    imported: int | None = None
    refused: int | None = 0
    gradable: int | None = None
    reasons: Sequence[str] = ()
    result: dict[str, Any] = field(default_factory=dict, repr=False)
    checked: dict[str, Any] = field(default_factory=dict, repr=False)

    def run(self, state_dir: Path, *, trusted: bool) -> None:
        """Import the set, and check it if the manifest says how many are gradable."""
        place = ["--trusted"] if trusted else []
        self.result = _command("import", str(self.path), *self.options, "--state-dir", str(state_dir), *place)
        if self.gradable is not None:
            self.checked = _command("check", str(self.path), *(word for word in self.options if word != "--no-check"), *place)
        sys.stderr.write(f"{self.group} {self.path.name}: {self.result.get('counts', self.result)}\n")

    @property
    def as_expected(self) -> bool:
        """Return whether the counts and the reasons are the manifest's."""
        if "counts" not in self.result:
            return False
        counts = self.result["counts"]
        pairs = [(self.imported, counts["imported"]), (self.refused, counts["refused"]), (self.gradable, self.gradable_count)]
        return all(expected in (None, count) for expected, count in pairs) and all(
            any(part in reason for part in self.reasons) for reason in self.result["reasons"]
        )

    @property
    def gradable_count(self) -> int:
        """Return the number of problems that a judge here ran, and that are not refused."""
        return sum(problem["outcome"] in ("admitted", "warned") for problem in self.checked.get("problems", ()))

    def row(self, top: Path) -> tuple[str, ...]:
        """Return the cells for SET_HEADINGS."""
        counts = self.result.get("counts", {"imported": "-", "refused": "-"})
        expected = f"{self.imported} imported, {self.gradable} gradable, {self.refused} refused"
        answer = "yes" if self.as_expected else f"**no**: {expected if 'counts' in self.result else self.result.get('error', '')}"
        gradable = "not checked" if self.gradable is None else str(self.gradable_count)
        return self.group, str(self.path.relative_to(top)), str(counts["imported"]), gradable, str(counts["refused"]), answer

    def notes(self) -> Iterator[str]:
        """Yield the reasons of refusals, and the warnings."""
        for reason, count in self.result.get("reasons", {}).items():
            yield f"- {self.group}: {count} refused: {reason}"
        if self.gradable is None:
            warnings = Counter(warning for problem in self.result.get("imported", ()) for warning in problem["warnings"])
            yield from (f"- {self.group}: {count} with a warning: {warning}" for warning, count in warnings.items())
        for problem in self.checked.get("problems", ()):
            if checks := sorted({finding["check"] for finding in problem["findings"] if finding["outcome"] == "warning"}):
                yield f"- {self.group}: {problem['problem_id']}: a wrong kernel could pass ({', '.join(checks)})"


@dataclass(slots=True, kw_only=True)
class KernelFile:
    """A kernel and its expected verdict. problem: an id, or a path below DIR; "": its own file names it."""

    path: Path
    group: str
    says: str
    verdict: str
    problem: str = ""
    reason: str = ""
    submission: submission_pb2.Submission = field(default_factory=submission_pb2.Submission, repr=False)
    fault: str = ""
    seconds: float = 0.0

    @property
    def as_expected(self) -> bool:
        """Return whether the verdict is the manifest's, and the reason if it has one."""
        report = self.submission.report
        graded = self.submission.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED
        return graded and formatting.verdict_name(report) == self.verdict and self.reason in ("", report.reason)

    async def grade(self, client: GraderClient, paths: dict[str, Path], options: argparse.Namespace) -> None:
        """Submit the kernel, and wait for its report."""
        start_s = time.monotonic()
        try:
            problem, _ = problem_at(str(paths[self.problem])) if self.problem in paths else (self.problem or None, None)
            order = submission_pb2.Submission(mode=f"MODE_{options.mode.upper()}")
            if options.measure_s is not None:
                order.measure_duration.FromNanoseconds(nanoseconds(options.measure_s, "--measure-s"))
            submission = await client.submit(build_submission(sources.read([self.path], problem), order))
            async for _ in client.watch(submission.name):
                pass
            self.submission = await client.get_submission(submission.name)
        except GraderError as error:
            self.fault = str(error)
        self.seconds = time.monotonic() - start_s
        sys.stderr.write(f"{self.group} {self.path.name}: {' '.join(self.row(self.path.parent)[3:5])} ({self.seconds:.1f} s)\n")

    def row(self, top: Path) -> tuple[str, ...]:
        """Return the cells for HEADINGS."""
        report, name = self.submission.report, str(self.path.relative_to(top))
        verdict = self.fault or f"{formatting.state_name(self.submission)}: {self.submission.error.message}"
        verdict = formatting.verdict_name(report) if report.verdict else verdict
        answer = "yes" if self.as_expected else f"**no**: {self.verdict} {self.reason}".strip()
        return self.group, name, self.says, verdict, report.reason, f"{self.seconds:.1f} s", answer

    def times(self, top: Path) -> Iterator[tuple[str, ...]]:
        """Yield the cells for TIME_HEADINGS of each workload that was timed."""
        for measurement in self.submission.report.measurements:
            baselines = measurement.reported_baselines if "eager" in measurement.reported_baselines else measurement.baselines
            ratios = {speedup.baseline: formatting.ratio(speedup) for speedup in measurement.speedups}
            medians = map(formatting.median, (measurement.certified, measurement.reported, baselines["eager"]))
            name = str(self.path.relative_to(top))
            yield name, measurement.workload_id, *medians, ratios.get("eager", "-"), ratios.get("compile", "-")


def _command(*words: str) -> dict[str, Any]:
    """Return the JSON of `grader-cli problems`; {"error": ...} if it printed none."""
    command = [sys.executable, "-m", "grader.cli.main", "problems", *words, "--json"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        answer: dict[str, Any] = json.loads(result.stdout)
    except ValueError:
        return {"error": f"{result.stdout}{result.stderr}".strip()}
    return answer


def read(manifest: dict[str, Any], top: Path) -> tuple[list[ProblemSet], list[KernelFile]]:
    """Return the problem sets of a manifest, and its kernels, each file by itself."""
    sets = [ProblemSet(**{**table, "path": top / table["path"]}) for table in manifest.get("set", ())]
    kernels = []
    for table in manifest.get("kernel", ()):
        fields = {key: value for key, value in table.items() if key not in ("files", "directory")}
        kernels += [KernelFile(path=top / table.get("directory", "") / name, **fields) for name in table["files"]]
    return sets, kernels


async def grade(kernels: Sequence[KernelFile], state_dir: Path, options: argparse.Namespace) -> None:
    """Grade kernels one after the other, so that each one's time is its own."""
    paths = {kernel.problem: options.directory / kernel.problem for kernel in kernels if "/" in kernel.problem}
    target = Target(state_dir=state_dir, sandbox=options.sandbox, device=options.device, problem_dirs=tuple(paths.values()))
    async with connect(target, ServerRequirement.GRADE) as client:
        for kernel in kernels:
            await kernel.grade(client, paths, options)


def page(sets: Sequence[ProblemSet], kernels: Sequence[KernelFile], top: Path, words: Sequence[str]) -> list[str]:
    """Return the tables, the notes and the counts."""
    device = next((name for kernel in kernels if (name := kernel.submission.report.environment.device)), "")
    lines = [f"{name}: {value}" for name, value in {**facts("python -m tools.verdicts", words), "device": device}.items()]
    if sets:
        lines += ["", *table_lines(SET_HEADINGS, [entry.row(top) for entry in sets])]
    if kernels:
        lines += ["", *table_lines(HEADINGS, [kernel.row(top) for kernel in kernels])]
    if times := [row for kernel in kernels for row in kernel.times(top)]:
        lines += ["", "Times, medians.", "", *table_lines(TIME_HEADINGS, times)]
    notes = [note for entry in sets for note in entry.notes()]
    notes += [f"- {kernel.path.name}: {remark}" for kernel in kernels for remark in kernel.submission.report.build.remarks]
    lines += ["", "Notes:", "", *notes] if notes else []
    correct = sum(entry.as_expected for entry in (*sets, *kernels))
    return [*lines, "", f"{correct} of {len(sets) + len(kernels)} as expected"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Import, check and grade all of it, print the tables, and return 1 if a result is not as expected."""
    options = arguments_of(
        "tools.verdicts",
        __doc__,
        arguments,
        {
            "only": ("", "groups, such as 000,003"),
            "sandbox": ("auto", "as of grader-cli submit; 'process' trusts all of it"),
            "device": ("auto", "as of grader-cli submit"),
            "mode": ("test", "mode", {"choices": ("test", "benchmark")}),
            "measure-s": (None, "as of grader-cli submit", {"type": float}),
        },
        "manifest",
        "directory",
    )
    sets, kernels = read(tomllib.loads(options.manifest.read_text("utf-8")), options.directory)
    groups = {entry.group for entry in (*sets, *kernels)}
    chosen = {group for group in options.only.split(",") if group} or groups
    sets, kernels = [entry for entry in sets if entry.group in chosen], [kernel for kernel in kernels if kernel.group in chosen]
    if missing := [str(entry.path) for entry in (*sets, *kernels) if not entry.path.exists()]:
        raise SystemExit(f"{missing[0]} is missing; name the directory that {options.manifest.name} describes")
    if not sets and not kernels:
        raise SystemExit(f"--only {options.only}: {options.manifest.name} has the groups {', '.join(sorted(groups))}")
    with tempfile.TemporaryDirectory(prefix="grader-verdicts-") as state_dir:
        for entry in sets:
            entry.run(Path(state_dir), trusted=options.sandbox == "process")
        if kernels:
            asyncio.run(grade(kernels, Path(state_dir), options))
    words = sys.argv[1:] if arguments is None else arguments
    sys.stdout.write("\n".join(page(sets, kernels, options.directory, words)) + "\n")
    return 0 if all(entry.as_expected for entry in (*sets, *kernels)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
