"""The toolchain's copy in memory: complete, of the same times, removed at the end and after a server that died."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from grader.isolation import IsolationBroken
from grader.isolation import memory_toolchain as module
from grader.isolation.memory_toolchain import PREFIX, MemoryToolchainUnavailable, copy, memory_toolchain, sweep, why_not
from grader.isolation.settings import BoxSettings
from grader.isolation.toolchain import BindMount, Toolchain, host_toolchain, mirrored


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A toolchain with a file, a link, a program that is setuid, a directory that is hidden."""
    root = tmp_path / "tree"
    (root / "bin").mkdir(parents=True)
    (root / "secret").mkdir()
    (root / "secret" / "reference.py").write_text("answer = 42")
    (root / "bin" / "tool").write_bytes(os.urandom(300_000))
    (root / "bin" / "tool").chmod(0o4755)
    os.utime(root / "bin" / "tool", ns=(10**18, 10**18 + 123))
    (root / "bin" / "alias").symlink_to("tool")
    return root


def parts(root: Path) -> list[module.ToolchainPart]:
    toolchain = Toolchain(
        python="",
        path="",
        binds=(BindMount(source=root, target="/t", shared=True), BindMount(source=root / "bin", target="/b", shared=True)),
        hidden=(),
        hidden_sources=(str(root / "secret"),),
    )
    return list(module._parts(toolchain))


def test_a_copy_has_every_file_with_its_bytes_time_and_link(tree: Path, tmp_path: Path) -> None:
    """Nothing is setuid in it, and of what is hidden there is an empty directory to cover."""
    copy(parts(tree), tmp_path / "copy")
    there = mirrored(tmp_path / "copy", tree)
    assert (there / "bin" / "tool").read_bytes() == (tree / "bin" / "tool").read_bytes()
    facts = (there / "bin" / "tool").stat()
    assert (facts.st_mtime_ns, facts.st_mode & 0o7777) == (10**18 + 123, 0o755)
    assert os.readlink(there / "bin" / "alias") == "tool"
    assert list((there / "secret").iterdir()) == []


def test_a_toolchain_names_no_copy_that_is_not_whole(tmp_path: Path) -> None:
    """A directory that is missing in the copy is an error, and no file on disk in its place."""
    with pytest.raises(IsolationBroken, match="lacks"):
        host_toolchain(tmp_path / "etc", (), tmp_path / "copy")


def test_a_dead_servers_copy_is_removed_and_a_live_ones_is_not(tmp_path: Path) -> None:
    dead, live = tmp_path / f"{PREFIX}a-1", tmp_path / f"{PREFIX}a-2"
    for directory in (dead, live):
        (directory / "usr").mkdir(parents=True)
    held = os.open(live, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    assert sweep(tmp_path) == 1
    assert not dead.exists() and (live / "usr").exists()
    os.close(held)
    assert sweep(tmp_path) == 1


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
    assert why_not(1 << 60) is not None
