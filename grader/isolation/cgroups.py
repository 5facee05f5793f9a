"""A cgroup for each box where one can be made: memory and process limits, counters, and a list of who is in it.  v1 and v2."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.isolation.processes import end_all

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of the kernel for a box; None where nobody counted."""

    peak_memory_bytes: int | None = None
    oom_kills: int = 0
    forks_refused: int = 0

    def merged(self, later: Counters) -> Counters:
        """Combine with a later look, which may have failed."""
        peaks = [peak for peak in (self.peak_memory_bytes, later.peak_memory_bytes) if peak is not None]
        return Counters(
            peak_memory_bytes=max(peaks, default=None),
            oom_kills=max(self.oom_kills, later.oom_kills),
            forks_refused=max(self.forks_refused, later.forks_refused),
        )


@dataclass(frozen=True, slots=True)
class BoxCgroup:
    """The directories of one box: one on v2, one for each controller on v1."""

    directories: tuple[Path, ...]

    @property
    def entrances(self) -> tuple[str, ...]:
        """The files into which a process writes "0" to come in."""
        return tuple(str(directory / "cgroup.procs") for directory in self.directories)

    def limit(self, *, memory_bytes: int | None, process_count: int | None) -> None:
        """Set the limits; None leaves one open."""
        if memory_bytes is not None:
            for name in ("memory.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
                self._write(name, str(memory_bytes))
            self._write("memory.swap.max", "0")
        if process_count is not None:
            self._write("pids.max", str(process_count))

    def pids(self) -> set[int]:
        """Return the processes inside."""
        return {int(line) for directory in self.directories for line in read_text(directory / "cgroup.procs").split()}

    def kill(self) -> None:
        """Kill everything inside and wait until nothing is.  No new forks first, or a fork loop would outrun us."""
        self._write("pids.max", "0")
        self._write("cgroup.kill", "1")
        end_all(self.pids)

    def remove(self) -> None:
        """Remove the empty cgroup."""
        for directory in self.directories:
            for attempt in range(100):
                try:
                    with contextlib.suppress(FileNotFoundError):
                        directory.rmdir()
                    break
                except OSError:
                    if attempt == 99:
                        raise
                    time.sleep(0.005)  # a process that has just died is still being taken out

    def _write(self, name: str, value: str) -> None:
        for directory in self.directories:
            path = directory / name
            if path.exists():  # v1 and v2 have different ones
                with contextlib.suppress(OSError):
                    path.write_text(value)


def read_counters(directories: tuple[Path, ...]) -> Counters:
    """Return the counters in these cgroup directories, v1 or v2."""
    counters = Counters()
    for directory in directories:
        events = {**_pairs(directory / "memory.oom_control"), **_pairs(directory / "memory.events")}
        peaks = [read_text(directory / name).strip() for name in ("memory.peak", "memory.max_usage_in_bytes")]
        here = Counters(
            peak_memory_bytes=next((int(peak) for peak in peaks if peak.isdigit()), None),
            oom_kills=events.get("oom_kill", 0),
            forks_refused=_pairs(directory / "pids.events").get("max", 0),
        )
        counters = counters.merged(here)
    return counters


def directories_of(pid: int) -> tuple[Path, ...]:
    """Return the memory and pids cgroups of a process, wherever they are mounted."""
    directories = []
    for line in read_text(Path(f"/proc/{pid}/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            directories += [root / path.lstrip("/") for root in (ROOT, ROOT / "unified")]
        elif set(controllers.split(",")) & set(CONTROLLERS):
            directories.append(ROOT / controllers / path.lstrip("/"))
    return tuple(directory for directory in directories if directory.is_dir())


class Cgroups:
    """Makes and sweeps the box cgroups of one server; `usable` is False where this user may not."""

    def __init__(self, state_id: str, run_id: str) -> None:
        self._run_id = run_id
        self._parents = tuple(_parents(f"grader-{state_id}"))
        self.usable = bool(self._parents)

    def make(self, box_id: str) -> BoxCgroup:
        """Make the cgroup of one box."""
        name = f"{self._run_id}.{box_id}.{secrets.token_hex(3)}"
        for parent in self._parents:
            if not parent.exists():  # another server of this state directory has closed
                parent.mkdir(exist_ok=True)
                _delegates(parent)
            (parent / name).mkdir()
        return self._box(name)

    def sweep(self) -> int:
        """Empty and remove what earlier servers left; say how many boxes."""
        strangers = {
            directory.name
            for parent in self._parents
            for directory in parent.glob("*")
            if directory.is_dir() and not directory.name.startswith(f"{self._run_id}.")
        }
        for name in strangers:
            self._box(name).kill()
            self._box(name).remove()
        return len(strangers)

    def remove(self) -> None:
        """Remove the parents, if no server of this state directory has a box."""
        for parent in self._parents:
            with contextlib.suppress(OSError):
                parent.rmdir()

    def _box(self, name: str) -> BoxCgroup:
        return BoxCgroup(tuple(parent / name for parent in self._parents))


def _parents(name: str) -> Iterator[Path]:
    """Yield where the boxes' cgroups of each controller (v1) or of all (v2) are made."""
    if (ROOT / "cgroup.controllers").exists():
        bases = [ROOT]  # root's is the top, so that a later server finds it
        if os.geteuid() != 0:  # a user's is the nearest cgroup above this process that is delegated
            group = next((line[3:] for line in read_text(Path("/proc/self/cgroup")).splitlines() if line.startswith("0::")), "/")
            above = [ROOT / group.lstrip("/"), *(ROOT / group.lstrip("/")).parents]
            bases = [base for base in above if base.is_relative_to(ROOT) and os.access(base / "cgroup.procs", os.W_OK)]
        for base in bases:
            if _delegates(base) and _make_directory(base / name) and _delegates(base / name):
                yield base / name
                return
        return
    places = [ROOT / controller / name for controller in CONTROLLERS]
    if all(_make_directory(place) for place in places):
        yield from places


def _delegates(directory: Path) -> bool:
    enabled = directory / "cgroup.subtree_control"
    with contextlib.suppress(OSError):
        enabled.write_text(" ".join(f"+{controller}" for controller in CONTROLLERS))
    return set(CONTROLLERS) <= set(read_text(enabled).split())


def _make_directory(directory: Path) -> bool:
    if not directory.parent.is_dir():
        return False
    try:
        directory.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)


def _pairs(path: Path) -> dict[str, int]:
    lines = (line.split() for line in read_text(path).splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


def read_text(path: Path) -> str:
    """A file's text; "" where it can't be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
