"""Runs the containment suite, twice by default, and compares what is on the machine before it and after each run.

    python -m tools.containment [--repeat 2] [--isolation docker,bubblewrap] [--beside] [--json FILE] [--out FILE] [PATH ...]

Containers, volumes, mounts, cgroups, processes, leases of slots, shared memory, semaphores, queues and files. As root, and while nobody
else grades on this host: what others leave meanwhile would be counted. Progress goes to stderr, the table to stdout. Exit code 1 where a
test failed or something stayed, each thing by its name; 2 where somebody else holds a slot.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import json
import os
import platform
import secrets
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from grader.isolation.directories import remove_tree
from grader.isolation.select import make
from grader.isolation.settings import BoxSettings
from tools.machine import Machine
from tools.page import ROOT, Table, facts, table_lines

SUITE = "tests/containment"
CAGES = ("docker", "bubblewrap")
MARK_VARIABLE = "GRADER_CONTAINMENT_RUN"
# For what is taken down after a container is gone: the engine clears the files of its network namespaces once a minute.
SETTLE_S, BESIDE_S, LOOK_AGAIN_S = 90.0, 180.0, 0.5
SHOWN_COUNT = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What pytest said. counts: "docker passed" and the like, each with how often."""

    counts: dict[str, int]
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the suite, and what was there after it that had not been there before the first."""

    outcome: Outcome
    seconds: float
    left: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Whether every test passed, some did, and nothing stayed."""
        return not self.outcome.failed and not self.left and any(name.endswith(" passed") for name in self.outcome.counts)


Look = Callable[[], frozenset[str]]


def main(arguments: Sequence[str] | None = None, machine: Callable[[str], Look] = lambda mark: Machine(mark=mark).look) -> int:
    """Run, compare, print, and say by the exit code whether everything held. machine: given a mark, how to look around."""
    given = _parser().parse_args(arguments)
    mark = secrets.token_hex(8)
    look = machine(f"{MARK_VARIABLE}={mark}")
    with tempfile.TemporaryDirectory(prefix="containment-") as name:
        place = Path(name)
        usable = {cage: asyncio.run(_check(cage, place)) for cage in given.isolation}
        before = look()
        held = sorted(line for line in before if line.startswith("lease "))
        if held and not given.beside:
            sys.stderr.write(f"somebody else grades on this host; try again when it is idle, or see --beside: {', '.join(held)}\n")
            return 2
        settle_s = given.settle_s if given.settle_s is not None else BESIDE_S if given.beside else SETTLE_S
        runs = repeat(given.repeat, lambda: _suite(given, place, mark), look, before, ignored=given.ignore, settle_s=settle_s)
    known = {
        **facts(f"python -m tools.containment {' '.join(sys.argv[1:] if arguments is None else arguments)}"),
        "kernel": platform.release(),
        **usable,
        "before": _kinds(before),
        "others at the start": ", ".join(held) or "nobody",
        "not counted": ", ".join(given.ignore) or "nothing",
    }
    text = "\n".join(_lines(known, runs)) + "\n"
    sys.stdout.write(text)
    if given.out is not None:
        given.out.write_text(f"# What the containment suite leaves\n\n{text}", "utf-8")
    if given.json is not None:
        given.json.write_text(
            json.dumps({**known, "runs": [{**asdict(run), "clean": run.clean} for run in runs]}, indent=1) + "\n", "utf-8"
        )
    return int(not (runs and all(run.clean for run in runs)))


def repeat(
    count: int, suite: Callable[[], Outcome], look: Look, before: frozenset[str], *, ignored: Sequence[str] = (), settle_s: float = SETTLE_S
) -> list[Run]:
    """Run the suite so often; every run is compared with what was there before the first."""
    runs = []
    for _ in range(count):
        begun = time.monotonic()
        outcome = suite()
        seconds = time.monotonic() - begun
        runs.append(Run(outcome=outcome, seconds=seconds, left=left(before, look, ignored, settle_s)))
    return runs


def left(before: frozenset[str], look: Look, ignored: Sequence[str] = (), settle_s: float = SETTLE_S) -> tuple[str, ...]:
    """What was not there before and is there now, and whenever we look again until the time is over: what goes away has not stayed."""
    until = time.monotonic() + settle_s
    found = frozenset(line for line in look() - before if not any(fnmatch.fnmatch(line, pattern) for pattern in ignored))
    while found and time.monotonic() < until:
        time.sleep(LOOK_AGAIN_S)
        found &= look()
    return tuple(sorted(found))


def counted(xml: str) -> Outcome:
    """Read pytest's result file."""
    counts: Counter[str] = Counter()
    failed, skipped = [], []
    for case in ElementTree.fromstring(xml).iter("testcase"):
        name = case.get("name", "")
        words = name.partition("[")[2].rstrip("]").split("-")
        cage = next((cage for cage in CAGES if cage in words), "other")
        kinds = {child.tag: child.get("message", "") for child in case}
        if kinds.keys() & {"failure", "error"}:
            failed.append(name)
            counts[f"{cage} failed"] += 1
        elif "skipped" in kinds:
            skipped.append(f"{name}: {kinds['skipped']}")
            counts[f"{cage} skipped"] += 1
        else:
            counts[f"{cage} passed"] += 1
    return Outcome(counts=dict(counts), failed=tuple(dict.fromkeys(failed)), skipped=tuple(skipped))


def _suite(given: argparse.Namespace, place: Path, mark: str) -> Outcome:
    result = place / f"result-{secrets.token_hex(4)}.xml"
    scratch = place / f"pytest-{secrets.token_hex(4)}"
    scratch.mkdir(mode=0o700)
    try:
        words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={scratch}/tests", f"--junitxml={result}"]
        if all(Path(path).resolve().is_relative_to(ROOT / "tests") for path in given.paths):
            words.append("--all-cases")
        if set(given.isolation) != set(CAGES):
            words += ["-k", " or ".join(given.isolation)]
        command = [sys.executable, "-m", "pytest", *words, *given.paths]
        sys.stderr.write(f"{' '.join(command[1:])}\n")
        environment = {**os.environ, MARK_VARIABLE: mark, **{f"GRADER_REQUIRE_{cage.upper()}": "1" for cage in given.isolation}}
        subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, check=False)
    finally:
        remove_tree(scratch)
    return counted(result.read_text("utf-8")) if result.exists() else Outcome(counts={}, failed=("pytest wrote no result",))


async def _check(cage: str, place: Path) -> str:
    """Try the isolation, so that what it makes once and keeps, the empty image, is there before we look."""
    isolation = make(cage, BoxSettings(state_id="containment", runtime_dir=place / cage))
    try:
        return (await isolation.check()).detail
    finally:
        await isolation.close()


def _kinds(lines: frozenset[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(line.split()[0] for line in lines).items()))


def _lines(known: dict[str, str], runs: Sequence[Run]) -> list[str]:
    table = Table(headings=("run", "seconds", *(f"{cage}: passed, skipped, failed" for cage in (*CAGES, "other")), "left"))
    for number, run in enumerate(runs, 1):
        counts = (
            ", ".join(str(run.outcome.counts.get(f"{cage} {how}", 0)) for how in ("passed", "skipped", "failed"))
            for cage in (*CAGES, "other")
        )
        table.add(number, f"{run.seconds:.0f}", *counts, len(run.left) or "nothing")
    lines = [*table_lines(("what", "which"), known.items()), "", *table.lines()]
    for what in ("left", "failed", "skipped"):
        for number, run in enumerate(runs, 1):
            found = run.left if what == "left" else getattr(run.outcome, what)
            lines += [] if not found else ["", f"Run {number}, {what}:", "", *(f"- `{one}`" for one in found[:SHOWN_COUNT])]
            lines += [f"- and {len(found) - SHOWN_COUNT} more"] if len(found) > SHOWN_COUNT else []
    return lines


def _isolations(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or any(name not in CAGES for name in names):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(CAGES)}, with commas")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.containment", description=__doc__.splitlines()[0], epilog=__doc__.split("\n\n")[2]
    )
    parser.add_argument("paths", nargs="*", default=[SUITE], metavar="PATH", help=f"tests to run (default {SUITE})")
    parser.add_argument("--repeat", type=int, default=2, help="how often, one after the other (default 2)")
    parser.add_argument("--isolation", type=_isolations, default=list(CAGES), help="docker, bubblewrap, or both, which is the default")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="PATTERN", help="do not count lines such as 'file /tmp/mine*'; may be repeated"
    )
    parser.add_argument("--beside", action="store_true", help="go on while others grade here: their boxes come and go, what we leave stays")
    settle = f"how long something may take to go away (default {SETTLE_S:.0f}; {BESIDE_S:.0f} with --beside)"
    parser.add_argument("--settle-s", type=float, help=settle)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write facts, counts and what stayed as JSON")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the table as a page")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
