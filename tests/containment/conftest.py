"""A cage: run hostile code in a box of a safe isolation, with every protection or with some taken away."""

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import zlib
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from grader.grading.attempt import module_argv
from grader.isolation import BoxSpec, Purpose
from grader.isolation.bubblewrap import BubblewrapIsolation
from grader.isolation.directories import hold_slot, shared_slot_directory, slot_uid
from grader.isolation.docker import DockerIsolation
from grader.isolation.settings import BoxSettings, Protections
from sandbox.protocol.wire import BoxCause
from tests import fakes
from tests.containment.inventory import NAME, marked, places, traces
from tests.requirements import absent
from tests.turns import TURN_VARIABLE

SAFE = {"docker": DockerIsolation, "bubblewrap": BubblewrapIsolation}
CAGES = {**SAFE, "forks": BubblewrapIsolation}  # forks: a Cage's boxes are children of a parent
# The command of a forked box: it has the words of a started one.
ATTACKER = """
import sys
def preload(arguments):
    pass
def main(arguments):
    sys.argv = ["-c", *arguments[1:]]
    exec(compile(arguments[0], "attack", "exec"), {"__name__": "__main__"})
    return 0
"""
HANG_S = 60  # bounds what may not hang, and nothing else
# Who made it is in the name of all that a test makes, so that nobody takes another session's for a leftover.
SESSION = f"{NAME}{os.getpid()}x"
# `attempt` says on one line whether the attack got through; a refusal is an OSError or an errno.
PRELUDE = """
import ctypes, errno, mmap, os, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def attempt(what, attack):
    try:
        print(what, "THROUGH", attack(), flush=True)
    except OSError as error:
        print(what, "DENIED", errno.errorcode.get(error.errno, error.errno), flush=True)
    except (RuntimeError, ValueError, MemoryError) as error:
        print(what, "DENIED", type(error).__name__, error, flush=True)
"""


GONE_S = 60.0
ISOLATIONS = ("docker", "bubblewrap", "forks", "process")


def pytest_itemcollected(item):
    """Where both safe isolations are at hand, a test runs on one of them, or in a cage forked, and on another with the next commit."""
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = [name for name in params if name in ISOLATIONS]
    if len(named) == 1 and shutil.which("bwrap") and shutil.which("docker"):
        turn = zlib.crc32(item.nodeid.replace(named[0], "").encode()) + ISOLATIONS.index(named[0])
        if (turn + int(os.environ[TURN_VARIABLE])) % (3 if "cage" in item.fixturenames else 2):
            item.add_marker(pytest.mark.daily)


async def exists(path):
    """Wait until a box has made a file."""
    async with asyncio.timeout(HANG_S):
        while not path.exists():
            await asyncio.sleep(0.05)


class Cage:
    """An isolation to be taken apart."""

    def __init__(self, name, place, slot):
        self.name, self.place, self.slot = name, place, slot
        self.settings = BoxSettings(state_id=place.name, runtime_dir=place / "runtime")
        # Ours alone while the slot is held, but for boxes of a server that died. Not as root: everything of ours has the boxes' uid.
        self.uids = {slot_uid(slot, purpose) for purpose in Purpose} if os.geteuid() == 0 else set()
        self.before = set(traces(place.name, self.uids))
        self.marker = f"marker-{place.name}"
        self.isolations = []
        self.orderly = False
        self.attacker = (str(place / "fork_attack.py"), "/grader/lib/fork_attack.py")
        Path(self.attacker[0]).write_text(ATTACKER)

    def isolation(self, **protections):
        isolation = CAGES[self.name](self.settings, Protections(**protections))
        self.isolations.append(isolation)
        return isolation

    def code(self, attack):
        return f"# {self.marker}\n{PRELUDE}\n{textwrap.dedent(attack)}"

    def spec(self, attack, *, purpose=Purpose.BUILD, limits=None, argv=None, words=(), **changes):
        if self.name == "forks" and argv is None:
            changes["fork_argv"] = module_argv("sandbox.fork_server", "{link}/fork.sock", "fork_attack", self.code(attack), *words)
        return BoxSpec(
            box_id=f"c{time.monotonic_ns()}",
            purpose=purpose,
            argv=argv or ("{python}", "-I", "-S", "-c", self.code(attack), *words),
            limits=replace(fakes.LIMITS, **(limits or {})),
            slot=self.slot,
            **changes,
        )

    @asynccontextmanager
    async def live(self, attack, *, without=(), extra_binds=(), **spec):
        self.orderly = False
        off = dict.fromkeys(without, False)
        binds = (*extra_binds, *([self.attacker] if self.name == "forks" else []))
        isolation = self.isolation(**off, extra_binds=binds)
        wanted = self.spec(attack, **spec)
        async with isolation.start(wanted) as box:
            if wanted.fork_argv and not any(name.startswith("own_") for name in without):  # else it was started
                (parent,) = isolation._parents._parents.values()
                assert parent.value.exception() is None
            yield box
        if self.name == "forks":  # its parent, before somebody looks for what is left
            await isolation.close()

    async def run(self, attack, **options):
        """Run it to its end, and see that nothing of it is left then."""
        async with self.live(attack, **options) as box:
            ended = await box.wait()
        assert self.leftovers() == []
        self.orderly = (ended.cause, ended.exit_code) == (BoxCause.EXITED, 0)
        return ended

    async def says(self, attack, **options):
        """Run it and return what it printed, line by line."""
        ended = await self.run(attack, **options)
        return ended.output.decode(errors="replace").splitlines()

    async def refuses(self, attack, denied, control, **options):
        """See that an attack prints `denied`, and as the control that it gets through with these options."""
        assert await self.says(attack) == [denied]
        assert await self.says(attack, **options) == [control]

    async def on_host(self, attack, **options):
        """Run it on the bare host, where nothing keeps it in: the control of what no box can be without."""
        command = [sys.executable, "-I", "-S", "-c", self.code(attack)]
        limited = {"stdout": subprocess.PIPE, "timeout": HANG_S, "check": True, **options}
        ended = await asyncio.to_thread(subprocess.run, command, **limited)
        return ended.stdout.decode().splitlines()

    def open_directory(self, name):
        """Make a directory that every user may write to."""
        directory = self.place / name
        directory.mkdir()
        directory.chmod(0o777)
        return directory

    @contextmanager
    def in_another_slot(self):
        """Start boxes in another slot meanwhile."""
        slot = self.slot
        with hold_slot(shared_slot_directory()) as self.slot:
            try:
                yield
            finally:
                self.slot = slot

    async def look_around(self):
        """The last job on the slot ended right and in time, or one more does; then nothing is left of it, nor of those before it."""
        if not self.orderly:
            assert await self.says("print(6 * 7)") == ["42"]
        for isolation in self.isolations:
            await isolation.close()
        until = time.monotonic() + GONE_S
        while (traces_left := set(traces(self.place.name, self.uids)) - self.before) and time.monotonic() < until:
            await asyncio.sleep(0.1)  # on a busy machine a killed process is listed until it has run once more
        assert traces_left == set()

    def leftovers(self):
        """Return the processes on this host that carry our marker."""
        return marked(self.marker)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left():
    """Each test looks around once it has ended; so does the session, for what was in nobody's name by then."""
    yield
    assert [*traces(SESSION), *places(SESSION)] == []


@pytest.fixture(scope="session")
def cage_checks():
    """Hold what each isolation says of itself, asked once."""
    return {}


async def usable(name, cage_checks):
    if name not in cage_checks:
        with tempfile.TemporaryDirectory(prefix="grader-check-") as directory:
            isolation = CAGES[name](BoxSettings(state_id="check", runtime_dir=Path(directory)))
            cage_checks[name] = await isolation.check()
            await isolation.close()
    if not cage_checks[name].usable:
        absent(name, cage_checks[name].detail)


async def caged(name):
    place = Path(tempfile.gettempdir(), f"{SESSION}{secrets.token_hex(4)}")
    place.mkdir(mode=0o700)
    try:
        with hold_slot(shared_slot_directory()) as slot:
            cage = Cage(name, place, slot)
            yield cage
            await cage.look_around()
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in CAGES])
async def cage(request, cage_checks):
    """Each safe isolation in turn."""
    await usable(request.param, cage_checks)
    async for instance in caged(request.param):
        yield instance


@pytest.fixture
async def docker_cage(cage_checks):
    """The one for what only an engine has."""
    await usable("docker", cage_checks)
    async for instance in caged("docker"):
        yield instance


@pytest.fixture
def root_only():
    """Skip what needs root on the host to be set up."""
    if os.geteuid() != 0:
        pytest.skip("needs root on the host")
