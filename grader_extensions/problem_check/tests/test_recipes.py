"""The check admits what `grader-cli problems new` writes."""

import pytest

from grader.formats import native
from grader_extensions.authoring.recipes import RECIPES
from tests.collection import AFTER_COLLECTION
from tests.unit.test_cli_commands import run

if AFTER_COLLECTION:
    from grader_extensions.problem_check.judge.examination import narrow_columns


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_admitted(cli, tmp_path, monkeypatch, recipe):
    """Without a warning, also on outputs that are wider on a GPU. Sizes for a GPU take minutes here, and are left out."""
    monkeypatch.chdir(tmp_path)
    assert run("problems", "new", "mine", "--like", recipe).exit_code == 0
    assert [*narrow_columns(native.load(tmp_path / "mine").spec)] == []
    toml = tmp_path / "mine" / "problem.toml"
    toml.write_text("\n".join(line for line in toml.read_text().splitlines() if 'device = "cuda"' not in line))
    ended = cli("problems", "check", tmp_path / "mine", "--trusted", "--budget", "120", "--json")
    assert ended.code == 0 and [problem["outcome"] for problem in ended.json["problems"]] == ["admitted"], ended.stdout + ended.stderr
