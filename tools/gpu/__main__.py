"""Runs the GPU tests on this host and prints the tables that have to be shown, as markdown.

    python -m tools.gpu [--only six,agreement] [--isolation docker] [--out DIR]

Each section runs alone too, and one that fails does not stop the others. Progress goes to stderr, the page to stdout; with --out it is also
written to DIR/gpu.md and DIR/gpu.json, anew with every line of progress. Exit code 1 where a claim fails or a section was not finished.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import logging
import os
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from grader.observability import log
from sandbox.protocol import wire
from tools.gpu import host, page
from tools.gpu.run import EMULATED, Choices, Run, say
from tools.gpu.sections.registry import PARTS, Part

OF_MANY = "in examples, exploits, honest_set and the tests of tests/gpu"
GRACE_S = 180.0  # beyond its budget a section that does not stop by itself is cut


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and say by the exit code whether everything held."""
    given = _parser().parse_args(arguments)
    chosen = list(PARTS) if given.only is None else given.only
    facts = _facts(given, sys.argv[1:] if arguments is None else arguments)
    if facts["device"] == "no GPU" and given.device != EMULATED:
        say("no CUDA device, or not for us: nvidia-smi and `grader-cli doctor` say more; the sections need one")
        return 1
    log.configure(level=logging.WARNING)
    # The tests import it as `tests.gpu`, children run `-m tools.gpu...`: both start at the root.
    os.chdir(host.ROOT)
    sections: list[page.Section] = []
    for name in chosen:
        part = PARTS[name]
        own_s = given.soak_seconds if name == "soak" else None
        section = page.Section(name=name, title=part.title, budget_s=own_s or given.seconds or part.budget_s)
        sections.append(section)
        say(f"\n== {name}: {part.title}; up to {section.budget_s:.0f} s")
        write = functools.partial(_write, given.out, facts, sections)
        facts |= _environment_facts(_made(part, section, _choices(given), write))
        failed = [claim.text for claim in section.claims if claim.holds is False]
        outcome = "done" if section.succeeded else "; ".join([*failed, page.first_line(section.failure)]).strip("; ")
        say(f"== {name}: {section.seconds:.0f} s of {section.budget_s:.0f} s: {outcome}")
        _write(given.out, facts, sections)
    sys.stdout.write(page.markdown(_heading(facts), facts, sections))
    return int(not all(section.succeeded for section in sections))


def _made(part: Part, section: page.Section, choices: Choices, write: Callable[[], None]) -> wire.Environment | None:
    """Make a section, whatever becomes of it; what the judge said of the device."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="grader-tables-", ignore_cleanup_errors=True) as place:
        run = Run(choices=choices, section=section, place=Path(place), on_progress=write)
        try:
            asyncio.run(_cut(part, run))
        # A section's failure is a finding, and the others are still wanted.
        except Exception as failure:  # noqa: BLE001
            section.failure = "".join(traceback.format_exception(failure))
            say(section.failure)
    section.seconds = time.monotonic() - begun
    return run.environment


async def _cut(part: Part, run: Run) -> None:
    async with asyncio.timeout(run.section.budget_s + GRACE_S):
        await part.run(run)


def _facts(given: argparse.Namespace, words: Sequence[str]) -> dict[str, str]:
    found = host.facts()
    commit = found.pop("commit")
    now = datetime.now(UTC)
    return {
        "date": f"{now:%Y-%m-%d %H:%M} UTC",
        **found,
        "isolation": given.isolation,
        "commit": given.commit or commit,
        "command": f"python -m tools.gpu {shlex.join(words)}".strip(),
    }


def _environment_facts(environment: wire.Environment | None) -> dict[str, str]:
    """What a judge said of its device is more than what can be seen from here."""
    if environment is None:
        return {}
    versions = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    ceilings = ", ".join(f"{name} {value:.4g}" for name, value in environment.ceilings.items())
    found = {"isolation": environment.isolation, "the judge's device": f"{environment.device} {environment.architecture}".strip()}
    return found | {name: text for name, text in (("the judge's versions", versions), ("measured ceilings", ceilings)) if text}


def _heading(facts: dict[str, str]) -> str:
    return f"GPU measurements, {facts['date'].split()[0]}"


def _write(out: Path | None, facts: dict[str, str], sections: Sequence[page.Section]) -> None:
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu.md").write_text(page.markdown(_heading(facts), facts, sections), "utf-8")
    (out / "gpu.json").write_text(json.dumps(page.data(facts, sections), default=str, separators=(",", ":")) + "\n", "utf-8")


def _choices(given: argparse.Namespace) -> Choices:
    return Choices(
        device=given.device,
        isolation=given.isolation,
        measure_s=given.measure_s,
        repetitions=given.repetitions,
        aa_count=given.aa_count,
        lane_jobs=given.lane_jobs,
        soak_count=given.soak_count,
        naive_load=given.naive_load,
        seed=given.seed,
        kernels=tuple(given.kernels.split(",")),
        share=given.slice,
        repeats=given.repeats,
    )


def _absolute(text: str) -> Path:
    return Path(text).absolute()


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"there is no section {', '.join(unknown) or text!r}; choose from {', '.join(PARTS)}")
    return names


def _slice(text: str) -> tuple[int, int]:
    words = text.split("/")
    if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words) or not 1 <= int(words[0]) <= int(words[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no part of a whole; write 1/2 for the first of two halves")
    return int(words[0]), int(words[1])


def _at_least_one(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of times; write 1 or more")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    budgets = ", ".join(f"{name} {part.budget_s:.0f} s" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(prog="python -m tools.gpu", description=__doc__.splitlines()[0], epilog=f"Time at most: {budgets}.")
    parser.add_argument("--only", type=_names, metavar="NAMES", help=f"sections, with commas; all unless told: {', '.join(PARTS)}")
    parser.add_argument("--out", type=_absolute, metavar="DIR", help="also write DIR/gpu.md and DIR/gpu.json")
    parser.add_argument("--isolation", default="auto", choices=("auto", "docker", "bubblewrap", "process"))
    parser.add_argument("--seconds", type=float, metavar="S", help="each section's time, instead of its own")
    parser.add_argument("--measure-s", type=float, help="for each workload: in agreement and examples (default 2), in aa (default 10)")
    parser.add_argument("--repetitions", type=int, default=3, help="of the plain do_bench (default 3)")
    parser.add_argument("--aa-count", type=int, default=30, help="gradings of a kernel against itself (default 30)")
    parser.add_argument("--lane-jobs", type=int, default=12, help="jobs on one lane; twice as many on two (default 12)")
    parser.add_argument("--soak-count", type=int, default=200, help="submissions in a row (default 200)")
    parser.add_argument("--soak-seconds", type=float, help="the time of soak alone, instead of --seconds")
    parser.add_argument("--naive-load", action="store_true", help="build the naive harness's kernel by torch.utils.cpp_extension.load")
    parser.add_argument("--seed", type=int, default=1, help="of the orders (default 1)")
    parser.add_argument(
        "--kernels", default="", metavar="PARTS", help=f"only kernels with one of these in their names, with commas, {OF_MANY}"
    )
    parser.add_argument(
        "--slice", type=_slice, default=(1, 1), metavar="K/N", help="of exploits and honest_set every Nth from the Kth on, such as 1/2"
    )
    parser.add_argument("--repeats", type=_at_least_one, default=3, help="gradings of each kernel of honest_set (default 3)")
    parser.add_argument("--commit", help="what to say of the commit, where the tree is no repository")
    parser.add_argument("--device", default="cuda", choices=("cuda", EMULATED), help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
