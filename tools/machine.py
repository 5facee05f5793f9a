"""Lists what is on this machine, a line for each thing, so that two moments can be compared.

Containers, mounts, cgroups, processes of boxes, leases of slots, shared memory and files. It looks and changes nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import docker

from grader.isolation.directories import FIRST_UID, SLOT_COUNT, shared_slot_directory
from grader.isolation.processes import STATE_VARIABLE

BOX_UIDS = range(FIRST_UID, FIRST_UID + 2 * SLOT_COUNT)
SOCKET = Path("/var/run/docker.sock")
CGROUPS = Path("/sys/fs/cgroup")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where to look. mark: "NAME=value", a variable that a run's processes inherit; those of boxes are known by uid and label."""

    mark: str
    places: Sequence[Path] = SHARED_PLACES
    slots: Path = field(default_factory=shared_slot_directory)
    cgroups: Path = CGROUPS
    socket: Path = SOCKET

    def look(self) -> frozenset[str]:
        """Everything that is there now, each line with its kind first."""
        with engine_at(self.socket) as engine:
            made = [*containers(engine), *mounts(), *cgroups(self.cgroups), *processes(self.mark)]
        return frozenset([*made, *leases(self.slots), *system_v(), *files(self.places, self.slots)])


@contextmanager
def engine_at(socket: Path) -> Iterator[docker.APIClient | None]:
    """The engine; None where there is none."""
    if not socket.exists():
        yield None
        return
    client = docker.APIClient(base_url=f"unix://{socket}", version="auto")
    try:
        yield client
    finally:
        client.close()


def containers(engine: docker.APIClient | None) -> Iterator[str]:
    """Every container, running or not, every volume, and the engine's files of them."""
    if engine is None:
        return
    yield from (f"container {one['Id'][:12]} {' '.join(one['Names'])}" for one in engine.containers(all=True))
    yield from (f"volume {one['Name']}" for one in engine.volumes()["Volumes"] or ())
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
    """What lies in the places, and what is below what is named as ours; not in every depth, for a box may nest them by thousands."""
    for path in (path for place in places for path in _listed(place) if path != slots):
        yield f"file {path}"
        level = [path] if path.name.startswith(OURS) else []
        for _ in range(DEPTH):
            level = [below for one in level if one.is_dir() and not one.is_symlink() for below in _listed(one)]
            yield from (f"file {below}" for below in level)


def _listed(place: Path) -> list[Path]:
    try:
        return sorted(place.iterdir())
    except OSError:
        return []  # not there, or not ours to see
