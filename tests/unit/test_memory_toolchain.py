"""The toolchain's copy in memory: complete, of the same times, shared by servers, kept for the next, removed some time after the last."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from grader.config import Settings
from grader.isolation import IsolationBroken
from grader.isolation import memory_toolchain as module
from grader.isolation import toolchain_keeper as keeper
from grader.isolation.fingerprint import HostFingerprint
from grader.isolation.memory_toolchain import PREFIX, MemoryToolchain, MemoryToolchainUnavailable, hold, sweep, why_not
from grader.isolation.settings import BoxSettings
from grader.isolation.toolchain import BindMount, Toolchain, host_toolchain, mirrored
from grader.isolation.toolchain_keeper import KEEPER_NAME, PARTIAL_MODE, WHOLE_MODE
from grader.server.wiring import trusts_callers
from tests import fakes

HANG_S, KEEPER = 60.0, "toolchain_keeper.py"
T = TypeVar("T")
Take = Callable[[Path, list[module.ToolchainPart]], Awaitable[int]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A toolchain with a file, a link, a program that is setuid, a directory that is hidden."""
    root = tmp_path / "tree"
    (root / "bin" / "__pycache__").mkdir(parents=True)
    (root / "secret").mkdir()
    (root / "secret" / "reference.py").write_text("answer = 42")
    (root / "bin" / "tool").write_bytes(os.urandom(300_000))
    (root / "bin" / "tool").chmod(0o4755)
    os.utime(root / "bin" / "tool", ns=(10**18, 10**18 + 123))
    (root / "bin" / "alias").symlink_to("tool")
    (root / "bin" / "__pycache__" / "tool.pyc").write_bytes(b"one")
    return root


def parts(root: Path) -> list[module.ToolchainPart]:
    toolchain = Toolchain(
        python="",
        path="",
        binds=(BindMount(source=root, target="/t", shared=True), BindMount(source=root / "bin", target="/b", shared=True)),
        hidden=(),
        hidden_sources=(str(root / "secret"),),
    )
    return module.parts_of(toolchain)


@pytest.fixture
def take() -> Iterator[Callable[..., Awaitable[int]]]:
    """Hold copies as a server does until the test is over, when their keepers remove them."""
    with ExitStack() as locks:

        async def take_copy(directory: Path, copied: list[module.ToolchainPart]) -> int:
            lock = await hold(directory, copied, linger_s=0)
            locks.callback(os.close, lock)
            return lock

        yield take_copy


async def test_a_copy_has_every_file_with_its_bytes_time_and_link(tree: Path, tmp_path: Path, take: Take) -> None:
    """Nothing is setuid in it, and of what is hidden there is an empty directory to cover. Boxes may read it, whatever the umask."""
    before = os.umask(0o077)
    try:
        await take(tmp_path / "copy", parts(tree))
    finally:
        os.umask(before)
    there = mirrored(tmp_path / "copy", tree)
    assert (there / "bin" / "tool").read_bytes() == (tree / "bin" / "tool").read_bytes()
    facts = (there / "bin" / "tool").stat()
    assert (facts.st_mtime_ns, facts.st_mode & 0o7777) == (10**18 + 123, 0o755)
    assert os.readlink(there / "bin" / "alias") == "tool"
    assert list((there / "secret").iterdir()) == []
    above = (there / "bin", *(directory for directory in (there / "bin").parents if tmp_path / "copy" in directory.parents))
    assert {directory.stat().st_mode & 0o777 for directory in above} == {0o755}
    assert (there / "bin").stat().st_mtime_ns == (tree / "bin").stat().st_mtime_ns


async def test_a_hole_takes_room_in_a_copy(tree: Path, tmp_path: Path, take: Take) -> None:
    """The first box that maps it would fill it, and a later one could tell. The control: the file itself takes none."""
    with (tree / "bin" / "hole").open("wb") as file:
        file.truncate(1 << 20)
    await take(tmp_path / "copy", parts(tree))
    assert (tree / "bin" / "hole").stat().st_blocks == 0
    assert mirrored(tmp_path / "copy", tree / "bin" / "hole").stat().st_blocks * 512 >= 1 << 20


async def test_a_file_that_changes_meanwhile_spoils_a_copy(tree: Path, tmp_path: Path, take: Take) -> None:
    """The copy would be of no toolchain; nothing of it stays. The control: Python's cache may change."""
    original_parts = parts(tree)
    (tree / "bin" / "__pycache__" / "tool.pyc").write_bytes(b"three")
    await take(tmp_path / "control", original_parts)
    (tree / "bin" / "tool").write_bytes(b"new")
    with pytest.raises(OSError, match="tool was not copied whole"):
        await hold(tmp_path / "copy", original_parts)
    await gone(tmp_path / "copy")


async def test_a_file_that_is_gone_before_it_is_copied_spoils_a_copy(tree: Path, tmp_path: Path) -> None:
    """A package that is being replaced; boxes would lack it for as long as the server lives."""
    original_parts = parts(tree)
    (tree / "bin" / "tool").unlink()
    with pytest.raises(OSError, match="bin/tool"):
        await hold(tmp_path / "copy", original_parts)
    await gone(tmp_path / "copy")


async def test_a_file_that_changes_once_it_is_copied_spoils_a_copy(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Artifacts are kept by the digest of the disk. The control is the test above, in which only the cache changes."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "cp").write_text(f'#!/bin/sh\n{shutil.which("cp")} "$@"\necho changed >>{tree}/bin/tool\n')
    (tmp_path / "programs" / "cp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    with pytest.raises(OSError, match="tool was not copied whole"):
        await hold(tmp_path / "copy", parts(tree))
    await gone(tmp_path / "copy")


def test_another_toolchain_has_another_copy(tree: Path) -> None:
    """Of the same size and time, too. The control: what Python caches does not count."""
    before = module._digest(parts(tree))
    (tree / "bin" / "__pycache__" / "tool.pyc").write_bytes(b"three")
    assert module._digest(parts(tree)) == before
    (tree / "bin" / "tool").write_bytes(os.urandom(300_000))
    os.utime(tree / "bin" / "tool", ns=(10**18, 10**18 + 123))
    assert module._digest(parts(tree)) != before


async def test_a_second_server_takes_the_copy_of_the_first(tree: Path, tmp_path: Path, take: Take) -> None:
    """Also one that comes while it is made, and one that comes when the first has gone: it is the same file."""
    copied = mirrored(tmp_path / "copy", tree / "bin" / "tool")
    first, _ = await asyncio.gather(hold(tmp_path / "copy", parts(tree), 0), take(tmp_path / "copy", parts(tree)))
    inode = copied.stat().st_ino
    os.close(first)
    await take(tmp_path / "copy", parts(tree))
    assert copied.stat().st_ino == inode


def test_a_copy_has_no_program_or_archive_that_no_box_needs(tmp_path: Path) -> None:
    """The copy has compilers, their libraries, and what Triton and torch load."""
    needed = ("bin/g++", "bin/ptxas", "sbin/ldconfig", "lib/x86_64-linux-gnu/libc.a", "lib64/libcudart_static.a", "llvm-14/lib/libLLVM.so")
    needed += ("triton/backends/nvidia/lib/libdevice.10.bc", "triton/backends/nvidia/bin/ptxas", "torch/bin/torch_shm_manager")
    needless = ("bin/node", "sbin/dockerd", "bin/containerd-shim-runc-v2", "llvm-14/lib/libLLVMCore.a", "torch/bin/test_api")
    needless += ("triton/backends/amd/lib/codegen.so", "triton/backends/nvidia/lib/cupti/libcupti_static.a")
    for name in (*needed, *needless):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    names = {path.removeprefix(f"{tmp_path}/") for path, _ in parts(tmp_path)}
    assert names.issuperset(needed) and not names & {*needless}


async def test_a_copy_whose_maker_died_is_made_anew(tree: Path, tmp_path: Path, take: Take) -> None:
    leftover = mirrored(tmp_path / "copy", tree / "bin")
    leftover.mkdir(parents=True)
    (leftover / "tool").write_text("half")
    (tmp_path / "copy").chmod(PARTIAL_MODE)
    await take(tmp_path / "copy", parts(tree))
    assert (leftover / "tool").stat().st_size == 300_000


async def test_a_keeper_that_is_killed_while_it_copies_is_an_error(tree: Path, tmp_path: Path) -> None:
    """Nobody waits for its copy for ever."""
    (tmp_path / "copy").mkdir(mode=PARTIAL_MODE)
    reading, writing = os.pipe()  # of parts that never come
    command = [sys.executable, "-I", "-S", "-B", keeper.__file__, str(tmp_path / "copy"), "0"]
    subprocess.run(command, check=True, timeout=HANG_S, stdin=reading)
    waiting = asyncio.ensure_future(hold(tmp_path / "copy", parts(tree)))
    pid = await until(lambda: (tmp_path / "copy" / KEEPER_NAME).read_text().strip())
    os.kill(int(pid), signal.SIGKILL)
    with pytest.raises(OSError, match="was ended"):
        await asyncio.wait_for(waiting, HANG_S)
    os.close(writing)
    os.close(reading)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
async def test_a_copy_that_somebody_else_made_is_refused(tree: Path, tmp_path: Path) -> None:
    """Any user may write to /dev/shm."""
    (tmp_path / "copy").mkdir(mode=WHOLE_MODE)
    os.chown(tmp_path / "copy", 65534, 65534)
    with pytest.raises(PermissionError, match="somebody else"):
        await hold(tmp_path / "copy", parts(tree))


def test_a_toolchain_names_no_copy_that_is_not_whole(tmp_path: Path) -> None:
    """A directory that is missing in the copy is an error, and no file on disk in its place."""
    with pytest.raises(IsolationBroken, match="lacks"):
        host_toolchain(tmp_path / "etc", (), tmp_path / "copy")


def test_a_copy_without_a_server_is_removed_and_one_with_a_server_is_not(tmp_path: Path) -> None:
    """Nor is the one that the sweeping server is about to take, where it is whole."""
    dead, live, next_copy = (tmp_path / f"{PREFIX}{name}" for name in ("a-1", "a-2", "a-3"))
    for directory in (dead, live, next_copy):
        (directory / "usr").mkdir(parents=True)
    next_copy.chmod(WHOLE_MODE)
    live_lock = os.open(live, os.O_RDONLY)
    fcntl.flock(live_lock, fcntl.LOCK_SH)
    assert sweep(tmp_path, sparing=next_copy) == 1
    assert not dead.exists() and (live / "usr").exists() and (next_copy / "usr").exists()
    os.close(live_lock)
    next_copy.chmod(PARTIAL_MODE)
    assert sweep(tmp_path, sparing=next_copy) == 2


async def test_a_copy_that_is_removed_meanwhile_is_made_anew(tree: Path, tmp_path: Path, take: Take) -> None:
    """Between two calls of a server, others may sweep the directory that it opened: here while it waits for the lock."""
    directory = tmp_path / f"{PREFIX}a"
    directory.mkdir(mode=PARTIAL_MODE)
    sweeper = os.open(directory, os.O_RDONLY)
    fcntl.flock(sweeper, fcntl.LOCK_EX)
    waits = f":{os.fstat(sweeper).st_ino} "
    taking = asyncio.ensure_future(take(directory, parts(tree)))
    await until(lambda: any("->" in line and waits in line for line in Path("/proc/locks").read_text().splitlines()))
    directory.rmdir()
    os.close(sweeper)
    lock = await asyncio.wait_for(taking, HANG_S)
    assert module.is_there(lock, directory) and mirrored(directory, tree / "bin" / "tool").exists()


async def test_a_keeper_leaves_a_copy_that_was_made_anew(tree: Path, tmp_path: Path, take: Take) -> None:
    """Its own was swept; one at the same path has a keeper of its own."""
    directory = tmp_path / f"{PREFIX}a"
    lock = await hold(directory, parts(tree), linger_s=1)
    pid = (directory / KEEPER_NAME).read_text().strip()
    os.close(lock)
    await until(lambda: sweep(tmp_path) or not directory.exists())  # its keeper has the lock for a moment
    await take(directory, parts(tree))
    await until(lambda: KEEPER not in _command_of(pid))
    assert mirrored(directory, tree / "bin" / "tool").exists()


def _command_of(pid: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


async def until(answer: Callable[[], T]) -> T:
    """Return the first answer that says something."""
    async with asyncio.timeout(HANG_S):
        while not (value := answer()):
            await asyncio.sleep(0.01)
        return value


async def gone(directory: Path) -> None:
    await until(lambda: not directory.exists())


async def test_a_keeper_removes_a_copy_when_its_last_server_has_gone(tree: Path, tmp_path: Path) -> None:
    """There is one for a copy, however many servers start one, and as long as a server lives it does nothing."""
    directory = tmp_path / "copy"
    locks = [await hold(directory, parts(tree), linger_s=0) for _ in range(3)]
    pid = (directory / KEEPER_NAME).read_text().split()
    assert len(pid) == 1 and KEEPER in _command_of(pid[0])
    for lock in locks:
        os.close(lock)
    await gone(directory)


@pytest.mark.parametrize(("wanted", "retry_s"), [(None, 0.0), (False, 0.0), (True, 0.0), (True, 60.0)])
async def test_a_copy_that_can_not_be_is_an_error_where_it_is_asked_for_and_none_where_not(
    tmp_path: Path, wanted: bool | None, retry_s: float
) -> None:
    """A directory on disk is no place for it. Boxes go on with the toolchain on disk, where it is not asked for. It is tried again, but not
    by each submission that waits."""
    settings, boxes = BoxSettings(state_id="a", runtime_dir=tmp_path / "run"), fakes.FakeBoxes()
    resident = MemoryToolchain(settings, boxes, wanted=wanted, on_adoption=lambda: None, place=tmp_path, retry_s=retry_s)
    with capture_logs() as logs, pytest.raises(MemoryToolchainUnavailable, match="not a tmpfs") if wanted else nullcontext():
        await resident.ready()
    (event,) = logs
    assert event["event"] == "toolchain_on_disk" and ("restarted" in event["until"]) == (not wanted)
    again = resident.begin()
    assert again.done() is (wanted is not True or retry_s > 0) and boxes.toolchain is None
    await resident.close()


@pytest.mark.parametrize("installed", [True, False])
async def test_a_copy_has_the_packages_that_its_fingerprint_is_of(tree: Path, tmp_path: Path, installed: bool) -> None:
    """Another is made where packages are installed meanwhile: artifacts are kept by the fingerprint. The control: nothing is installed."""
    boxes, package = fakes.FakeBoxes(), tree / "bin" / "package" / "header.h"
    boxes.fingerprint = HostFingerprint(lambda scan: scan.take_tree(str(tree))).current  # type: ignore[method-assign]

    def find_place() -> tuple[list[module.ToolchainPart], Path]:
        listed = parts(tree)
        if installed and not package.exists():
            package.parent.mkdir()
            package.touch()
        return listed, tmp_path / f"{PREFIX}{module._digest(listed)}"

    settings = BoxSettings(state_id="a", runtime_dir=tmp_path / "run")
    resident = MemoryToolchain(settings, boxes, wanted=True, on_adoption=lambda: None, linger_s=0)
    resident.find_place = find_place  # type: ignore[assignment]
    await resident.ready()
    assert boxes.toolchain is not None and mirrored(boxes.toolchain, package).exists() is installed
    assert boxes.adopted_fingerprint == await HostFingerprint(lambda scan: scan.take_tree(str(tree))).current()
    await resident.close()


def test_more_than_there_is_room_for_is_refused() -> None:
    """Also where only this process's share of the memory is too small."""
    assert why_not(1 << 60) is not None
    if why_not(1 << 20) is None:
        assert "3 times" in str(why_not(1 << 20, limit_bytes=2 << 20))


@pytest.mark.parametrize(
    ("settings", "trusted"),
    [
        ({}, True),
        ({"listen": "0.0.0.0:1"}, False),
        ({"listen": "0.0.0.0:1", "auth": "none"}, False),
        ({"auth": "keys"}, False),
        ({"competitions": ("c",)}, False),
    ],
)
def test_a_server_of_its_hosts_own_callers_copies_nothing_before_the_first_secret(settings: dict[str, Any], trusted: bool) -> None:
    """Where others call, or a competition keeps something from its callers, the copy is begun when the server starts."""
    assert trusts_callers(Settings(**settings)) is trusted
