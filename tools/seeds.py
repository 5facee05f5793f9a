"""Grades the kernels of the four documents that this project was made from, as they are, and prints what became of each.

    make seeds SEEDS=DIR [SEEDS_ARGS='--only 002,003 --sandbox bubblewrap --device emulated']

DIR has `kernels` and `problems`; `tools/seeds.toml` says what is expected of each file. Exit code 1 where a verdict is another one, 2 where
a problem can't be imported. A kernel that needs tensor cores counts as expected on the emulated device if it is UNSUPPORTED for them.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.api.client import GraderClient
from grader.cli import sources
from grader.cli.session import Need, Target, connect
from grader.cli.submit import SubmitOptions, build_submission, problem_at
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from tools.page import ROOT, Table, facts

MANIFEST = ROOT / "tools" / "seeds.toml"
HEADINGS = ("seed", "kernel", "what the seed says", "verdict", "reason", "time", "as expected")


@dataclass(slots=True, kw_only=True)
class SeedKernel:
    """A kernel, what is expected of it, and what became of it."""

    path: Path
    seed: str
    problem: str
    says: str
    verdict: str
    reason: str = ""
    tensor_cores: bool = False
    found: submission_pb2.Submission | None = field(default=None, repr=False)
    seconds: float = 0.0

    @property
    def as_expected(self) -> bool:
        """Whether it got the verdict of the manifest, and the reason where one is given."""
        if self.found is None or self.found.state != submission_pb2.SUBMISSION_STATE_SUCCEEDED:
            return False
        if self.lacks_tensor_cores:
            return True
        report = self.found.report
        return formatting.verdict_name(report) == self.verdict and self.reason in ("", report.reason)

    @property
    def lacks_tensor_cores(self) -> bool:
        """Whether it was refused by a device without tensor cores."""
        report = self.found.report if self.found is not None else report_pb2.Report()
        return self.tensor_cores and report.reason == "UNSUPPORTED" and "tensor cores" in report.build.log

    def row(self) -> tuple[str, ...]:
        """Its cells, in the order of HEADINGS."""
        report = self.found.report if self.found is not None else report_pb2.Report()
        verdict = formatting.verdict_name(report) if report.verdict else self._failure()
        answer = "needs tensor cores" if self.lacks_tensor_cores else "yes" if self.as_expected else f"**no**: {self.verdict} {self.reason}"
        return self.seed, self.path.name, self.says, verdict, report.reason, f"{self.seconds:.1f} s", answer.strip()

    def _failure(self) -> str:
        return "not graded" if self.found is None else f"{formatting.state_name(self.found)}: {self.found.error.message}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade all of them, print the table, and say by the exit code whether every verdict is the expected one."""
    parser = argparse.ArgumentParser(prog="python -m tools.seeds", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory with `kernels` and `problems`")
    parser.add_argument("--only", default="", metavar="SEEDS", help="such as 000,003")
    parser.add_argument("--sandbox", default="auto", help="as of grader-cli submit")
    parser.add_argument("--device", default="auto", help="as of grader-cli submit")
    parser.add_argument("--mode", default="test", choices=["test", "benchmark"])
    asked = parser.parse_args(arguments)
    manifest = tomllib.loads(MANIFEST.read_text("utf-8"))
    kernels = [one for one in read(manifest, asked.directory) if not asked.only or one.seed in asked.only.split(",")]
    if missing := [str(one.path) for one in kernels if not one.path.is_file()]:
        parser.error(f"{missing[0]} is missing; name the directory that holds `kernels` and `problems` of the seeds")
    with tempfile.TemporaryDirectory(prefix="grader-seeds-") as state_dir:
        for one in manifest["import"]:
            if refusal := import_problem(asked.directory / one["file"], one["options"], Path(state_dir)):
                parser.error(f"{one['file']} was not imported:\n{refusal}")
        paths = {one.problem: asked.directory / one.problem for one in kernels if "/" in one.problem}
        target = Target(state_dir=Path(state_dir), sandbox=asked.sandbox, device=asked.device, problem_dirs=tuple(paths.values()))
        asyncio.run(grade(target, kernels, paths, asked.mode))
    sys.stdout.write("\n".join(page(kernels, " ".join(sys.argv[1:]))) + "\n")
    return 0 if all(one.as_expected for one in kernels) else 1


def read(manifest: dict[str, Any], directory: Path) -> Iterator[SeedKernel]:
    """Every kernel of the manifest, each file by itself."""
    for group in manifest["kernel"]:
        of_each = {key: value for key, value in group.items() if key != "files"}
        yield from (SeedKernel(path=directory / "kernels" / name, **of_each) for name in group["files"])


def import_problem(path: Path, options: Sequence[str], state_dir: Path) -> str:
    """Import a problem as a user does; what the command printed where the problem was not taken, else ""."""
    command = [sys.executable, "-m", "grader.cli.main", "problems", "import", str(path), *options, "--state-dir", str(state_dir)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"{ended.stdout}{ended.stderr}" if ended.returncode else ""


async def grade(target: Target, kernels: Sequence[SeedKernel], paths: dict[str, Path], mode: str) -> None:
    """Grade one after the other, so that each one's time is its own."""
    async with connect(target, Need.GRADE) as client:
        for one in kernels:
            begun = time.monotonic()
            one.found = await _graded(client, one, paths, mode)
            one.seconds = time.monotonic() - begun
            sys.stderr.write(f"{one.seed} {one.path.name}: {' '.join(one.row()[3:5])} ({one.seconds:.1f} s)\n")


async def _graded(client: GraderClient, kernel: SeedKernel, paths: dict[str, Path], mode: str) -> submission_pb2.Submission:
    problem, _ = problem_at(str(paths[kernel.problem])) if kernel.problem in paths else (kernel.problem, None)
    order = SubmitOptions(files=(kernel.path,), problem=problem, language="", entry="", device_kind="", mode=mode)
    made = await client.submit(build_submission(sources.read(order.files, problem), order))
    async for _ in client.watch(made.name):
        pass
    return await client.get_submission(made.name)


def page(kernels: Sequence[SeedKernel], words: str) -> list[str]:
    """The table, what was said of builds, and the count."""
    table = Table(headings=HEADINGS)
    for one in kernels:
        table.add(*one.row())
    remarks = [f"- {one.path.name}: {remark}" for one in kernels if one.found is not None for remark in one.found.report.build.remarks]
    device = next((one.found.report.environment.device for one in kernels if one.found is not None), "")
    right = sum(one.as_expected for one in kernels)
    head = [f"{name}: {value}" for name, value in {**facts(f"python -m tools.seeds {words}"), "device": device}.items()]
    notes = ["", "Notes of the builds:", "", *remarks] if remarks else []
    return [*head, "", *table.lines(), *notes, "", f"{right} of {len(kernels)} as expected"]


if __name__ == "__main__":
    raise SystemExit(main())
