"""`problems import` of data sets on disk: a row is a problem, and one that is none is named by its number."""

import json

import pytest

from grader.errors import ProblemInvalid
from grader.problems.store import Problems
from grader_extensions.formats.data_sets import unpacked
from grader_extensions.formats.problem_sets import import_all
from grader_extensions.formats.tests.test_kernelbench_import import GOOD, run
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:  # it imports numpy
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

ROWS = [
    {"code": GOOD.format(size=1), "level": 1, "name": "1_Square_", "problem_id": 1},
    {"code": GOOD.format(size=2), "level": 1, "name": "../../etc/passwd", "problem_id": 2},
    {"code": "not a problem(", "level": 1, "name": "3_bad", "problem_id": 3},
    {"code": None, "level": 2, "name": "4_none", "problem_id": 4},
    {"code": GOOD.format(size=5).replace("class Model", "class Moodel"), "level": 2, "name": "5_typo", "problem_id": 5},
    {"code": GOOD.format(size=6), "level": 2, "name": None, "problem_id": None},
]
BOOK = """import torch


class AddScale(torch.nn.Module):
    def __init__(self, scale=2.0):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return x * self.scale + x


def get_inputs():
    return [torch.rand(4, 4)]


def get_init_inputs():
    return [[], {"scale": 3.0}]
"""


def save(directory, rows, shards=1):
    """As `datasets.save_to_disk` of 4.8.5 does: Arrow's stream format, a state with the files, and a cache that is none of them."""
    directory.mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    names = [f"data-{number:05}-of-{shards:05}.arrow" for number in range(shards)]
    for number, name in enumerate([*names, "cache-1f.arrow"]):
        part = table.slice(number * len(rows) // shards, len(rows) // shards)
        with pa.OSFile(str(directory / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(part if name in names else table)
    (directory / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names], "_split": None}))
    (directory / "dataset_info.json").write_text("{}")


def imported(path, state):
    """Return the command's answer for each row, by its path below the data set, and the problems that were stored."""
    ended = run("import", path, "--no-check", "--json", "--state-dir", state)
    data = json.loads(ended.stdout)
    assert ended.exit_code == (0 if data["imported"] else 2), ended.output
    top = path if path.is_dir() else path.parent
    there = {
        entry["path"].removeprefix(f"{top}/"): entry.get("reason", entry.get("problem")) for entry in data["refused"] + data["imported"]
    }
    return there, {problem.problem_id for problem in Problems.load([], state / "problems").all()}


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))


@pytest.mark.parametrize("layout", ["saved", "splits", "parquet", "jsonl"])
def test_every_layout_has_the_same_problems(tmp_path, layout):
    """Rows count over the shards of a split. Names of a row lead nowhere else."""
    path, table = tmp_path / "set", ""
    if layout == "saved":
        save(path, ROWS, shards=3)
    elif layout == "splits":
        save(path / "level_1", ROWS)
        table = "level_1/"
    elif layout == "parquet":
        (path / "data").mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(ROWS), path / "data" / "train.parquet")
        table = "data/train.parquet/"
    else:
        path, table = tmp_path / "rows.jsonl", "rows.jsonl/"
        write_lines(path, ROWS)
    there, stored = imported(path, tmp_path / "state")
    assert {name.removeprefix(table): text for name, text in there.items() if "kb_" in text} == {
        "row_0/level_1/1_Square.py": "kb_1_square",
        "row_1/level_1/2_etc_passwd.py": "kb_2_etc_passwd",
        "row_5/level_2/row_5.py": "kb_row_5",
    }
    refused = {name.removeprefix(table)[:5]: text for name, text in there.items() if "kb_" not in text}
    assert refused.keys() == {"row_2", "row_3", "row_4"} and "no text in a column code" in refused["row_3"]
    assert "its code is not a Python file with Model" in refused["row_2"] and "has no class Model" in refused["row_4"]
    assert stored == {"kb_1_square", "kb_2_etc_passwd", "kb_row_5"}


def test_a_directory_with_problems_is_no_data_set(tmp_path):
    """Whatever tables lie in it."""
    (tmp_path / "set").mkdir()
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "set" / "x.parquet")
    (tmp_path / "set" / "9_own.py").write_text(GOOD.format(size=9))
    assert imported(tmp_path / "set", tmp_path / "state") == ({"9_own.py": "kb_9_own"}, {"kb_9_own"})


def test_a_line_that_is_no_json_stops_nothing(tmp_path):
    lines = [json.dumps(ROWS[0]), "{bad", "[1]", "[" * 100_000, json.dumps({"code": "\ud800"}), "\x00", json.dumps(ROWS[1])]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    there, stored = imported(tmp_path / "x.jsonl", tmp_path / "state")
    assert sum(text.startswith("is no problem: ") for text in there.values()) == 5 and len(stored) == 2


def test_a_class_of_kernelbook_becomes_the_model(tmp_path):
    """Its get_init_inputs returns [arguments, options]."""
    write_lines(tmp_path / "book.jsonl", [{"python_code": BOOK, "entry_point": "AddScale", "uuid": 7, "triton_code": "x"}])
    with unpacked(tmp_path / "book.jsonl") as (directory, refused):
        (entry,) = import_all(directory)
        assert not refused and entry.problem.problem_id == "kb_7_addscale"
        scope = {}
        exec(entry.problem.spec.reference, scope)
    assert scope["Model"](*scope["get_init_inputs"]()).scale == 3.0


def test_a_row_that_is_refused_leaves_no_file(tmp_path):
    """Also a row of KernelBook whose class is not in its code, or only in a text there. The control is the one with it."""
    codes = [
        "x = 1",
        "x = (",
        "'''\nclass A(B):\n'''",
        "class B:\n    class A:\n        pass",
        "class A:\n    '\ud800'",
        "class A:\n    pass",
    ]
    write_lines(tmp_path / "book.jsonl", [{"python_code": code, "entry_point": "A"} for code in [*codes, f"{GOOD}\ud800"]])
    with unpacked(tmp_path / "book.jsonl") as (directory, refused):
        rows = {entry.path.name: entry.reason for entry in refused}
        assert [file.parts[-3] for file in directory.rglob("*") if file.is_file()] == ["row_5"]
    assert rows.keys() == {f"row_{number}" for number in (0, 1, 2, 3, 4, 6)} and "no class A, which" in rows["row_0"]


@pytest.mark.parametrize("name", ["broken.parquet", "broken.arrow"])
def test_a_file_that_is_none_says_so(tmp_path, name):
    (tmp_path / name).write_bytes(b"PAR1 and nothing else")
    there, _ = imported(tmp_path / name, tmp_path / "state")
    assert there[name].startswith("can't be read: ")


def test_a_table_without_code_names_its_columns(tmp_path):
    parquet.write_table(pa.Table.from_pylist([{"prompt": "x", "answer": "y"}]), tmp_path / "x.parquet")
    there, _ = imported(tmp_path / "x.parquet", tmp_path / "state")
    assert there == {"x.parquet": "can't be read: it has no column code or python_code, but: prompt, answer"}


@pytest.mark.parametrize("state", ["{}", "[]", "{", '{"_data_files": [{"filename": 3}]}'])
def test_a_state_that_datasets_did_not_write_is_an_error(tmp_path, state):
    save(tmp_path / "set", ROWS)
    (tmp_path / "set" / "state.json").write_text(state)
    with pytest.raises(ProblemInvalid, match=r"state\.json"), unpacked(tmp_path / "set"):
        pass


def test_files_of_a_state_lie_beside_it(tmp_path):
    """A state that names others is not followed."""
    save(tmp_path / "elsewhere", ROWS)
    save(tmp_path / "set", ROWS)
    (tmp_path / "set" / "data-00000-of-00001.arrow").unlink()
    (tmp_path / "set" / "state.json").write_text('{"_data_files": [{"filename": "../elsewhere/data-00000-of-00001.arrow"}]}')
    there, stored = imported(tmp_path / "set", tmp_path / "state")
    assert not stored and next(iter(there.values())).startswith("can't be read: ")
