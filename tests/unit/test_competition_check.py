"""`competitions check` names every mistake at once, each with its line, key and remedy; `competitions new` writes a file that passes."""

import random
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer.testing

from grader.cli.commands import app
from grader.errors import ProblemInvalid
from grader.problems.competition_check import check, template
from grader.problems.competition_store import Competitions
from grader.problems.store import Problems
from tests.unit.test_competitions import MISTAKES, TEXT

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "kernels_examples"
SECRET_SIZES = ("70368", "0011")
WRONG = """\
nam = "x"
title = ""
problems = ["vector_ad", "row_softmax"]
start = 2026-05-01T18:00:00
end = "soon"
visiblity = "after_end"
hourly_limit = "10"
processes = 99
baseline = "max-autotune"

[[secret]]
problem = "row_softmax"
axes = { rows = 3 }

[[secret]]
problem = "row_softmax"
axes = { rows = { lo = 3, high = 9 }, cols = -4 }
"""
FOUND = [
    "name: is missing; write lower case letters",
    "1: nam: is not a key here; did you mean 'name'?",
    "2: title: String should have at least 1 character; write one line",
    "3: problems.0: there is no problem 'vector_ad'; take one of: vector_add",
    "3: problems.1: 'row_softmax' is not timed against 'max-autotune'; add it",
    "4: start: 2026-05-01T18:00:00 has no offset from UTC; write",
    "5: end: is not a time; write",
    "6: visiblity: is not a key here; did you mean 'visibility'?",
    "7: hourly_limit: Input should be a valid integer; write it without quotes",
    "8: processes: Input should be less than or equal to 10; write a whole number from 1 to 10",
    "13: secret.0.axes: must give exactly the axes ['cols', 'rows']",
    "17: secret.1.axes.rows.low: is missing; write a whole number",
    "17: secret.1.axes.rows.lo: is not a key here; did you mean 'low'?",
    "17: secret.1.axes.cols: Input should be greater than or equal to 0; write a size, or a range",
    "secret_seed: 'secret_seed' is missing",
]


@pytest.fixture(scope="module")
def problems():
    return Problems.load([EXAMPLES])


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Run a command of `grader-cli competitions` in an empty directory."""
    monkeypatch.chdir(tmp_path)
    state = ("--state-dir", str(tmp_path / "state"), "--problems", str(EXAMPLES))
    return lambda *words: typer.testing.CliRunner().invoke(app, ["competitions", *words, *state])


def test_every_mistake_is_found_at_once(tmp_path, problems):
    """Fifteen of them, none hides another."""
    path = tmp_path / "competition.toml"
    path.write_text(WRONG)
    found = [str(one).removeprefix(f"{path}:").strip() for one in check(path, problems)]
    assert all(any(one.startswith(said) for one in found) for said in FOUND), found
    assert len(found) == len(FOUND)


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_what_a_server_refuses_the_check_finds(tmp_path, problems, old, new, said):
    """In the same words, with a remedy, and without a secret size or the seed."""
    path = tmp_path / "competition.toml"
    path.write_text(TEXT.replace(old, new, 1))
    found = [str(one) for one in check(path, problems)]
    assert any(said in one for one in found), found
    assert all(";" in one or "did you mean" in one or "must give exactly" in one for one in found)
    assert not [word for word in SECRET_SIZES for one in found if word in one]


@pytest.mark.parametrize("data", ["secret = 3", "secret = [3]", "problems = 3", "title = 3\nsecret = []", ""])
def test_a_value_of_another_type_hides_nothing(tmp_path, problems, data):
    """Control: the check ends, and says at least what is missing."""
    path = tmp_path / "competition.toml"
    path.write_text(data)
    assert any("start: is missing" in str(one) for one in check(path, problems))


def test_the_template_passes_for_every_example(tmp_path, problems):
    """All problems in one competition; each with a secret workload where its format has some."""
    path = tmp_path / "competition.toml"
    path.write_text(template("spring", problems.all(), datetime(2026, 5, 1, tzinfo=UTC), "00" * 16, path))
    assert check(path, problems) == []
    (made,) = Competitions.load([path], problems).all()
    assert len(made.secret_workloads) == len(problems.all()) and made.start_time == datetime(2026, 5, 2, 18, tzinfo=UTC)


def test_new_writes_a_private_file_that_check_takes(cli, tmp_path):
    """With a seed of its own each time; what is there is not overwritten."""
    assert cli("new", "spring", "--problem", "vector_add").exit_code == 0
    file = tmp_path / "spring" / "competition.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    checked = cli("check", "spring")
    assert checked.exit_code == 0 and "ok: spring, problems: vector_add, secret workloads: 1" in checked.output
    assert cli("new", "autumn", "--problem", "vector_add").exit_code == 0
    seeds = [
        line for name in ("spring", "autumn") for line in (tmp_path / name / file.name).read_text().splitlines() if "secret_seed" in line
    ]
    assert len(set(seeds)) == 2
    again = cli("new", "spring")
    assert again.exit_code == 2 and "is there already" in again.output
    assert "is not a name" in cli("new", "Spring!").output
    assert "there is no problem 'vector_ad'" in cli("new", "winter", "--problem", "vector_ad").output


VALUES = ("3", '"x"', "[3]", "[]", "{ a = 1 }", "true", "-1", '"cuda"', '["a", "a"]', "2026-01-01", "{ low = 3 }", "[{}]", '""', "9" * 20)


def test_the_check_and_a_server_agree_on_spoiled_files(tmp_path, problems):
    """Lines of a right file are left out, doubled, or given other values: there is a mistake if and only if loading fails."""
    draw, path, refused = random.Random(1), tmp_path / "competition.toml", 0
    for _ in range(300):
        lines = TEXT.splitlines()
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(lines))
            key = re.match(r"(\s*[\w.]+\s*=)", lines[place])
            if draw.random() < 0.2:
                del lines[place]
            elif draw.random() < 0.1:
                lines.insert(place, lines[place])
            else:
                lines[place] = f"{key[1]} {draw.choice(VALUES)}" if key else draw.choice(("[secret]", "[[secret]]", "[x]", ""))
        path.write_text("\n".join(lines))
        try:
            Competitions.load([path], problems)
            loads = True
        except ProblemInvalid:
            loads = False
        found = [str(one) for one in check(path, problems)]
        assert loads is (not found), "\n".join([*lines, *found])
        assert not [word for word in SECRET_SIZES for one in found if word in one]
        refused += not loads
    assert 100 < refused < 300, "the control: some load, some do not"
