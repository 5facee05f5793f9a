"""`grader-cli problems new` writes a problem from a recipe; that the check admits each is tested next to the check."""

import tomllib
from pathlib import Path

import pytest

from grader.formats import native
from grader_extensions.authoring.recipes import RECIPES
from tests.unit.test_cli_commands import run


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_a_problem(here, recipe):
    """With a hidden workload, and sizes for a GPU."""
    ended = run("problems", "new", "mine", "--like", recipe)
    assert ended.exit_code == 0 and "grader-cli problems check mine" in " ".join(ended.stderr.split())
    problem = native.load(here / "mine")
    assert problem.problem_id == "mine" and "NAME" not in (here / "mine" / "problem.toml").read_text()
    assert any(workload.hidden for workload in problem.spec.workloads) and any(workload.device_kind for workload in problem.spec.workloads)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("Mine",), "'Mine' is not a problem's name"),
        (("../mine",), "'../mine' is not a problem's name"),
        (("mine", "--like", "topk"), "take one of: plain, top-k, scatter"),
        (("there",), "'there' is there already; remove it, or take another name"),
    ],
)
def test_what_can_not_be_written_says_why(here, words, message):
    """Nothing is overwritten."""
    Path("there").mkdir()
    ended = run("problems", "new", *words)
    assert ended.exit_code == 2 and message in " ".join(ended.stderr.split()) and [path.name for path in here.iterdir()] == ["there"]


def test_the_document_lists_the_recipes():
    """Each with what it shows, in their order."""
    text = (Path(__file__).parents[3] / "docs" / "problems.md").read_text()
    rows = [line.split("|")[1].strip(" `") for line in text.partition("## Recipes")[2].partition("\n## ")[0].splitlines() if "| `" in line]
    assert rows == list(RECIPES) and all(tomllib.loads(recipe["problem"])["name"] == "NAME" for recipe in RECIPES.values())
