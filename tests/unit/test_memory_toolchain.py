"""The toolchain's copy in memory: complete, of the same times, shared by servers, kept for the next, removed some time after the last."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from grader.isolation import IsolationBroken
from grader.isolation import memory_toolchain as module
from grader.isolation.memory_toolchain import PREFIX, MemoryToolchainUnavailable, copy, memory_toolchain, sweep, take, why_not
from grader.isolation.settings import BoxSettings
from grader.isolation.toolchain import BindMount, Toolchain, host_toolchain, mirrored

HANG_S, KEEPER = 60.0, module.KEEPER_SCRIPT.name


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


def test_a_copy_has_every_file_with_its_bytes_time_and_link(tree: Path, tmp_path: Path) -> None:
    """Nothing is setuid in it, and of what is hidden there is an empty directory to cover. Boxes may read it, whatever the umask."""
    before = os.umask(0o077)
    try:
        copy(parts(tree), tmp_path / "copy")
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


def test_a_hole_takes_room_in_a_copy(tree: Path, tmp_path: Path) -> None:
    """The first box that maps it would fill it, and a later one could tell. The control: the file itself takes none."""
    with (tree / "bin" / "hole").open("wb") as file:
        file.truncate(1 << 20)
    copy(parts(tree), tmp_path / "copy")
    assert (tree / "bin" / "hole").stat().st_blocks == 0
    assert mirrored(tmp_path / "copy", tree / "bin" / "hole").stat().st_blocks * 512 >= 1 << 20


def test_a_file_that_changes_meanwhile_spoils_a_copy(tree: Path, tmp_path: Path) -> None:
    """It would be of no one toolchain; nothing of it stays. The control: Python's cache may change."""
    seen = parts(tree)
    (tree / "bin" / "__pycache__" / "tool.pyc").write_bytes(b"three")
    copy(seen, tmp_path / "control")
    (tree / "bin" / "tool").write_bytes(b"new")
    with pytest.raises(IsolationBroken, match="tool was not copied whole"):
        take(tmp_path / "copy", seen)
    assert not (tmp_path / "copy").exists()


def test_another_toolchain_has_another_copy(tree: Path) -> None:
    """Of the same size and time, too. The control: what Python caches does not count."""
    before = module._digest(parts(tree))
    (tree / "bin" / "__pycache__" / "tool.pyc").write_bytes(b"three")
    assert module._digest(parts(tree)) == before
    (tree / "bin" / "tool").write_bytes(os.urandom(300_000))
    os.utime(tree / "bin" / "tool", ns=(10**18, 10**18 + 123))
    assert module._digest(parts(tree)) != before


def test_a_second_server_takes_the_copy_of_the_first(tree: Path, tmp_path: Path) -> None:
    """Also when the first has gone: it is the same file as before."""
    copied = mirrored(tmp_path / "copy", tree / "bin" / "tool")
    first = take(tmp_path / "copy", parts(tree))
    inode = copied.stat().st_ino
    second = take(tmp_path / "copy", parts(tree))
    assert first is not None and second is not None
    os.close(first)
    os.close(second)
    third = take(tmp_path / "copy", parts(tree))
    assert third is not None and copied.stat().st_ino == inode
    os.close(third)


def test_a_copy_has_no_program_or_archive_that_no_box_needs(tmp_path: Path) -> None:
    """It has compilers, their libraries, and what Triton and torch load."""
    needed = ("bin/g++", "bin/ptxas", "sbin/ldconfig", "lib/x86_64-linux-gnu/libc.a", "lib64/libcudart_static.a", "llvm-14/lib/libLLVM.so")
    needed += ("triton/backends/nvidia/lib/libdevice.10.bc", "triton/backends/nvidia/bin/ptxas", "torch/bin/torch_shm_manager")
    needless = ("bin/node", "sbin/dockerd", "bin/containerd-shim-runc-v2", "llvm-14/lib/libLLVMCore.a", "torch/bin/test_api")
    needless += ("triton/backends/amd/lib/codegen.so", "triton/backends/nvidia/lib/cupti/libcupti_static.a")
    for name in (*needed, *needless):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    names = {path.removeprefix(f"{tmp_path}/") for path, _ in parts(tmp_path)}
    assert names.issuperset(needed) and not names & {*needless}


def test_a_copy_whose_maker_died_is_made_anew(tree: Path, tmp_path: Path) -> None:
    leftover = mirrored(tmp_path / "copy", tree / "bin")
    leftover.mkdir(parents=True)
    (leftover / "tool").write_text("half")
    (tmp_path / "copy").chmod(module.PARTIAL_MODE)
    lock = take(tmp_path / "copy", parts(tree))
    assert lock is not None and (leftover / "tool").stat().st_size == 300_000
    os.close(lock)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_copy_that_somebody_else_made_is_refused(tree: Path, tmp_path: Path) -> None:
    """Any user may write to /dev/shm."""
    lock = take(tmp_path / "copy", parts(tree))
    assert lock is not None
    os.close(lock)
    os.chown(tmp_path / "copy", 65534, 65534)
    with pytest.raises(PermissionError, match="somebody else"):
        take(tmp_path / "copy", parts(tree))


def test_a_toolchain_names_no_copy_that_is_not_whole(tmp_path: Path) -> None:
    """A directory that is missing in the copy is an error, and no file on disk in its place."""
    with pytest.raises(IsolationBroken, match="lacks"):
        host_toolchain(tmp_path / "etc", (), tmp_path / "copy")


def test_a_copy_without_a_server_is_removed_and_one_with_a_server_is_not(tmp_path: Path) -> None:
    """Nor is the one that the sweeping server is about to take, where it is whole."""
    dead, live, own = (tmp_path / f"{PREFIX}{name}" for name in ("a-1", "a-2", "a-3"))
    for directory in (dead, live, own):
        (directory / "usr").mkdir(parents=True)
    own.chmod(module.WHOLE_MODE)
    held = os.open(live, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    assert sweep(tmp_path, sparing=own) == 1
    assert not dead.exists() and (live / "usr").exists() and (own / "usr").exists()
    os.close(held)
    own.chmod(module.PARTIAL_MODE)
    assert sweep(tmp_path, sparing=own) == 2


@pytest.mark.parametrize("locks", [1, 2], ids=["before it is alone", "before it shares"])
def test_a_copy_that_is_made_anew_meanwhile_is_left_alone(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: int) -> None:
    """Between two calls of a server, others may sweep the directory that it opened and make another at the same path."""
    directory, counts, others = tmp_path / f"{PREFIX}a", [0], list[int | None]()
    flock = fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        counts[0] += 1
        if counts[0] == locks:
            monkeypatch.setattr(module.fcntl, "flock", flock)
            flock(descriptor, fcntl.LOCK_UN)
            assert sweep(tmp_path) == 1
            others.append(take(directory, parts(tree)))
        flock(descriptor, operation)

    monkeypatch.setattr(module.fcntl, "flock", late)
    assert take(directory, parts(tree)) is None
    assert others[0] is not None and mirrored(directory, tree / "bin" / "tool").exists()
    os.close(others[0])


def test_a_keeper_leaves_a_copy_that_was_made_anew(tree: Path, tmp_path: Path) -> None:
    """Its own was swept; one at the same path has a keeper of its own."""
    directory = tmp_path / f"{PREFIX}a"
    command = [sys.executable, "-I", "-S", "-B", str(module.KEEPER_SCRIPT), str(directory), "1"]
    lock = take(directory, parts(tree))
    assert lock is not None
    subprocess.run(command, check=True, timeout=HANG_S, capture_output=True)
    pid = (directory / "keeper").read_text().strip()
    os.close(lock)
    assert sweep(tmp_path) == 1
    lock = take(directory, parts(tree))
    assert lock is not None
    deadline = time.monotonic() + HANG_S
    while KEEPER in _command_of(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert KEEPER not in _command_of(pid) and mirrored(directory, tree / "bin" / "tool").exists()
    os.close(lock)


def _command_of(pid: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def test_a_keeper_removes_a_copy_when_its_last_server_has_gone(tree: Path, tmp_path: Path) -> None:
    """There is one for a copy, however many servers start one, and as long as a server lives it does nothing."""
    directory = tmp_path / "copy"
    lock = take(directory, parts(tree))
    assert lock is not None
    command = [sys.executable, "-I", "-S", "-B", str(module.KEEPER_SCRIPT), str(directory), "0"]
    for _ in range(3):
        subprocess.run(command, check=True, timeout=HANG_S, capture_output=True)
    pid = (directory / "keeper").read_text().split()
    assert len(pid) == 1 and Path(f"/proc/{pid[0]}").exists()
    os.close(lock)
    deadline = time.monotonic() + HANG_S
    while directory.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not directory.exists()


async def test_a_copy_that_can_not_be_is_an_error_where_it_is_asked_for_and_none_where_not(tmp_path: Path) -> None:
    """A directory on disk is no place for it."""
    settings = BoxSettings(state_id="a", runtime_dir=tmp_path / "run")
    with pytest.raises(MemoryToolchainUnavailable, match="not a tmpfs"):
        async with memory_toolchain(settings, wanted=True, place=tmp_path):
            pass
    for wanted in (None, False):
        async with memory_toolchain(settings, wanted=wanted, place=tmp_path) as directory:
            assert directory is None


def test_more_than_there_is_room_for_is_refused() -> None:
    """Also where only this process's share of the memory is too small."""
    assert why_not(1 << 60) is not None
    if why_not(1 << 20) is None:
        assert "3 times" in str(why_not(1 << 20, limit_bytes=2 << 20))
