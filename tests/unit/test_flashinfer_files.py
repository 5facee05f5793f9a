"""Trace sets as they lie on disks: flat or nested, with workloads in the same place or another; and what the emulated device runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from grader.formats import flashinfer
from grader.problems.store import import_all

FIXTURES = Path(__file__).parents[1] / "fixtures" / "flashinfer"
NAME = "clipped_sum_w96"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "flat", tmp_path / "trace"))


@pytest.mark.parametrize(
    ("definition", "workloads"),
    [
        (f"{NAME}.json", f"{NAME}.jsonl"),
        (f"reduction/{NAME}.json", f"reduction/{NAME}.jsonl"),
        (f"a/b/c/{NAME}.json", f"a/b/c/{NAME}.jsonl"),
        (f"{NAME}.json", f"reduction/{NAME}.jsonl"),
        (f"reduction/{NAME}.json", f"{NAME}.jsonl"),
        ("short.json", f"other/{NAME}.jsonl"),
    ],
)
def test_a_trace_set_is_flat_or_nested(trace: Path, definition: str, workloads: str) -> None:
    """The same problem each time; solutions are none."""
    before = flashinfer.load(trace / "definitions" / f"{NAME}.json")
    for folder, new, old in (("definitions", definition, f"{NAME}.json"), ("workloads", workloads, f"{NAME}.jsonl")):
        target = trace / folder / new
        target.parent.mkdir(parents=True, exist_ok=True)
        (trace / folder / old).rename(target)
    (found,) = import_all(trace)
    assert found.problem == before and flashinfer.members(trace) == (trace / "definitions" / definition,)


def test_definitions_of_other_things_are_no_trace_set(tmp_path: Path) -> None:
    """Such as JSON schemas. Control: with workloads beside them they are, and the wrong one is named."""
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "schema.json").write_text("{}")
    assert list(import_all(tmp_path)) == [] and not flashinfer.matches(tmp_path / "definitions" / "schema.json")
    (tmp_path / "workloads").mkdir()
    (found,) = import_all(tmp_path)
    assert "schema.json:1: name: Field required" in f"{found.path.name}:1: {found.reason}" or "name: Field required" in found.reason


def test_the_emulated_device_runs_what_is_small(trace: Path) -> None:
    """A GPU runs all; the import says so, and the digest tells it."""
    (found,) = import_all(trace)
    assert found.problem is not None
    kinds = {one.workload_id: one.device_kind for one in found.problem.spec.workloads}
    assert kinds == {"rows-7": "", "rows-130": "", "rows-1000000": "cuda"}
    assert found.warnings == ("the emulated device runs 2 of its 3 sizes, a GPU all of them",)


def test_a_problem_without_a_small_size_says_what_can_grade_it(trace: Path) -> None:
    """One size that is large but possible is kept; one that is not, is not."""
    path = trace / "workloads" / f"{NAME}.jsonl"
    row = json.loads(path.read_text().splitlines()[1])
    (found,) = written(path, row, rows=1 << 20, trace=trace)
    assert [one.device_kind for one in found.problem.spec.workloads] == [""] and found.warnings == ()
    (found,) = written(path, row, rows=1 << 23, trace=trace)
    assert [one.device_kind for one in found.problem.spec.workloads] == ["cuda"]
    assert found.warnings == ("all its sizes are too large for the emulated device: only a GPU can grade it",)


def written(path: Path, row: dict, *, rows: int, trace: Path) -> list:
    row["workload"]["axes"]["rows"] = rows
    path.write_text(json.dumps(row) + "\n")
    return list(import_all(trace))
