"""Imports, checks and grades the material that a manifest lists, as a user does, and compares what became of it with what is expected.

    python -m tools.verdicts MANIFEST DIR [--only 002,003] [--sandbox bubblewrap] [--device emulated] [--mode benchmark]

`make seeds`, `make formats` and `make public` name the manifests in `tools/manifests`; paths in a manifest are below DIR. Exit code 1 where
anything is not as expected.
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
from grader.cli.submit import SubmitOptions, build_submission, problem_at
from grader.errors import GraderError
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from tools.page import ROOT, facts, table_lines

SET_HEADINGS = ("group", "problem set", "imported", "gradable", "refused", "as expected")
TIME_HEADINGS = ("kernel", "workload", "certified", "do_bench in its process", "PyTorch", "speedup over PyTorch", "over torch.compile")
HEADINGS = ("group", "kernel", "what its author says", "verdict", "reason", "time", "as expected")


@dataclass(slots=True, kw_only=True)
class ProblemSet:
    """A file or directory to import. options: of `problems import`. imported, refused: how many are expected; None: any number.

    gradable: how many `problems check` finds gradable; None: it is not run. reasons: a part of each reason for a refusal.
    """

    path: Path
    group: str
    options: tuple[str, ...] = ()
    imported: int | None = None
    refused: int | None = 0
    gradable: int | None = None
    reasons: tuple[str, ...] = ()
    found: dict[str, Any] = field(default_factory=dict, repr=False)
    checked: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def as_expected(self) -> bool:
        """Whether the numbers are the manifest's, and each reason is one of its."""
        if "counts" not in self.found:
            return False
        counts = self.found["counts"]
        pairs = [(self.imported, counts["imported"]), (self.refused, counts["refused"]), (self.gradable, self.gradable_count)]
        return all(wanted in (None, got) for wanted, got in pairs) and all(
            any(part in reason for part in self.reasons) for reason in self.found["reasons"]
        )

    @property
    def gradable_count(self) -> int:
        """The problems that a judge here ran, and that are not refused."""
        return sum(one["outcome"] in ("admitted", "warned") for one in self.checked.get("problems", ()))

    def row(self, top: Path) -> tuple[str, ...]:
        """Its cells, in the order of SET_HEADINGS."""
        counts = self.found.get("counts", {"imported": "-", "refused": "-"})
        gradable = "not asked" if self.gradable is None else str(self.gradable_count)
        wanted = f"**no**: {self.imported} imported, {self.gradable} gradable, {self.refused} refused"
        answer = "yes" if self.as_expected else wanted if self.found.get("counts") else f"**no**: {self.found.get('error', '')}"
        return self.group, str(self.path.relative_to(top)), str(counts["imported"]), gradable, str(counts["refused"]), answer

    def notes(self) -> Iterator[str]:
        """Why problems were refused, and what was warned of."""
        for reason, count in self.found.get("reasons", {}).items():
            yield f"- {self.group}: {count} refused: {reason}"
        if self.gradable is None:
            warnings = Counter(warning for one in self.found.get("imported", ()) for warning in one["warnings"])
            yield from (f"- {self.group}: {count} with a warning: {warning}" for warning, count in warnings.items())
        for one in self.checked.get("problems", ()):
            if warned := sorted({finding["check"] for finding in one["findings"] if finding["outcome"] == "warning"}):
                yield f"- {self.group}: {one['problem_id']}: a wrong kernel could pass ({', '.join(warned)})"


@dataclass(slots=True, kw_only=True)
class KernelFile:
    """A kernel, what is expected of it, and what became of it. problem: an id, or a path below DIR; "": its own file says it."""

    path: Path
    group: str
    says: str
    verdict: str
    problem: str = ""
    reason: str = ""
    found: submission_pb2.Submission | None = field(default=None, repr=False)
    fault: str = ""
    seconds: float = 0.0

    @property
    def as_expected(self) -> bool:
        """Whether it got the verdict of the manifest, and the reason where one is given."""
        if self.found is None or self.found.state != submission_pb2.SUBMISSION_STATE_SUCCEEDED:
            return False
        report = self.found.report
        return formatting.verdict_name(report) == self.verdict and self.reason in ("", report.reason)

    def row(self, top: Path) -> tuple[str, ...]:
        """Its cells, in the order of HEADINGS."""
        report = self.found.report if self.found is not None else report_pb2.Report()
        verdict = formatting.verdict_name(report) if report.verdict else self._failure()
        answer = "yes" if self.as_expected else f"**no**: {self.verdict} {self.reason}"
        name = str(self.path.relative_to(top))
        return self.group, name, self.says, verdict, report.reason, f"{self.seconds:.1f} s", answer.strip()

    def times(self, top: Path) -> Iterator[tuple[str, ...]]:
        """A row for each workload that was timed, in the order of TIME_HEADINGS."""
        for one in () if self.found is None else self.found.report.measurements:
            eager = one.reported_baselines["eager"] if "eager" in one.reported_baselines else one.baselines["eager"]
            ratios = {speedup.baseline: formatting.ratio(speedup) for speedup in one.speedups}
            shown = (formatting.median(one.certified), formatting.median(one.reported), formatting.median(eager))
            yield str(self.path.relative_to(top)), one.workload_id, *shown, ratios.get("eager", "-"), ratios.get("compile", "-")

    def _failure(self) -> str:
        return self.fault or "not graded" if self.found is None else f"{formatting.state_name(self.found)}: {self.found.error.message}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Import, check and grade all of it, print the tables, and say by the exit code whether everything is as expected."""
    parser = argparse.ArgumentParser(prog="python -m tools.verdicts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("manifest", type=Path, metavar="MANIFEST", help="such as tools/manifests/formats.toml")
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory that the manifest's paths are below")
    parser.add_argument("--only", default="", metavar="GROUPS", help="such as 000,003")
    parser.add_argument("--sandbox", default="auto", help="as of grader-cli submit; 'process' trusts all of it")
    parser.add_argument("--device", default="auto", help="as of grader-cli submit")
    parser.add_argument("--mode", default="test", choices=["test", "benchmark"])
    parser.add_argument("--measure-s", type=float, metavar="S", help="as of grader-cli submit")
    asked = parser.parse_args(arguments)
    groups = [one for one in asked.only.split(",") if one]
    table = tomllib.loads(asked.manifest.read_text("utf-8"))
    sets = [one for one in problem_sets(table, asked.directory) if not groups or one.group in groups]
    kernels = [one for one in kernel_files(table, asked.directory) if not groups or one.group in groups]
    if missing := [str(one.path) for one in (*sets, *kernels) if not one.path.exists()]:
        parser.error(f"{missing[0]} is missing; name the directory that {asked.manifest.name} describes")
    if not sets and not kernels:
        parser.error(f"--only {asked.only}: {asked.manifest.name} has the groups {', '.join(_groups(table))}")
    with tempfile.TemporaryDirectory(prefix="grader-verdicts-") as state_dir:
        for one in sets:
            import_set(one, Path(state_dir), trusted=asked.sandbox == "process")
        paths = {one.problem: asked.directory / one.problem for one in kernels if "/" in one.problem}
        target = Target(state_dir=Path(state_dir), sandbox=asked.sandbox, device=asked.device, problem_dirs=tuple(paths.values()))
        if kernels:
            asyncio.run(grade(target, kernels, paths, asked.mode, asked.measure_s))
    words = " ".join(sys.argv[1:] if arguments is None else arguments)
    sys.stdout.write("\n".join(page(sets, kernels, asked.directory, words)) + "\n")
    return 0 if all(one.as_expected for one in (*sets, *kernels)) else 1


def problem_sets(manifest: dict[str, Any], top: Path) -> Iterator[ProblemSet]:
    """Every problem set of the manifest."""
    for one in manifest.get("set", ()):
        yield ProblemSet(
            **{**one, "path": top / one["path"], "options": tuple(one.get("options", ())), "reasons": tuple(one.get("reasons", ()))}
        )


def kernel_files(manifest: dict[str, Any], top: Path) -> Iterator[KernelFile]:
    """Every kernel of the manifest, each file by itself."""
    for table in manifest.get("kernel", ()):
        of_each = {key: value for key, value in table.items() if key not in ("files", "directory")}
        yield from (KernelFile(path=top / table.get("directory", "") / name, **of_each) for name in table["files"])


def _groups(manifest: dict[str, Any]) -> list[str]:
    return sorted({one["group"] for key in ("set", "kernel") for one in manifest.get(key, ())})


def import_set(one: ProblemSet, state_dir: Path, *, trusted: bool) -> None:
    """Import a set, and check it where the manifest says how many are gradable."""
    where = ["--trusted"] if trusted else []
    one.found = _command("import", str(one.path), *one.options, "--state-dir", str(state_dir), *where)
    if one.gradable is not None:
        changes = [word for word in one.options if word != "--no-check"]
        one.checked = _command("check", str(one.path), *changes, *where)
    sys.stderr.write(f"{one.group} {one.path.name}: {one.found.get('counts', one.found)}\n")


def _command(*words: str) -> dict[str, Any]:
    """What `grader-cli problems` answers as JSON; {"error": ...} where it answers nothing."""
    command = [sys.executable, "-m", "grader.cli.main", "problems", *words, "--json"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        return {"error": f"{ended.stdout}{ended.stderr}".strip()}
    return answer


async def grade(target: Target, kernels: Sequence[KernelFile], paths: dict[str, Path], mode: str, measure_s: float | None) -> None:
    """Grade one after the other, so that each one's time is its own."""
    async with connect(target, ServerRequirement.GRADE) as client:
        for one in kernels:
            begun = time.monotonic()
            try:
                one.found = await _graded(client, one, paths, mode, measure_s)
            except GraderError as error:
                one.fault = str(error)
            one.seconds = time.monotonic() - begun
            sys.stderr.write(f"{one.group} {one.path.name}: {' '.join(one.row(one.path.parent)[3:5])} ({one.seconds:.1f} s)\n")


async def _graded(
    client: GraderClient, kernel: KernelFile, paths: dict[str, Path], mode: str, measure_s: float | None
) -> submission_pb2.Submission:
    problem, _ = problem_at(str(paths[kernel.problem])) if kernel.problem in paths else (kernel.problem or None, None)
    order = SubmitOptions(files=(kernel.path,), problem=problem, language="", entry="", device_kind="", mode=mode, measure_s=measure_s)
    made = await client.submit(build_submission(sources.read(order.files, problem), order))
    async for _ in client.watch(made.name):
        pass
    return await client.get_submission(made.name)


def page(sets: Sequence[ProblemSet], kernels: Sequence[KernelFile], top: Path, words: str) -> list[str]:
    """The tables, what was said of problems and builds, and the counts."""
    device = next((one.found.report.environment.device for one in kernels if one.found is not None), "")
    lines = [f"{name}: {value}" for name, value in {**facts(f"python -m tools.verdicts {words}"), "device": device}.items()]
    if sets:
        lines += ["", *table_lines(SET_HEADINGS, [one.row(top) for one in sets])]
    if kernels:
        lines += ["", *table_lines(HEADINGS, [one.row(top) for one in kernels])]
    if timed := [row for one in kernels for row in one.times(top)]:
        lines += ["", "Times, medians.", "", *table_lines(TIME_HEADINGS, timed)]
    notes = [note for one in sets for note in one.notes()]
    notes += [f"- {one.path.name}: {remark}" for one in kernels if one.found is not None for remark in one.found.report.build.remarks]
    if notes:
        lines += ["", "Notes:", "", *notes]
    right = sum(one.as_expected for one in (*sets, *kernels))
    return [*lines, "", f"{right} of {len(sets) + len(kernels)} as expected"]


if __name__ == "__main__":
    raise SystemExit(main())
