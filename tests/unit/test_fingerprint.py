"""Changes of a toolchain that change its fingerprint, and when they are noticed."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.isolation import IsolationBroken
from grader.isolation.fingerprint import HostFingerprint, ToolchainScan, take_host

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "include"
    (root / "sub").mkdir(parents=True)
    (root / "a.h").write_text("one")
    (root / "sub" / "b.h").write_text("two")
    (root / "link.h").symlink_to("a.h")
    for path in (root / "a.h", root / "sub" / "b.h"):
        os.utime(path, (1, 1))
    return root


def of_tree(root: Path) -> str:
    walk = ToolchainScan()
    walk.take_tree(str(root))
    return walk.digest()


def retarget(root: Path) -> None:
    (root / "link.h").unlink()
    (root / "link.h").symlink_to("sub/b.h")


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "sub" / "c.h").touch(),
        lambda root: (root / "a.h").unlink(),
        lambda root: (root / "a.h").rename(root / "z.h"),
        lambda root: os.utime(root / "sub" / "b.h", (1, 2)),
        lambda root: (root / "sub" / "b.h").write_text("longer") and os.utime(root / "sub" / "b.h", (1, 1)),
        retarget,
    ],
    ids=["added", "removed", "renamed", "touched", "grown", "retargeted"],
)
def test_a_changed_tree_is_another(tree: Path, change: Callable[[Path], object]) -> None:
    """And an unchanged one is the same; what Python writes beside its modules does not count."""
    before = of_tree(tree)
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__" / "a.pyc").touch()
    assert of_tree(tree) == before
    change(tree)
    assert of_tree(tree) != before


def own_digest(root: Path) -> str:
    walk = ToolchainScan()
    walk.take_own(root, "{lib}/sandbox")
    return walk.digest()


def test_our_own_files_count_by_content(tmp_path: Path) -> None:
    """Size and time are no proof for what decides how a source is rewritten, and a second clone is no change."""
    digests = []
    for number, text in enumerate(("one", "two", "two")):
        clone = tmp_path / str(number)
        clone.mkdir()
        (clone / "a.h").write_text(text)
        os.utime(clone / "a.h", (1, number))
        digests.append(own_digest(clone))
    assert digests[0] != digests[1] == digests[2]


async def test_it_is_walked_again_only_after_a_change(tree: Path) -> None:
    """A look at directories and programs tells; a missing program that comes is a change too."""
    compiler = tree.parent / "g++"
    walks = []

    def take(walk: ToolchainScan) -> None:
        walks.append(walk)
        walk.take_tree(str(tree))
        walk.take_file(compiler)

    fingerprint = HostFingerprint(take)
    first = await fingerprint.current()
    assert await fingerprint.current(fresh=True) == first and len(walks) == 1
    (tree / "sub" / "c.h").touch()
    second = await fingerprint.current(fresh=True)
    compiler.touch()
    third = await fingerprint.current(fresh=True)
    assert len({first, second, third}) == 3 and len(walks) == 3


async def test_it_is_looked_at_once_a_second(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless asked for as of now. The control: after the second."""
    fingerprint = HostFingerprint(lambda scan: scan.take_tree(str(tree)))
    first = await fingerprint.current()
    (tree / "sub" / "c.h").touch()
    assert await fingerprint.current() == first
    monkeypatch.setattr("grader.isolation.fingerprint.FRESH_S", 0.0)
    assert await fingerprint.current() != first


async def test_a_toolchain_that_never_stands_still_is_our_fault() -> None:
    """Nobody's kernel is blamed for an installation that is under way."""

    def take(walk: ToolchainScan) -> None:
        raise FileNotFoundError("just removed")

    with pytest.raises(IsolationBroken, match="installation"):
        await HostFingerprint(take).current()


def test_what_builds_on_this_host_is_looked_at() -> None:
    """The compiler's own programs, the system's and torch's headers, and every file of ours that a box sees."""
    walk = ToolchainScan()
    take_host(walk)
    cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True, timeout=300).stdout.strip()
    assert {"/usr/include", str(Path(cc1plus).resolve().parent)} <= {str(Path(path).resolve()) for path in walk.watched}
    assert any(path.endswith("torch/include") for path in walk.watched)
    ours = [path for name in ("box", "native", "devices") for path in (ROOT / "sandbox" / name).rglob("*") if path.is_file()]
    missing = {str(path) for path in ours if path.suffix != ".pyc"} - set(walk.watched)
    assert not missing and str(ROOT / "sandbox" / "protocol" / "wire.py") in walk.watched
    assert not any("/sandbox/judge" in path for path in walk.watched), "what a box does not see changes no artifact"
