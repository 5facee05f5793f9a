"""Lists what boxes have left on this host: containers, mounts, cgroups, processes, shared memory and files.

    python -m tests.containment.inventory      # after the suite has ended, once or twice: nothing

The uids of the slots are everybody's, so run it while no other server of this host grades.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import docker

from grader.isolation.cgroups import ROOT
from grader.isolation.directories import FIRST_UID, SLOT_COUNT
from grader.isolation.launch import STATE_LABEL
from grader.isolation.processes import DEAD, STATE_VARIABLE, everything

NAME = "gradercage"
SOCKET = Path("/var/run/docker.sock")
SHARED_PLACES = (Path("/dev/shm"), Path("/dev/mqueue"), Path("/tmp"), Path("/var/tmp"), Path("/run"))


def traces(prefix, uids=frozenset()):
    """Name what is left of servers whose state begins with `prefix`, and of boxes that had these uids."""
    return sorted([*containers(prefix), *mounts(prefix), *cgroups(prefix), *processes(prefix, uids), *files(prefix), *shared(uids)])


def containers(prefix):
    if not SOCKET.exists():
        return
    client = docker.APIClient(base_url=f"unix://{SOCKET}", version="auto")
    try:
        for container in client.containers(all=True, filters={"label": STATE_LABEL}):
            if container["Labels"][STATE_LABEL].startswith(prefix):
                yield f"container {container['Id'][:12]} {container['Names']}"
    finally:
        client.close()


def mounts(prefix):
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if f"/{prefix}" in line:
            yield f"mount {line.split()[1]}"


def cgroups(prefix):
    for pattern in (f"grader-{prefix}*", f"*/grader-{prefix}*"):
        yield from (f"cgroup {directory}" for directory in ROOT.glob(pattern))


def processes(prefix, uids):
    """By the name in a command line or in a label, and by uid; whoever is dead waits for its parent only."""
    label = f"{STATE_VARIABLE}={prefix}".encode()
    for pid, facts in everything().items():
        if pid == os.getpid() or facts.state in DEAD:
            continue
        try:
            directory = Path(f"/proc/{pid}")
            command, labels = (directory / "cmdline").read_bytes(), (directory / "environ").read_bytes().split(b"\0")
            if prefix.encode() in command or any(entry.startswith(label) for entry in labels) or directory.stat().st_uid in uids:
                yield f"process {pid} {command[:60]!r}"
        except OSError:
            continue  # it has ended meanwhile


def marked(marker):
    """The processes of this host that carry the marker in their command line, and have not just died."""
    pids = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (directory / "cmdline").read_bytes() and int(directory.name) != os.getpid():
                pids.append(int(directory.name))
    return pids


def files(prefix):
    """List what lies in the directories of boxes."""
    for place in places(prefix):
        yield from (f"file {path}" for path in place.glob("runtime/run-*/*"))


def places(prefix):
    """The tests' own directories; each is gone when its test has ended."""
    return sorted(Path(tempfile.gettempdir()).glob(f"{prefix}*"))


def shared(uids):
    """List what has a box's uid where every process may leave something, System V objects among them."""
    for place in SHARED_PLACES:
        for path in place.iterdir() if place.is_dir() else ():
            try:
                if path.lstat().st_uid in uids:
                    yield f"file {path}"
            except OSError:
                continue
    for kind in ("shm", "sem", "msg"):
        heading, *rows = Path("/proc/sysvipc", kind).read_text().splitlines()
        column = heading.split().index("uid")
        yield from (f"{kind} {row.split()[1]}" for row in rows if int(row.split()[column]) in uids)


if __name__ == "__main__":
    leftovers = [*traces(NAME, range(FIRST_UID, FIRST_UID + 2 * SLOT_COUNT)), *map(str, places(NAME))]
    print("\n".join(leftovers) or "nothing is left")
