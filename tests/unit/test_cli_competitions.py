"""`grader-cli competitions`, and submitting to one, against a server whose grading is a fake."""

import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from rich.console import Console
from typer.testing import CliRunner

from grader.cli.main import app
from grader.cli.progress import PlainLines
from grader.v1 import submission_pb2
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
    with embedded_server(root, competitions=(root,)) as found:
        yield root, found


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_competitions_are_listed_and_shown(address):
    """To people in words and to programs as JSON; of what is secret the count."""
    _, at = address
    listed, shown = run("competitions", "list", "--server", at), run("competitions", "show", "spring", "--server", at)
    assert "Spring sprint" in listed.stdout and "open" in listed.stdout
    for said in ("spring: Spring sprint (open)", "speedup over eager", "at most 2 in a day each", "mode ranked, 3 processes each"):
        assert said in shown.stdout
    data = json.loads(run("competitions", "show", "competitions/spring", "--server", at, "--json").stdout)
    assert data["secret_workload_counts"] == {"sum": 1} and data["state"] == "COMPETITION_STATE_OPEN"
    names = [one["name"] for one in json.loads(run("competitions", "list", "--server", at, "--json").stdout)["competitions"]]
    assert names == ["competitions/spring"]
    assert "987654" not in listed.stdout + shown.stdout + str(data)


def test_submitting_to_a_competition_is_ranked_unless_told_otherwise(address):
    """That is the mode that counts; the third of two a day is refused, and not as misuse."""
    root, at = address
    words = ("submit", str(root / "kernel.cu"), "--problem", "sum", "--competition", "spring", "--server", at, "--json")
    ranked, tested, third = run(*words), run(*words, "--mode", "test"), run(*words)
    assert [json.loads(one.stdout)["mode"] for one in (ranked, tested)] == ["MODE_RANKED", "MODE_TEST"]
    assert json.loads(ranked.stdout)["competition"] == "competitions/spring" and "987654" not in ranked.stdout
    assert third.exit_code == 3 and "the quota of 2 submissions in a day is spent" in third.output


def test_a_competition_needs_a_server(tmp_path):
    """A command's own server has none."""
    (tmp_path / "kernel.cu").write_text(fakes.source("accept"))
    found = run("submit", str(tmp_path / "kernel.cu"), "--problem", "sum", "--competition", "spring")
    assert found.exit_code == 2 and "name the server that holds it" in found.output


@pytest.mark.parametrize(
    ("ahead", "seconds", "said"),
    [(3, None, "queued: 3 ahead\n"), (3, 42, "queued: 3 ahead, about 42 s\n"), (0, 600, "queued: next, about 10 min\n")],
)
def test_a_place_in_the_queue_is_a_line(ahead, seconds, said):
    """With the estimate where there is one; it ends with the waiting."""
    console = Console(file=io.StringIO(), width=100)
    lines = PlainLines(console)
    position = submission_pb2.QueuePosition(ahead_count=ahead, estimated_duration=None if seconds is None else Duration(seconds=seconds))
    lines.feed(submission_pb2.SubmissionEvent(sequence=1, queue_position=position))
    assert console.file.getvalue() == said
    lines.feed(submission_pb2.SubmissionEvent(sequence=2, submission={"state": submission_pb2.SUBMISSION_STATE_RUNNING}))
    before = console.file.getvalue()
    lines.feed(submission_pb2.SubmissionEvent(sequence=2, progress={"stage": submission_pb2.STAGE_BUILDING}))
    assert before.startswith(said) and "ahead" not in console.file.getvalue().removeprefix(before)
