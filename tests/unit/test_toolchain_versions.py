"""Whether two hosts build the same: by what they have, and not by when it was installed."""

import os
import shutil
from pathlib import Path

import pytest

from grader.isolation import fingerprint as module
from grader.isolation.fingerprint import toolchain_versions
from grader.isolation.toolchain import BindMount


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small side of a box in the place of our own."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.py").write_text("x = 1")
    (tmp_path / "b.py").write_text("y = 1")
    binds = (BindMount(source=tmp_path / "one", target="/lib/one"), BindMount(source=tmp_path / "b.py", target="/lib/b.py"))
    monkeypatch.setattr(module, "library_binds", lambda: binds)
    return tmp_path


def test_it_stays_where_only_times_differ(library: Path) -> None:
    """Two hosts have the same packages from different days; bytecode does not count."""
    before = toolchain_versions()
    os.utime(library / "b.py", (1, 1))
    (library / "one" / "__pycache__").mkdir()
    (library / "one" / "__pycache__" / "a.pyc").write_text("")
    assert toolchain_versions() == before


@pytest.mark.parametrize("changed", ["content", "name", "a file more", "a compiler", "a package", "the prefix"])
def test_it_changes_with_what_builds(library: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    before = toolchain_versions()
    match changed:
        case "content":
            (library / "b.py").write_text("y = 2")
        case "name":
            (library / "one" / "a.py").rename(library / "one" / "c.py")
        case "a file more":
            (library / "one" / "c.py").write_text("")
        case "a compiler":
            fake = library / "g++"
            fake.write_text("#!/bin/sh\necho g++ 99")
            fake.chmod(0o755)
            monkeypatch.setattr(shutil, "which", lambda *_, **__: str(fake))
        case "a package":
            monkeypatch.setattr(module, "_version", lambda _: "99")
        case "the prefix":
            monkeypatch.setattr(module.sys, "prefix", "/elsewhere")
    assert toolchain_versions() != before


def test_a_compiler_that_is_not_there_counts_too(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a package does."""
    before = toolchain_versions()
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert toolchain_versions() != before and module._version("no-such-package") == "none"
