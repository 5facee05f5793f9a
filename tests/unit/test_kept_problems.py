"""Problems imported while a store is in use are found by it; a damaged file takes nothing else with it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from grader.errors import ProblemNotFound
from grader.model import Problem
from grader.problems.store import Problems, keep
from tests import fakes


def problem(problem_id: str = "sum", title: str = "A sum") -> Problem:
    template = fakes.problem(problem_id)
    return replace(template, title=title, spec=replace(template.spec, digest=f"{problem_id}-{title}"))


def ids(store: Problems) -> list[str]:
    return [entry.problem_id for entry in store.all()]


def test_an_import_is_found_replaced_and_removed_while_the_store_is_in_use(tmp_path: Path) -> None:
    """Also when the directory does not exist yet, and when two changes fall into one tick of the file system's clock."""
    store = Problems.load([], tmp_path / "problems")
    assert ids(store) == []
    for title in map(str, range(5)):
        keep(problem("one", title), tmp_path / "problems")
        assert store.get("one").title == title
    keep(problem("two"), tmp_path / "problems")
    assert ids(store) == ["one", "two"]
    (tmp_path / "problems" / "one.json").unlink()
    assert ids(store) == ["two"]


def test_a_change_is_seen_where_the_clock_of_the_directory_stands_still(tmp_path: Path) -> None:
    """Control: of a directory that has not changed for long, the files are not looked at again."""
    keep(problem("one", "old"), tmp_path)
    store = Problems.load([], tmp_path)
    assert store.get("one").title == "old"
    before = tmp_path.stat().st_mtime_ns
    keep(problem("one", "new"), tmp_path)
    os.utime(tmp_path, ns=(before, before))
    assert store.get("one").title == "new"
    long_ago = before - 10**12
    os.utime(tmp_path, ns=(long_ago, long_ago))
    assert store.get("one").title == "new"
    keep(problem("one", "newer"), tmp_path)
    os.utime(tmp_path, ns=(long_ago, long_ago))
    assert store.get("one").title == "new"


def test_a_damaged_file_is_logged_once_and_the_others_are_served(tmp_path: Path) -> None:
    """Also at the start; its problem is asked for by name, and the answer says what to do. When it is whole again it is there."""
    keep(problem("one"), tmp_path)
    (tmp_path / ".kb_x.json.1").write_text("{")
    (tmp_path / "kb_x.json").write_text('{"problem_id": 3}')
    with capture_logs() as logged:
        store = Problems.load([], tmp_path)
        assert ids(store) == ids(store) == ["one"]
    assert [event["path"] for event in logged] == [str(tmp_path / "kb_x.json")]
    with pytest.raises(ProblemNotFound, match="'kb_x' can't be read: what was imported is damaged, or of another version; import it again"):
        store.get("kb_x")
    keep(problem("kb_x"), tmp_path)
    assert store.get("kb_x")


def test_a_file_that_is_being_overwritten_keeps_its_problem(tmp_path: Path) -> None:
    keep(problem("one", "old"), tmp_path)
    store = Problems.load([], tmp_path)
    whole = (tmp_path / "one.json").read_text()
    assert store.get("one").title == "old"
    (tmp_path / "one.json").write_text(whole[:100])
    (tmp_path / "other.json").write_text("")
    with capture_logs() as logged:
        assert store.get("one").title == "old"
    assert [Path(event["path"]).name for event in logged] == ["one.json", "other.json"]
    (tmp_path / "one.json").write_text(whole.replace("old", "new"))
    assert store.get("one").title == "new"


def test_an_import_changes_no_problem_of_a_directory(tmp_path: Path) -> None:
    fakes.write_problem(tmp_path / "named")
    store = Problems.load([tmp_path / "named"], tmp_path / "imported")
    before = store.get("sum")
    keep(problem("sum"), tmp_path / "imported")
    assert store.get("sum") == before and len(store.all()) == 1
