"""The commands of organisers, and `withdraw`, against a server whose grading is a fake: what they print, and how they end."""

import csv
import io
import json
import zipfile

import pytest

from grader.cli.organizer_commands import describe_changes
from grader.v1 import competition_pb2
from tests.unit.test_cli_competitions import address, run  # noqa: F401  # the fixture

CHANGE = competition_pb2.CompetitionChange
CHANGED, REMOVED = competition_pb2.COMPETITION_CHANGE_KIND_CHANGED, competition_pb2.COMPETITION_CHANGE_KIND_REMOVED


@pytest.fixture
def at(address):  # noqa: F811
    """Where the server is; every command's last words."""
    return "--server", address[1]


@pytest.fixture(scope="module")
def entry(address):  # noqa: F811
    """The name of a ranked submission to the competition."""
    root, server = address
    words = ("submit", str(root / "kernel.cu"), "--problem", "sum", "--competition", "spring", "--server", server, "--json")
    return json.loads(run(*words).stdout)["name"]


def test_withdraw_takes_a_submission_off_the_board_and_undo_puts_it_back(at, entry, tmp_path):
    """By a short id as every command; `show`, `list`, `leaderboard` and `export` follow."""
    short = entry.rpartition("/")[2][:8]
    assert run("withdraw", short, "--reason", "a slip", *at).stdout.startswith(f"{entry}: withdrawn at 20")
    assert "a slip; it is on no board" in " ".join(run("show", short, *at).stdout.split())
    listed = run("list", *at).stdout
    assert "withdrawn" in listed.splitlines()[0] and "no entries yet" in run("leaderboard", "spring", *at).stdout
    archive = tmp_path / "spring.zip"
    assert run("competitions", "export", "spring", "--out", str(archive), *at).exit_code == 0
    with zipfile.ZipFile(archive) as file:
        table = list(csv.DictReader(io.StringIO(file.read("spring/submissions.csv").decode())))
    assert {one["submission"]: one["withdrawn"][-8:] for one in table}[entry.rpartition("/")[2]] == ": a slip"
    data = json.loads(run("withdraw", short, "--json", "--reason", "a slip", *at).stdout)
    assert data["withdrawal"]["reason"] == "a slip"
    assert run("withdraw", short, "--undo", *at).stdout == f"{entry}: counts on the boards\n"
    assert "no entries yet" not in run("leaderboard", "spring", *at).stdout and "withdrawn" not in run("list", *at).stdout


def test_a_submission_to_no_competition_is_not_withdrawn(at, address):  # noqa: F811
    made = json.loads(run("submit", str(address[0] / "kernel.cu"), "--problem", "sum", "--mode", "test", *at, "--json").stdout)
    found = run("withdraw", made["name"], *at)
    assert found.exit_code == 2 and "it is in no competition, so it is on no board" in found.output


def test_bans_are_made_listed_and_lifted(at):
    """A name that has submitted nothing may be a slip, so it is said."""
    made = run("competitions", "ban", "spring", "mallory", "--reason", "copied a kernel", *at).stdout
    assert "mallory is banned from competitions/spring, and has submitted nothing there; check the name" in made
    listed = run("competitions", "ban", "spring", *at).stdout
    assert "mallory" in listed and "copied a kernel" in listed
    assert json.loads(run("competitions", "ban", "competitions/spring", "--json", *at).stdout)["bans"][0]["user"] == "mallory"
    assert "may take part in competitions/spring again" in run("competitions", "ban", "spring", "mallory", "--lift", *at).stdout
    assert "is not banned from" in run("competitions", "ban", "spring", "mallory", "--lift", *at).stdout
    assert run("competitions", "ban", "spring", *at).stdout == "no user is banned from it\n"
    assert run("competitions", "ban", "spring", "mallory", *at).exit_code == 2  # without a reason


def test_reload_prints_what_has_changed(at, address):  # noqa: F811
    """Of a broken file the place and that nothing was changed."""
    file = address[0] / "competition.toml"
    before = file.read_text()
    assert run("competitions", "reload", *at).stdout == "nothing has changed\n"
    file.write_text(before.replace("Spring sprint", "Sprint"))
    assert run("competitions", "reload", *at).stdout == "competitions/spring: changed\n  title: Spring sprint -> Sprint\n"
    file.write_text(before.replace("daily_limit", "daily_limits"))
    broken = run("competitions", "reload", *at)
    assert broken.exit_code == 2 and "the competitions stay as they are" in broken.output and "did you mean" in broken.output.lower()
    file.write_text(before)
    assert run("competitions", "reload", *at).exit_code == 0


def test_changes_of_secrets_and_removals_are_named_without_values():
    keys = [competition_pb2.CompetitionKeyChange(key="secret_seed")]
    found = describe_changes(
        [CHANGE(competition="competitions/a", kind=CHANGED, keys=keys), CHANGE(competition="competitions/b", kind=REMOVED)]
    )
    assert found == ["competitions/a: changed", "  secret_seed: changed", "competitions/b: removed"]
