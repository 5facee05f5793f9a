"""The page that `grader-cli init --skill` writes."""

import re
import shlex

import pytest
import yaml

from grader_extensions.authoring.commands import SKILL_PAGE, SKILL_PATHS
from tests.unit.test_cli_commands import run

PAGE = SKILL_PAGE.read_text()
COMMANDS = re.findall(r"grader-cli [a-z][^`\n]*", PAGE)


def test_it_is_written_where_agents_look_and_not_over_another(tmp_path, monkeypatch):
    """With what a skill begins with."""
    monkeypatch.chdir(tmp_path)
    assert run("init", "--skill").exit_code == 0
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md")} == set(SKILL_PATHS)
    for path in map(tmp_path.joinpath, SKILL_PATHS):
        _, head, _ = path.read_text().split("---\n", 2)
        fields = yaml.safe_load(head)
        assert fields.keys() == {"name", "description"} and fields["name"] == path.parent.name and len(fields["description"]) < 1024
        path.write_text("mine")
    again = run("init", "--skill")
    assert again.exit_code == 2 and "remove it" in again.stderr and {path.read_text() for path in tmp_path.rglob("*.md")} == {"mine"}
    for words in ((), ("sum", "--skill")):
        assert run("init", *words).exit_code == 2


@pytest.mark.parametrize("line", [*COMMANDS, "grader-cli nothing", "grader-cli list --nothing"])
def test_its_commands_exist_with_their_options(line):
    """The controls are two that do not."""
    words = shlex.split(line, comments=True)[1:]
    command = words[: 2 if words[0] == "problems" else 1]
    help_text = run(*command, "--help")
    exists = help_text.exit_code == 0 and all(word in help_text.output for word in words if word.startswith("--"))
    assert exists == ("nothing" not in line), help_text.output


def test_it_has_all_commands_and_tools():
    """Those that an author of kernels needs."""
    assert {line.split()[1] for line in COMMANDS} == {"problems", "init", "submit", "show", "list", "login", "mcp"}
    assert all(f"`{tool}`" in PAGE for tool in ("list_problems", "get_problem", "submit", "explain", "profile"))
