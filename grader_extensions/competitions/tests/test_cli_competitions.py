"""`grader-cli competitions`, `withdraw`, and submitting to one, against a server whose grading is a fake."""

import csv
import io
import json
import zipfile
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from rich.console import Console
from typer.testing import CliRunner

from grader.cli.exits import UsageError
from grader.cli.main import app
from grader.cli.progress import PlainLines
from grader.v1 import competition_pb2, rejudge_pb2, report_pb2, submission_pb2
from grader_extensions.competitions.cli.competitions import describe_changes
from grader_extensions.competitions.cli.rejudge import ask_before_end, render, request_id
from tests import fakes
from tests.threaded_server import embedded_server

TOML = """
name = "spring"
title = "Spring sprint"
problems = ["sum"]
devices = ["emulated"]
start = {start}
end = {end}
daily_limit = 2
secret_seed = "00112233445566778899aabbccddeeff"
[[secret]]
problem = "sum"
axes = {{ n = 987654 }}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The directory and the address of a server in a thread of its own: the commands run an event loop themselves."""
    root = tmp_path_factory.mktemp("served")
    times = {name: (datetime.now(UTC) + timedelta(hours=hours)).isoformat() for name, hours in (("start", -1), ("end", 1))}
    (root / "competition.toml").write_text(TOML.format(**times))
    (root / "kernel.cu").write_text(fakes.source("accept"))
    with embedded_server(root, competitions=(root,)) as server_address:
        yield root, server_address


def run(*words):
    return CliRunner().invoke(app, list(words))


def submit(address, *words):
    root, server = address
    return run("submit", str(root / "kernel.cu"), "--problem", "sum", "--competition", "spring", "--server", server, "--json", *words)


@pytest.fixture(scope="module")
def entry(address):
    """A submission to the competition in the mode that counts, the first of two a day."""
    return json.loads(submit(address).stdout)


def test_competitions_are_listed_and_shown(address):
    """To people in words and to programs as JSON; of what is secret the count."""
    _, at = address
    listed, shown = run("competitions", "list", "--server", at), run("competitions", "show", "spring", "--server", at)
    assert "Spring sprint" in listed.stdout and "open" in listed.stdout
    for text in ("spring: Spring sprint (open)", "speedup over eager", "at most 2 in a day each", "mode ranked, 3 processes each"):
        assert text in shown.stdout
    data = json.loads(run("competitions", "show", "competitions/spring", "--server", at, "--json").stdout)
    assert data["secret_workload_counts"] == {"sum": 1} and data["state"] == "COMPETITION_STATE_OPEN"
    names = [entry["name"] for entry in json.loads(run("competitions", "list", "--server", at, "--json").stdout)["competitions"]]
    assert names == ["competitions/spring"]
    assert "987654" not in listed.stdout + shown.stdout + str(data)


def test_submitting_to_a_competition_is_ranked_unless_an_option_says_otherwise(address, entry):
    """The third of two a day is refused, and not as misuse."""
    tested, third = submit(address, "--mode", "test"), submit(address)
    assert [entry["mode"], json.loads(tested.stdout)["mode"]] == ["MODE_RANKED", "MODE_TEST"]
    assert entry["competition"] == "competitions/spring" and "987654" not in str(entry)
    assert third.exit_code == 3 and "the quota of 2 submissions in a day is spent" in third.output


def test_a_competition_needs_a_server(tmp_path):
    """A command's own server has none."""
    (tmp_path / "kernel.cu").write_text(fakes.source("accept"))
    result = run("submit", str(tmp_path / "kernel.cu"), "--problem", "sum", "--competition", "spring")
    assert result.exit_code == 2 and "name the server that holds it" in result.output


@pytest.mark.parametrize(
    ("position", "line"),
    [
        ({"ahead_count": 3}, "queued: 3 ahead\n"),
        ({"ahead_count": 3, "estimated_duration": Duration(seconds=42)}, "queued: 3 ahead, about 42 s\n"),
        ({"estimated_duration": Duration(seconds=600)}, "queued: next, about 10 min\n"),
        ({"no_worker": True}, "queued: next, but no worker is joined\n"),
    ],
)
def test_a_place_in_the_queue_is_a_line(position, line):
    """With the estimate where there is one; it ends with the waiting."""
    console = Console(file=io.StringIO(), width=100)
    lines = PlainLines(console)
    lines.feed(submission_pb2.SubmissionEvent(sequence=1, queue_position=submission_pb2.QueuePosition(**position)))
    assert console.file.getvalue() == line
    lines.feed(submission_pb2.SubmissionEvent(sequence=2, submission={"state": submission_pb2.SUBMISSION_STATE_RUNNING}))
    before = console.file.getvalue()
    lines.feed(submission_pb2.SubmissionEvent(sequence=2, progress={"stage": submission_pb2.STAGE_BUILDING}))
    assert before.startswith(line) and "ahead" not in console.file.getvalue().removeprefix(before)


# -- organisers ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def at(address):
    """Where the server is; every command's last words."""
    return "--server", address[1]


def test_withdraw_takes_a_submission_off_the_board_and_undo_puts_it_back(at, entry, tmp_path):
    """By a short id as every command; `show`, `list`, `leaderboard` and `export` follow."""
    name = entry["name"]
    short = name.rpartition("/")[2][:8]
    assert run("withdraw", short, "--reason", "a slip", *at).stdout.startswith(f"{name}: withdrawn at 20")
    assert "a slip; it is on no board" in " ".join(run("show", short, *at).stdout.split())
    listed = run("list", *at).stdout
    assert "withdrawn" in listed.splitlines()[0] and "no entries yet" in run("leaderboard", "spring", *at).stdout
    archive = tmp_path / "spring.zip"
    assert run("competitions", "export", "spring", "--out", str(archive), *at).exit_code == 0
    with zipfile.ZipFile(archive) as file:
        table = list(csv.DictReader(io.StringIO(file.read("spring/submissions.csv").decode())))
    assert {row["submission"]: row["withdrawn"][-8:] for row in table}[name.rpartition("/")[2]] == ": a slip"
    data = json.loads(run("withdraw", short, "--json", "--reason", "a slip", *at).stdout)
    assert data["withdrawal"]["reason"] == "a slip"
    assert run("withdraw", short, "--undo", *at).stdout == f"{name}: counts on the boards\n"
    assert "no entries yet" not in run("leaderboard", "spring", *at).stdout and "withdrawn" not in run("list", *at).stdout


def test_bans_are_made_listed_and_lifted(at):
    output = run("competitions", "ban", "spring", "mallory", "--reason", "copied a kernel", *at).stdout
    assert "mallory is banned from competitions/spring, and has submitted nothing there; check the name" in output
    listed = run("competitions", "ban", "spring", *at).stdout
    assert "mallory" in listed and "copied a kernel" in listed
    assert json.loads(run("competitions", "ban", "competitions/spring", "--json", *at).stdout)["bans"][0]["user"] == "mallory"
    assert "may take part in competitions/spring again" in run("competitions", "ban", "spring", "mallory", "--lift", *at).stdout
    assert "is not banned from" in run("competitions", "ban", "spring", "mallory", "--lift", *at).stdout
    assert run("competitions", "ban", "spring", *at).stdout == "no user is banned from it\n"
    assert run("competitions", "ban", "spring", "mallory", *at).exit_code == 2  # without a reason


def test_reload_prints_what_has_changed(at, address):
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
    change, keys = competition_pb2.CompetitionChange, [competition_pb2.CompetitionKeyChange(key="secret_seed")]
    changed = change(competition="competitions/a", kind="COMPETITION_CHANGE_KIND_CHANGED", keys=keys)
    removed = change(competition="competitions/b", kind="COMPETITION_CHANGE_KIND_REMOVED")
    assert describe_changes([changed, removed]) == ["competitions/a: changed", "  secret_seed: changed", "competitions/b: removed"]


ORDER = {"cause": "a bug", "competition": "competitions/spring", "top_count": 3, "device_kind": "emulated", "fresh_sizes": True}


@pytest.mark.parametrize(
    "field", [{"cause": "another"}, {"competition": "competitions/fall"}, {"top_count": 4}, {"device_kind": "cuda"}, {"fresh_sizes": False}]
)
def test_only_the_same_order_has_the_same_request_id(field):
    """So that the command goes on with what it began, and nobody gets somebody else's final."""
    order = rejudge_pb2.Rejudge(**ORDER)
    assert request_id(order) == request_id(rejudge_pb2.Rejudge(**ORDER)) != request_id(rejudge_pb2.Rejudge(**ORDER | field))
    assert request_id(order) != request_id(order, "2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("final", "spring", "--top", "3", "--device", "auto"), "one device"),
        (("final", "spring", "--top", "0", "--device", "emulated"), "--top"),
        (("final", "spring", "--device", "emulated"), "--top"),
        (("rejudge", "create", "--problem", "sum"), "--cause"),
        (("rejudge", "create", "--cause", "x", "--device", "toaster"), "toaster"),
        (("rejudge", "create", "--cause", "x", "--problem", "sum", "--no-wait"), "--server"),
        (("rejudge", "create", "--cause", "x", "--no-wait", "--apply", "--server", "127.0.0.1:1"), "--apply"),
    ],
)
def test_misuse_is_told_before_anything_is_asked(words, message):
    result = run(*words)
    assert result.exit_code == 2 and message in result.output


def test_a_change_is_a_line_with_both_ranks_and_both_judgements():
    """Nothing of it can move the terminal's cursor or mean markup."""
    before = rejudge_pb2.Judgement(verdict="VERDICT_ACCEPTED", score=2.0, score_low=1.9, score_high=2.1)
    after = rejudge_pb2.Judgement(verdict="VERDICT_WRONG_ANSWER", reason="MISMATCH", rejudge="rejudges/r")
    change = rejudge_pb2.RejudgeChange(submission="submissions/s", user="[red]\x1b[2J", before=before, after=after, rank_before=1)
    rejudge = rejudge_pb2.Rejudge(
        name="rejudges/r", cause="why\x1b", state="REJUDGE_STATE_READY", submission_count=1, rerun_count=1, changes=[change]
    )
    console = Console(width=200, record=True, markup=False, emoji=False, highlight=False, file=io.StringIO())
    for part in render(rejudge, report_pb2.SCORE_KIND_SPEEDUP):
        console.print(part)
    out = console.export_text()
    line = next(text for text in out.splitlines() if "submissions/s" in text)
    assert line.split()[:2] == ["-", "1"] and "ACCEPTED 2x (1.9..2.1)" in line and "WRONG_ANSWER MISMATCH" in line and "[red]" in line
    assert "\x1b" not in out and "grader-cli rejudge apply rejudges/r" in out and "changes are shown" not in out
    rejudge.change_count = 3
    assert "the best 1 of 3 changes" in "".join(str(part) for part in render(rejudge, report_pb2.SCORE_KIND_SPEEDUP))


@pytest.mark.parametrize(("hours", "may_ask", "asks", "says"), [(-1, True, 0, ""), (1, False, 0, "a final now"), (1, True, 1, "")])
def test_a_final_before_the_end_asks_where_somebody_can_answer(monkeypatch, capsys, hours, may_ask, asks, says):
    """And is not begun by a no. A pipe gets a note; after the end nothing is said."""
    competition, questions = competition_pb2.Competition(name="competitions/spring"), []
    competition.end_time.FromDatetime(datetime.now(UTC) + timedelta(hours=hours))
    monkeypatch.setattr("typer.confirm", lambda text, **_: questions.append(text) or len(questions) > 1)
    if asks:
        with pytest.raises(UsageError, match="not begun"):
            ask_before_end(competition, may_ask=may_ask)
        asks += 1
    ask_before_end(competition, may_ask=may_ask)
    assert len(questions) == asks and says in capsys.readouterr().err
