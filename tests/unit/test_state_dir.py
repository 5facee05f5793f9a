"""A state directory in which nothing can be kept is refused in words, before anything else is done."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from grader.config import LEDGER_NAME
from grader.errors import SettingsInvalid
from grader.ledger.sqlite import SqliteDatabase
from grader.state_dir import state_lock, writable_directory


def _unusable(tmp_path: Path, name: str) -> Path:
    """A directory that can't be made, or in which no file can be, not even by root."""
    (tmp_path / "file").touch()
    return {"below a file": tmp_path / "file" / "s", "a file": tmp_path / "file", "no file in it": Path("/proc/self")}[name]


def _opened(directory: Path, resource: str) -> AbstractAsyncContextManager[object]:
    return state_lock(directory) if resource == "lock" else SqliteDatabase.open(directory / LEDGER_NAME)


@pytest.mark.parametrize("name", ["below a file", "a file", "no file in it"])
@pytest.mark.parametrize("resource", ["lock", "ledger"])
async def test_where_nothing_can_be_kept_is_named(tmp_path: Path, resource: str, name: str) -> None:
    directory = _unusable(tmp_path, name)
    with pytest.raises(SettingsInvalid, match="--state-dir") as refused:
        async with _opened(directory, resource):
            pass
    assert refused.value.setting == "state_dir" and str(directory) in str(refused.value)


def test_a_directory_that_may_only_be_read_is_refused(tmp_path: Path) -> None:
    """Even where the files in it may be written: SQLite makes more."""
    (tmp_path / "s").mkdir(mode=0o555)
    if os.access(tmp_path / "s", os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(SettingsInvalid, match="Permission denied; let this user write there"), writable_directory(tmp_path / "s"):
        pass
