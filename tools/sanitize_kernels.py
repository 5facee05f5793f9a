"""Runs the kernels of this repository under the emulated device's sanitizer, and compares what it finds with what is known of them.

    python -m tools.sanitize_kernels [--only examples,honest,controls,attacks] [--sandbox bubblewrap]

An honest kernel that has an error is a false alarm: exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.cli import sources
from grader.cli.session import ServerRequirement, Target, connect
from grader.cli.submit import SubmitOptions, build_submission, problem_at
from grader.errors import GraderError
from grader.model import SourceFile
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from tools.page import ROOT, facts, table_lines

HEADINGS = ("kernel", "what is known of it", "verdict", "findings, the likeliest first")
SHOWN = 2
TESTS = ROOT / "tests"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKernel:
    """A kernel, its problem, and what is known of it. right: whether it has no bug. parameters: the text of its parameters.h."""

    group: str
    files: tuple[Path, ...]
    problem: Path
    known: str
    right: bool
    parameters: str = ""


def kernels() -> Iterator[KnownKernel]:
    """All of the repository in CUDA C++."""
    for path in sorted((ROOT / "kernels_examples").glob("*/*.cu")):
        expected = path.read_text("utf-8").partition("\n")[0].removeprefix("// expect:").strip()
        yield KnownKernel(group="examples", files=(path,), problem=path.parent, known=expected, right=expected == "ACCEPTED")
    for group, place, right in (("honest", "honest/kernels", True), ("controls", "honest/controls", False)):
        for path in sorted((TESTS / place).glob("*.cu")):
            words = _words(path)
            problem = TESTS / "honest" / "problems" / words["problem"]
            if problem.is_dir():
                yield KnownKernel(group=group, files=(path,), problem=problem, known="right" if right else words["why"], right=right)
    headers = tuple(sorted((TESTS / "exploits/attacks").glob("*.h")))
    for path in sorted((TESTS / "exploits/attacks").glob("*.cu")):
        words = _words(path)
        problem = TESTS / "exploits/problems" / words["problem"] if "problem" in words else TESTS / "exploits/problem"
        known = words.get("strategy", "an attack")
        yield KnownKernel(
            group="attacks", files=(path, *headers), problem=problem, known=known, right=False, parameters=_parameters(path, words)
        )


def _parameters(path: Path, words: Mapping[str, str]) -> str:
    """What `tests/exploits/attack_files.py` has an attack include, of its first variant."""
    if '"parameters.h"' not in path.read_text("utf-8"):
        return ""
    variant = words.get("variants", "").split()[:1]
    given = [*variant, f'REFERENCE_PATH="{TESTS / "exploits/problem/reference.py"}"', 'DAEMON_NAME="sanitized"', "BOMB_MIB=640"]
    return "".join(f"#define {word.replace('=', ' ', 1)}\n" for word in given)


def _words(path: Path) -> dict[str, str]:
    """The `key: value` comments at the top of a file."""
    words: dict[str, str] = {}
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("//"):
            break
        key, _, value = line.removeprefix("//").strip().partition(": ")
        words.setdefault(key, value)
    return words


async def sanitized(
    target: Target, group: Sequence[KnownKernel], limit_s: float
) -> AsyncIterator[tuple[KnownKernel, submission_pb2.Submission | str]]:
    """What became of each in mode sanitize, or why it was not graded. One that takes longer than the limit is cancelled."""
    async with connect(replace(target, problem_dirs=tuple({one.problem for one in group})), ServerRequirement.GRADE) as client:
        for one in group:
            problem, _ = problem_at(str(one.problem))
            order = SubmitOptions(files=one.files, problem=problem, language="", entry="", device_kind="", mode="sanitize")
            try:
                handed = sources.read(order.files, problem)
                if one.parameters:
                    handed = replace(handed, sources=(*handed.sources, SourceFile(path="parameters.h", content=one.parameters)))
                made = await client.submit(build_submission(handed, order))
                try:
                    async with asyncio.timeout(limit_s):
                        async for _ in client.watch(made.name):
                            pass
                except TimeoutError:  # a box of the sanitizer waits 20 times as long as one that judges
                    await client.cancel(made.name)
                    became: submission_pb2.Submission | str = f"cancelled after {limit_s:g} s"
                else:
                    became = await client.get_submission(made.name)
            except GraderError as error:
                became = str(error)
            yield one, became


def findings(report: report_pb2.Report) -> list[str]:
    """Those that weigh, in a few words each; what became of the sanitizer where it has not run."""
    found = [one for one in report.profile.findings if formatting.sanitizer_severity(one) != "info"]
    tools = [f"{one.name} {formatting.profile_outcome(one.outcome)}: {one.detail}" for one in report.profile.tools]
    if not found:
        return [] if not tools or "found" in tools[0] else tools
    words = [
        f"{formatting.sanitizer_severity(one)}: {_kind(one)} at {formatting.sanitizer_place(one) or 'an unknown line'}" for one in found
    ]
    return [*words[:SHOWN], *([f"and {len(words) - SHOWN} more"] if len(words) > SHOWN else [])]


def _kind(one: report_pb2.SanitizerFinding) -> str:
    return report_pb2.SanitizerFindingKind.Name(one.kind).removeprefix("SANITIZER_FINDING_KIND_").lower().replace("_", " ")


async def looked_at(chosen: Sequence[KnownKernel], sandbox: str, limit_s: float) -> tuple[list[tuple[str, ...]], Counter[str], int]:
    """The rows of the table, how many kernels came out how, and how many right ones have errors."""
    rows, counts, alarms = list[tuple[str, ...]](), Counter[str](), 0
    for group in dict.fromkeys(one.group for one in chosen):
        with tempfile.TemporaryDirectory(prefix="grader-sanitize-") as state_dir:
            target = Target(state_dir=Path(state_dir), sandbox=sandbox, device="emulated")
            async for one, became in sanitized(target, [other for other in chosen if other.group == group], limit_s):
                verdict, found = ("not graded", [became]) if isinstance(became, str) else _row(became)
                wrong = [text for text in found if text.startswith("error")]
                alarms += one.right and bool(wrong)
                counts[f"{one.group}: {'right' if one.right else 'wrong'}, {'errors' if wrong else 'no errors'}"] += 1
                name = one.files[0].relative_to(ROOT).as_posix()
                rows.append((name, one.known, verdict, "; ".join(found) or "-"))
                sys.stderr.write(f"{name}: {verdict} {rows[-1][3]}\n")
    return rows, counts, alarms


def _row(submission: submission_pb2.Submission) -> tuple[str, list[str]]:
    if not submission.HasField("report"):
        return formatting.state_name(submission), [submission.error.message]
    return formatting.verdict_name(submission.report), findings(submission.report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of them, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tools.sanitize_kernels", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", metavar="GROUPS", help="such as examples,honest; also controls and attacks")
    parser.add_argument("--names", default="", metavar="NAMES", help="only files of these names, such as daemon,hangs_in_call")
    parser.add_argument("--sandbox", default="auto", help="as of grader-cli submit")
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS", help="of one kernel, which is then cancelled")
    asked = parser.parse_args(arguments)
    groups = asked.only.split(",") if asked.only else []
    names = asked.names.split(",") if asked.names else []
    chosen = [one for one in kernels() if (not groups or one.group in groups) and (not names or one.files[0].stem in names)]
    rows, counts, alarms = asyncio.run(looked_at(chosen, asked.sandbox, asked.limit))
    words = " ".join(sys.argv[1:] if arguments is None else arguments)
    lines = [f"{name}: {value}" for name, value in facts(f"python -m tools.sanitize_kernels {words}").items()]
    lines += ["", *table_lines(HEADINGS, rows), "", *(f"{name}: {count}" for name, count in sorted(counts.items()))]
    sys.stdout.write("\n".join([*lines, f"false alarms: {alarms}"]) + "\n")
    return 1 if alarms else 0


if __name__ == "__main__":
    raise SystemExit(main())
