"""Runs the containment suite, twice by default, and compares what is on the machine before it and after each run.

    python -m tools.containment [--repeat 2] [--isolation docker,bubblewrap] [--beside] [--json FILE] [PATH ...]

Containers, volumes, mounts, cgroups, processes, leases of slots, shared memory, semaphores, queues and files. Run it as root,
and while nobody else grades on this host: their leftovers would be counted. Progress goes to stderr, the table to stdout. The
exit code is 1 if a test failed or something stayed, each thing by its name, and 2 if another program holds a slot.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import platform
import secrets
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import docker

from grader.isolation.directories import FIRST_UID, SLOT_COUNT, remove_tree, shared_slot_directory
from grader.isolation.processes import STATE_VARIABLE
from grader.isolation.select import make
from grader.isolation.settings import BoxSettings
from tools.page import ROOT, Table, case_result, facts, run_tests, table_lines, words_of

SUITE = ("tests/containment", "grader_extensions/problem_check/tests/test_containment.py")
CAGES, OTHER = ("docker", "bubblewrap"), "other"
MARK_VARIABLE = "GRADER_CONTAINMENT_RUN"
# For what is taken down after a container is gone: the engine clears the files of its network namespaces once a minute.
SETTLE_S, BESIDE_S, LOOK_AGAIN_S = 90.0, 180.0, 0.5
SHOWN_COUNT = 40
BOX_UIDS = range(FIRST_UID, FIRST_UID + 2 * SLOT_COUNT)
# Where any user of this host may leave something; what is called grader* is listed with all that is in it.
SHARED_PLACES = tuple(map(Path, ("/dev/shm", "/dev/mqueue", "/tmp", "/var/tmp", "/run")))
OURS, DEPTH = "grader", 4
# What an engine keeps of a container while there is one: below its root directory, and below /run.
ENGINE_PLACES = ("containers", "overlay2", "overlay2/l", "volumes")
ENGINE_RUN_PLACES = (
    "docker/containerd",
    "docker/containerd/daemon/io.containerd.runtime.v2.task/moby",
    "containerd/io.containerd.runtime.v2.task/moby",
    "docker/runtime-runc/moby",
    "docker/netns",
)
SHIM = "containerd-shim"


def look_around(mark: str) -> frozenset[str]:
    """Everything that is on this machine now, each line with its kind first. mark: "NAME=value", a variable that a run's processes inherit;
    those of boxes are known by uid and label."""
    socket, slots = Path("/var/run/docker.sock"), shared_slot_directory()
    with closing(docker.APIClient(f"unix://{socket}", version="auto")) if socket.exists() else nullcontext() as engine:
        lines = [*containers(engine), *mounts(), *cgroups(Path("/sys/fs/cgroup")), *processes(mark)]
    return frozenset([*lines, *leases(slots), *system_v(), *files(SHARED_PLACES, slots)])


def containers(engine: docker.APIClient | None) -> Iterator[str]:
    """Every container, running or not, every volume, and the engine's files of them."""
    if engine is None:
        return
    yield from (f"container {entry['Id'][:12]} {' '.join(entry['Names'])}" for entry in engine.containers(all=True))
    yield from (f"volume {entry['Name']}" for entry in engine.volumes()["Volumes"] or ())
    root = Path(engine.info()["DockerRootDir"])
    for place in (*(root / name for name in ENGINE_PLACES), *(Path("/run", name) for name in ENGINE_RUN_PLACES)):
        yield from (f"file {path}" for path in _listed(place))


def mounts() -> Iterator[str]:
    """Those of our own namespace, with their numbers: two may lie over each other."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        yield f"mount {words[4]} number {words[0]} of {words[words.index('-') + 1]}"


def cgroups(root: Path) -> Iterator[str]:
    """In every hierarchy."""
    for directory, names, _ in os.walk(root):
        yield from (f"cgroup {Path(directory, name).relative_to(root)}" for name in names)


def processes(mark: str) -> Iterator[str]:
    """Processes with the uid of a box, or with its label or our mark in the environment, zombies included; and the engine's shims."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            name, uid = (directory / "comm").read_text().strip(), directory.stat().st_uid
        except OSError:
            continue  # it has ended meanwhile
        if int(directory.name) == os.getpid():
            continue
        if uid in BOX_UIDS or name == SHIM or _is_marked(directory, mark):
            yield f"process {directory.name} of uid {uid}: {name}"


def _is_marked(directory: Path, mark: str) -> bool:
    try:
        words = (directory / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False  # dead processes have none
    return any(word == mark or word.startswith(f"{STATE_VARIABLE}=") for word in words)


def leases(slots: Path) -> Iterator[str]:
    """Slots whose lock somebody holds. The lock files themselves stay for ever: a slot is the same file for every server."""
    for path in _listed(slots):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield f"lease {path}"
        finally:
            os.close(descriptor)


def system_v() -> Iterator[str]:
    """Shared memory, semaphores and queues that have no path."""
    for kind in ("shm", "sem", "msg"):
        heading, *rows = Path("/proc/sysvipc", kind).read_text().splitlines()
        column = heading.split().index("uid")
        yield from (f"{kind} {row.split()[1]} of uid {row.split()[column]}" for row in rows)


def files(places: Iterable[Path], slots: Path) -> Iterator[str]:
    """Yield the files in the places, and those below our own; not in every depth, for a box may nest them by thousands."""
    for path in (path for place in places for path in _listed(place) if path != slots):
        yield f"file {path}"
        level = [path] if path.name.startswith(OURS) else []
        for _ in range(DEPTH):
            level = [below for directory in level if directory.is_dir() and not directory.is_symlink() for below in _listed(directory)]
            yield from (f"file {below}" for below in level)


def _listed(place: Path) -> list[Path]:
    try:
        return sorted(place.iterdir())
    except OSError:
        return []  # not there, or not ours to see


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of the suite. counts: "docker passed" and the like. leftovers: what was not there before the first run."""

    counts: dict[str, int]
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    seconds: float = 0.0
    leftovers: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Return whether every test passed, some did, and nothing stayed."""
        return not self.failed and not self.leftovers and any(name.endswith(" passed") for name in self.counts)


Look = Callable[[], frozenset[str]]


def repeat(count: int, suite: Callable[[], Run], look: Look, before: frozenset[str], *, settle_s: float = SETTLE_S) -> Iterator[Run]:
    """Run the suite so often; every run is compared with what was there before the first."""
    for _ in range(count):
        start_s = time.monotonic()
        run = replace(suite(), seconds=time.monotonic() - start_s)
        yield replace(run, leftovers=left(before, look, settle_s))


def left(before: frozenset[str], look: Look, settle_s: float = SETTLE_S) -> tuple[str, ...]:
    """Return what was not there before and is there at every look until the time is over."""
    deadline_s = time.monotonic() + settle_s
    lines = look() - before
    while lines and time.monotonic() < deadline_s:
        time.sleep(LOOK_AGAIN_S)
        lines &= look()
    return tuple(sorted(lines))


def counted(cases: Iterable[ElementTree.Element]) -> Run:
    """Count test cases by isolation and result."""
    counts: Counter[str] = Counter()
    failed, skipped = list[str](), list[str]()
    for case in cases:
        name = case.get("name", "")
        words = name.partition("[")[2].rstrip("]").split("-")
        counts[f"{next((cage for cage in CAGES if cage in words), OTHER)} {(result := case_result(case))}"] += 1
        failed += [name] if result == "failed" else []
        skipped += [f"{name}: {child.get('message', '')}" for child in case if child.tag == result == "skipped"]
    return Run(counts=dict(counts), failed=tuple(dict.fromkeys(failed)), skipped=tuple(skipped))


def _suite(options: argparse.Namespace, place: Path, mark: str) -> Run:
    scratch = place / f"pytest-{secrets.token_hex(4)}"
    scratch.mkdir(mode=0o700)
    words = ["-p", "no:xdist", f"--basetemp={scratch}/tests", *map(str, options.paths)]
    if all(Path(path).resolve().is_relative_to(ROOT) for path in options.paths):
        words.append("--all-cases")
    if set(options.isolation) != set(CAGES):
        words += ["-k", " or ".join(options.isolation)]
    try:
        return counted(run_tests(words, **{MARK_VARIABLE: mark}, **{f"GRADER_REQUIRE_{cage.upper()}": "1" for cage in options.isolation}))
    finally:
        remove_tree(scratch)


async def _check(cage: str, place: Path) -> str:
    """Try the isolation, so that the empty image, which it makes once and keeps, is there before the first look."""
    isolation = make(cage, BoxSettings(state_id="containment", runtime_dir=place / cage))
    try:
        return (await isolation.check()).detail
    finally:
        await isolation.close()


def _page(head: dict[str, str], runs: Sequence[Run]) -> list[str]:
    cages = (*CAGES, OTHER)
    table = Table(headings=("run", "seconds", *(f"{cage}: passed, skipped, failed" for cage in cages), "left"))
    lines = []
    for number, run in enumerate(runs, 1):
        counts = (", ".join(str(run.counts.get(f"{cage} {result}", 0)) for result in ("passed", "skipped", "failed")) for cage in cages)
        table.add(number, f"{run.seconds:.0f}", *counts, len(run.leftovers) or "nothing")
        for title, names in (("left", run.leftovers), ("failed", run.failed), ("skipped", run.skipped)):
            lines += ["", f"Run {number}, {title}:", "", *(f"- `{name}`" for name in names[:SHOWN_COUNT])] if names else []
            lines += [f"- and {len(names) - SHOWN_COUNT} more"] if len(names) > SHOWN_COUNT else []
    return [*table_lines(("fact", "value"), head.items()), "", *table.lines(), *lines]


def main(arguments: Sequence[str] | None = None, machine: Callable[[str], Look] = lambda mark: partial(look_around, mark)) -> int:
    """Run, compare and print; 1 if a run is not clean. machine: makes the look around from a mark."""
    parser = argparse.ArgumentParser(prog="python -m tools.containment", description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=[*SUITE], metavar="PATH", help=f"tests to run ({' '.join(SUITE)})")
    parser.add_argument("--repeat", type=int, default=2, help="how often, one after the other (2)")
    parser.add_argument("--isolation", type=words_of(CAGES), default=list(CAGES), help="docker, bubblewrap, or both (both)")
    parser.add_argument("--beside", action="store_true", help="run while others grade here: their boxes come and go, our leftovers stay")
    parser.add_argument("--settle-s", type=float, help=f"time for something to go away ({SETTLE_S:.0f}; {BESIDE_S:.0f} with --beside)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write facts, counts and what stayed as JSON")
    options = parser.parse_args(arguments)
    mark = secrets.token_hex(8)
    look = machine(f"{MARK_VARIABLE}={mark}")
    with tempfile.TemporaryDirectory(prefix="containment-") as name:
        place = Path(name)
        usable = {cage: asyncio.run(_check(cage, place)) for cage in options.isolation}
        before = look()
        leases_before = sorted(line for line in before if line.startswith("lease "))
        if leases_before and not options.beside:
            sys.stderr.write(f"another program grades here; wait until it ends, or see --beside: {', '.join(leases_before)}\n")
            return 2
        settle_s = options.settle_s if options.settle_s is not None else BESIDE_S if options.beside else SETTLE_S
        runs = [*repeat(options.repeat, lambda: _suite(options, place, mark), look, before, settle_s=settle_s)]
    head = {
        **facts("python -m tools.containment", sys.argv[1:] if arguments is None else arguments),
        "kernel": platform.release(),
        **usable,
        "before": ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(line.split()[0] for line in before).items())),
        "others at the start": ", ".join(leases_before) or "nobody",
    }
    sys.stdout.write("\n".join(_page(head, runs)) + "\n")
    if options.json is not None:
        options.json.write_text(json.dumps({**head, "runs": [*map(asdict, runs)]}, indent=1) + "\n", "utf-8")
    return int(not (runs and all(run.clean for run in runs)))


if __name__ == "__main__":
    raise SystemExit(main())
