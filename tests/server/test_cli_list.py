"""`grader-cli list` and short ids, against a servicer that has what the test gives it, and against a server with a fake grade."""

import io
import json

import grpc
import pytest
from rich.console import Console

from grader.api.client import GraderClient
from grader.cli.exits import UsageError
from grader.cli.submissions import list_command, read_verdicts, render_list, short_ids, whole_name
from grader.v1 import grader_service_pb2 as api
from grader.v1 import grader_service_pb2_grpc, report_pb2, submission_pb2

EAGER = report_pb2.Speedup(baseline="eager", ratio=1.5, ratio_low=1.4, ratio_high=1.6)


class OldServer(grader_service_pb2_grpc.GraderServiceServicer):
    """Knows neither verdicts nor prefixes in lists, and sends pages of two."""

    def __init__(self, *submissions, watches=True):
        self.submissions, self.watches, self.lists = submissions, watches, 0

    async def ListSubmissions(self, request, context):
        self.lists += 1
        start = int(request.page_token or 0)
        page = [head(entry) for entry in self.submissions[start : start + 2]]
        return api.ListSubmissionsResponse(submissions=page, next_page_token=str(start + 2) if self.submissions[start + 2 :] else "")

    async def GetCaller(self, request, context):
        return api.Caller(user="alice", scopes=["read"])

    async def WatchSubmissions(self, request, context):
        if not self.watches:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "old")
        for entry in self.submissions:
            if entry.name in request.names:
                yield api.SubmissionUpdate(submission=entry, revision=4)


def head(listed):
    shown = submission_pb2.Submission()
    shown.CopyFrom(listed)
    shown.report.ClearField("speedups")
    return shown


def submission(name, verdict="ACCEPTED", mode="BENCHMARK", speedups=(), **fields):
    report = report_pb2.Report(verdict=f"VERDICT_{verdict}", speedups=speedups)
    state = submission_pb2.SUBMISSION_STATE_SUCCEEDED
    fields = {"problem": "problems/sum", "language": "cuda", **fields}
    return submission_pb2.Submission(name=f"submissions/{name}", report=report, mode=f"MODE_{mode}", state=state, **fields)


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


async def test_a_list_says_verdict_mode_and_speedup(served, capsys):
    """A wrong answer reads otherwise than an accepted one. What is timed has its speedup though a list carries no reports."""
    submissions = (submission("a" * 16, speedups=[EAGER]), submission("b" * 16, "WRONG_ANSWER", "TEST"))
    await list_command(server=await served(OldServer(*submissions)))
    first, second = lines(capsys.readouterr().out)[1:]
    assert first.startswith("aaaaaaaa sum cuda benchmark ACCEPTED 1.5x (1.4 to 1.6) over eager")
    assert second.startswith("bbbbbbbb sum cuda test WRONG_ANSWER - ")


async def test_a_speedup_of_the_emulated_device_is_practice(served, capsys):
    """As in the report."""
    candidate = submission("a" * 16, speedups=[EAGER])
    candidate.report.environment.device_kind = "emulated"
    await list_command(server=await served(OldServer(candidate)))
    assert "1.5x (1.4 to 1.6) over eager (practice)" in capsys.readouterr().out


async def test_speedups_of_others_are_not_asked_for(served, capsys):
    """A list by competition may show them, and a stream about one of them would be refused as a whole."""
    submissions = (submission("a" * 16, speedups=[EAGER], user="bob"), submission("b" * 16, speedups=[EAGER], user="alice"))
    await list_command(server=await served(OldServer(*submissions)), competition="cup")
    first, second = lines(capsys.readouterr().out)[1:]
    assert "ACCEPTED - " in first and "ACCEPTED 1.5x" in second


async def test_a_server_that_streams_nothing_is_listed_without_speedups(served, capsys):
    """The list itself is what was asked for."""
    await list_command(server=await served(OldServer(submission("a" * 16, speedups=[EAGER]), watches=False)))
    assert "benchmark ACCEPTED - " in lines(capsys.readouterr().out)[1]


async def test_a_verdict_that_an_old_server_does_not_know_of_is_still_the_only_one_shown(served, capsys):
    """In JSON too."""
    server = OldServer(submission("a" * 16, "WRONG_ANSWER"), submission("b" * 16, mode="TEST"))
    at = await served(server)
    await list_command(server=at, verdict=["ACCEPTED"])
    assert "bbbbbbbb" in (out := capsys.readouterr().out) and "aaaaaaaa" not in out
    await list_command(server=at, verdict=["ACCEPTED"], json=True)
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)["submissions"]] == ["submissions/" + "b" * 16]


def shown(*submissions, width=200, **console):
    out = io.StringIO()
    Console(file=out, width=width, markup=False, emoji=False, highlight=False, **console).print(render_list(submissions, {}, width))
    return out.getvalue()


def test_a_narrow_terminal_has_fewer_columns_and_whole_ids():
    """Nothing is cut: what matters least has no column."""
    candidate = submission("a" * 16, "WRONG_ANSWER", tags=["first try"], competition="competitions/spring-cup-of-2026")
    headings, cells = shown(candidate, width=60).splitlines()
    assert headings.split() == ["id", "problem", "verdict", "speedup", "or", "score"] and "…" not in cells
    assert cells.split()[:3] == ["aaaaaaaa", "sum", "WRONG_ANSWER"]
    candidate.withdrawal.reason = "a long reason " * 20
    assert "withdrawn" in shown(candidate) and "aaaaaaaa" in shown(candidate)  # a long cell takes several lines, and no column from others


def test_a_wrong_answer_is_red_and_an_accepted_one_green():
    text = shown(submission("a" * 16), submission("b" * 16, "WRONG_ANSWER"), force_terminal=True, color_system="standard")
    assert "\x1b[32mACCEPTED" in text and "\x1b[31mWRONG_ANSWER" in text


def test_what_has_no_verdict_is_listed_by_its_state():
    """And a failure of the grader by what it is."""
    queued = submission_pb2.Submission(name="submissions/x", state="SUBMISSION_STATE_QUEUED", mode="MODE_RANKED")
    assert "ranked" in shown(queued) and "QUEUED" in shown(queued)


def test_a_score_is_shown_with_its_interval_and_what_it_is():
    """Of ranked mode: a speedup over a baseline, or a time."""
    candidate = submission("a" * 16, mode="RANKED", score=2.0, score_low=1.9, score_high=2.1, competition="competitions/cup")
    candidate.score_kind, candidate.score_baseline = report_pb2.SCORE_KIND_SPEEDUP, "compile"
    assert "2x (1.9..2.1) over compile" in shown(candidate) and "cup" in shown(candidate)


def test_no_field_of_a_list_can_steer_the_terminal():
    """Names come from others."""
    fields = {"problem": "problems/[red]\x1b]0;x", "user": "\x9b2J", "language": "\rcuda", "score_baseline": "\x1b", "score": 1.0}
    text = shown(submission("\x1b[2J" + "a" * 12, **fields))
    assert all(char.isprintable() or char == "\n" for char in text) and "[red]" in text


def test_short_ids_are_as_long_as_needed():
    """At least 8 characters, and more where two begin alike."""
    assert short_ids(["a" * 16, "b" * 16]) == ["a" * 8, "b" * 8]
    assert short_ids(["0123456789abcdef", "0123456789zbcdef", "x"]) == ["0123456789a", "0123456789z", "x"]
    assert short_ids(["a" * 16, "a" * 16]) == ["a" * 8, "a" * 8]


@pytest.mark.parametrize(
    ("texts", "verdicts"),
    [(["ACCEPTED"], [1]), (["accepted,wrong_answer", "WRONG-ANSWER"], [1, 6]), (["VERDICT_DISQUALIFIED, accepted"], [7, 1]), ([], [])],
)
def test_verdicts_are_read_in_any_case_and_number(texts, verdicts):
    """Each once."""
    assert list(read_verdicts(texts)) == verdicts


async def test_the_beginning_of_an_id_is_enough_where_no_other_begins_so(client, kernel):
    """With and without its collection, of the server's own ids."""
    submissions = [(await client.submit(kernel("hang"))).name for _ in range(3)]
    names = [name.removeprefix("submissions/") for name in submissions]
    for whole, short in zip(submissions, short_ids(names), strict=True):
        assert (
            await whole_name(client, short) == await whole_name(client, f"submissions/{short}") == await whole_name(client, whole) == whole
        )


async def test_last_is_the_newest_submission_of_the_caller(client, kernel):
    """A caller without any is told so."""
    with pytest.raises(UsageError, match="no submission of yours"):
        await whole_name(client, "last")
    names = [(await client.submit(kernel("hang"))).name for _ in range(2)]
    assert await whole_name(client, "last") == await whole_name(client, "submissions/last") == names[-1]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("abc", "several submissions .*'abc': abc1, abc2; write more"),
        ("zz", "no submission of yours .*'zz'; list them with: grader-cli list"),
    ],
)
async def test_a_prefix_that_is_not_one_id_is_refused(served, prefix, expected):
    """With the candidates, or the command that shows them. Also by a server that sends every submission, in pages."""
    server = OldServer(*(submission(name) for name in ("x1", "x2", "abc1", "x3", "abc2")))
    async with GraderClient(await served(server)) as client:
        with pytest.raises(UsageError, match=expected):
            await whole_name(client, prefix)
        assert await whole_name(client, "x3") == "submissions/x3" and await whole_name(client, "abc1") == "submissions/abc1"
        lists = server.lists
        assert await whole_name(client, "0123456789abcdef") == "submissions/0123456789abcdef"  # a whole id is not looked up
        assert await whole_name(client, "a/b") == "submissions/a/b"  # the server says what is wrong with it
        assert server.lists == lists
