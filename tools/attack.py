"""Attacks the grader with every kernel of tests/exploits, and asks that every kernel of tests/honest passes; prints the table of both.

    python -m tools.attack [--only attacks,controls,honest] [--isolation docker,bubblewrap] [--repeat 3] [--result XML]
                           [--out FILE] [--into FILE]
    python -m tools.attack --gpu DIR/gpu.json,DIR2/gpu.json [--out FILE] [--into FILE]

All of it is the emulated device. On a GPU host `make gpu GPU_ARGS='-k "test_exploits or test_honest_set" --gpu-report DIR'` grades the same
files there, and `--gpu` takes what that wrote, a run's slices together. Progress goes to stderr, the table to stdout. Exit code 1 where an
attack has gained something, a control was not fooled, or an honest kernel was refused.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools import gpu_attacks
from tools.page import ROOT, facts, outcome, table_lines

PARTS = {
    "attacks": ("tests/exploits/test_exploits.py",),
    "controls": ("tests/exploits", "--deselect", "tests/exploits/test_exploits.py"),
    "honest": ("tests/honest",),
}
TITLES = {
    "attacks": "Attacks",
    "controls": "Controls: the same attacks on graders that lack one protection",
    "honest": "Honest kernels",
}
ROW = "row"  # the property under which a test tells its row, as JSON
COLUMNS = ("id", "severity", "attack", "isolation", "verdict", "gained", "seconds")
MARK = "<!-- attacks: {} -->"
WORKERS = 2

Claim = tuple[str, bool, str]


@dataclass(slots=True)
class Outcome:
    """What pytest said of one part."""

    rows: list[dict[str, str]] = field(default_factory=list)
    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and say by the exit code whether everything held."""
    given = _parser().parse_args(arguments)
    if given.gpu:
        try:
            on_a_gpu = gpu_attacks.read(given.gpu)
        except (OSError, ValueError, KeyError, gpu_attacks.NoRows) as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            return 2
        return _shown(given, "a GPU", "gpu", "\n".join(gpu_attacks.lines(on_a_gpu)), held=on_a_gpu.held)
    claims: list[Claim] = []
    lines: list[str] = []
    for part in given.only:
        begun = time.monotonic()
        if given.result is None:
            found = _run(part, given.isolation, given.repeat, given.workers)
        else:
            found = counted(given.result.read_text("utf-8"), part)
        claims += _claims(part, found)
        lines += _lines(part, found, time.monotonic() - begun if given.result is None else found.seconds)
    command = "make attack" if given.result is None else "make test"
    head = table_lines(("what", "which"), {**facts(command), "device": "emulated"}.items())
    outcomes = table_lines(("claim", "outcome", "found"), [(text, outcome(holds), detail) for text, holds, detail in claims])
    text = "\n".join([*head, "", *outcomes, "", *lines]) + "\n"
    return _shown(given, "the emulated device", "emulated", text, held=all(holds for _, holds, _ in claims))


def _shown(given: argparse.Namespace, device: str, mark: str, text: str, *, held: bool) -> int:
    sys.stdout.write(text)
    if given.out is not None:
        given.out.write_text(f"# Attacks on {device}\n\n{text}", "utf-8")
    if given.into is not None:
        put_between(given.into, mark, text)
    return int(not held)


def put_between(path: Path, name: str, text: str) -> None:
    """Replace what stands between two marks of a document; ValueError where they are not there."""
    mark = MARK.format(name)
    parts = path.read_text("utf-8").split(mark)
    if len(parts) != 3:
        raise ValueError(f"{path} has to hold {mark!r} twice")
    path.write_text(f"{parts[0]}{mark}\n\n{text}\n{mark}{parts[2]}", "utf-8")


def _run(part: str, isolations: str, repeat: int, workers: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="grader-attack-") as place:
        result = Path(place) / "result.xml"
        words = ["-q", "-n", str(workers), "--dist", "loadfile", "--all-cases", "-p", "no:cacheprovider", f"--junitxml={result}"]
        if part != "honest" and isolations != "all":
            words += ["-k", isolations.replace(",", " or ")]
        command = [sys.executable, "-m", "pytest", *words, *PARTS[part]]
        sys.stderr.write(f"{TITLES[part]}: {' '.join(command[1:])}\n")
        environment = {**os.environ, "HONEST_REPEATS": str(repeat)}
        subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, check=False)
        return counted(result.read_text("utf-8")) if result.exists() else Outcome(failed=["pytest wrote no result"])


def counted(xml: str, part: str = "") -> Outcome:
    """Read pytest's result file, and the rows that tests have recorded; of a run of more, only this part's."""
    found = Outcome()
    for case in ElementTree.fromstring(xml).iter("testcase"):
        if part and part_of(case.get("classname", "")) != part:
            continue
        found.seconds += float(case.get("time", 0.0))
        kinds = {child.tag for child in case}
        found.rows += [json.loads(one.get("value", "")) for one in case.iter("property") if one.get("name") == ROW]
        if kinds & {"failure", "error"}:
            found.failed.append(case.get("name", ""))
        elif "skipped" in kinds:
            found.skipped += 1
        else:
            found.passed += 1
    return found


def part_of(classname: str) -> str:
    """Which part a test is of, by its module; "" of none."""
    if classname.startswith("tests.exploits."):
        return "attacks" if classname.startswith("tests.exploits.test_exploits") else "controls"
    return "honest" if classname.startswith("tests.honest.") else ""


def _claims(part: str, found: Outcome) -> list[Claim]:
    """What this part claims, whether it holds, and what was found."""
    claims = []
    if found.rows:
        gained = [row["attack"] for row in found.rows if row["gained"] != "none"]
        claims.append((f"{len(found.rows)} gradings of attacks gain nothing", not gained, ", ".join(gained) or _verdicts(found.rows)))
    detail = f"{found.passed} passed, {found.skipped} skipped, {len(found.failed)} failed"
    return [*claims, (f"every test of {PARTS[part][0]} passes", not found.failed and found.passed > 0, detail)]


def _lines(part: str, found: Outcome, seconds: float) -> list[str]:
    rows = [tuple(row.get(column, "") for column in COLUMNS) for row in sorted(found.rows, key=lambda row: row["attack"])]
    lines = [f"{TITLES[part]}, in {seconds:.0f} s:", "", *table_lines(COLUMNS, rows), ""] if rows else []
    return lines + [f"Failed: `{name}`" for name in found.failed[:40]]


def _verdicts(rows: Sequence[dict[str, str]]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(row["verdict"].split()[0] for row in rows).most_common())


def _parts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or any(name not in PARTS for name in names):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(PARTS)}, with commas")
    return names


def _paths(text: str) -> list[Path]:
    return [Path(word.strip()) for word in text.split(",") if word.strip()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=_parts, default=list(PARTS), metavar="PARTS", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--isolation", default="all", help="docker, bubblewrap, or all that work here (default)")
    parser.add_argument("--repeat", type=int, default=1, help="how often each honest kernel is graded (default 1)")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"test processes side by side (default {WORKERS})")
    parser.add_argument("--result", type=Path, metavar="XML", help="run nothing: take what `make test PYTEST_ARGS=--junitxml=XML` wrote")
    parser.add_argument("--gpu", type=_paths, metavar="JSON", help="run nothing: take gpu.json of `--gpu-report`, several with commas")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the table as a page")
    parser.add_argument("--into", type=Path, metavar="FILE", help="also put it between the marks of docs/measurements/attacks.md")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
