"""Tables of measurements as markdown, and the facts at the head of a page: when, at which commit, by which command."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COMMAND_S = 20.0
_NUMBER = re.compile(r"[-+<>]?\d[\d.,]*( ?(%|us|ms|s|MiB|GiB))?|-?")
_WORDS = {True: "holds", False: "**FAILS**", None: "not shown"}


@dataclass(slots=True, kw_only=True)
class Table:
    """Rows under headings; rows may be added while it is made."""

    headings: Sequence[str]
    title: str = ""
    rows: list[Sequence[object]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Add a row."""
        self.rows.append(cells)

    def lines(self) -> list[str]:
        """The table as markdown, without its title; columns of numbers are set to the right."""
        rows = [[_cell(cell) for cell in row] for row in self.rows]
        columns = range(len(self.headings))
        right = [bool(rows) and all(_NUMBER.fullmatch(row[at]) for row in rows) for at in columns]
        return [
            f"| {' | '.join(self.headings)} |",
            f"| {' | '.join('---:' if right[at] else '---' for at in columns)} |",
            *(f"| {' | '.join(row)} |" for row in rows),
        ]


def table_lines(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table of these rows as markdown."""
    return Table(headings=headings, rows=list(rows)).lines()


def outcome(holds: bool | None) -> str:
    """How a claim came out; None: it was not shown, which fails no run."""
    return _WORDS[holds]


def words_of(choices: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a parser of words with commas between, for argparse."""

    def parse(text: str) -> list[str]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        if not words or not {*words} <= {*choices}:
            raise argparse.ArgumentTypeError(f"choose from {', '.join(choices)}, with commas")
        return words

    return parse


def arguments_of(
    module: str, doc: str | None, arguments: Sequence[str] | None, options: Mapping[str, tuple[Any, ...]], *positional: str
) -> argparse.Namespace:
    """Parse the command line of a program, whose docstring starts with its description. options: by name a default, a help text, and what
    else argparse takes. The default's type is the option's; False is a switch."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=(doc or "").split("\n\n", maxsplit=1)[0])
    for name in positional:
        parser.add_argument(name, type=Path, metavar=name.upper())
    for name, (default, text, *extra) in options.items():
        settings = {"default": default, "help": text if default in (None, False, "") else f"{text} ({default})", **dict(*extra)}
        if default is False:
            settings["action"] = "store_true"
        elif isinstance(default, int | float):
            settings.setdefault("type", type(default))
        parser.add_argument(f"--{name}", **settings)
    return parser.parse_args(arguments)


def run_tests(words: Sequence[str], **variables: str) -> list[ElementTree.Element]:
    """Run pytest, whose output goes to stderr, and return the test cases of its result file."""
    with tempfile.TemporaryDirectory(prefix="grader-tests-") as directory:
        result = Path(directory) / "result.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={result}", *words]
        sys.stderr.write(f"{' '.join(command[1:])}\n")
        subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, stdout=sys.stderr, check=False)
        text = result.read_text("utf-8") if result.exists() else '<testcase name="pytest wrote no result"><error/></testcase>'
    return list(ElementTree.fromstring(text).iter("testcase"))


def case_result(case: ElementTree.Element) -> str:
    """Return passed, skipped or failed for a test case of pytest's result file."""
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


def facts(command: str, words: Sequence[str] = ()) -> dict[str, str]:
    """Return the first rows of a page's first table: the time, the commit and the command."""
    return {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "commit": commit(), "command": f"{command} {shlex.join(words)}".strip()}


def commit() -> str:
    """The commit of this tree, and whether it was changed since."""
    head = command_output(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"])
    if not head:
        return "unknown: this tree is no git repository"
    return f"{head} and changes" if command_output(["git", "-C", str(ROOT), "status", "--porcelain"]) else head


def command_output(command: Sequence[str]) -> str:
    """Return the output of a command; nothing where it is missing, fails or takes too long."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=COMMAND_S)
    except subprocess.TimeoutExpired:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return " ".join(text.replace("|", "\\|").split())
