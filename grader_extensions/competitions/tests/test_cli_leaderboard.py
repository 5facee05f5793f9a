"""`grader-cli leaderboard` against a server: the table, the exports, and what it says where there is nothing."""

import csv
import json
from datetime import UTC, datetime, timedelta

import pytest

from grader.api.client import GraderClient
from grader.cli.exits import Exit, UsageError
from grader.errors import CompetitionNotFound, InvalidRequest, ProblemNotFound
from grader.ledger import Ledger
from grader.model import Scope
from grader.server.running import serving
from grader.v1 import competition_pb2, report_pb2, submission_pb2
from grader_extensions.competitions.calls import CompetitionCalls
from grader_extensions.competitions.cli.competitions import leaderboard_command
from tests import fakes
from tests.board_rows import filled, rows
from tests.server.competition_files import board_toml

HOUR = timedelta(hours=1)


def row(user, value, half, number, **fields):
    """A submission's row, made on one problem and device."""
    (fields_of_row,) = rows(1, start=datetime.now(UTC) - HOUR)
    fields_of_row |= {"submission_id": f"s{number}", "user_name": user, "problem_id": "sum", "device": "NVIDIA H200", "flags": ""}
    return fields_of_row | {"score": value, "score_low": value - half, "score_high": value + half} | fields


@pytest.fixture
def board(serve, settings, place, capsys):
    """Run the command against a server with these rows; returns its exit code and what it printed."""

    async def run(entries=(), *, extra="", json=False, **wanted):
        (place / "competition.toml").write_text(board_toml(extra))
        if entries:
            async with Ledger.open(settings.ledger) as ledger:
                await filled(ledger, entries)
        async with serve(competitions=(place / "competition.toml",)) as client:
            code = await leaderboard_command("spring", server=client.address, json=json, **wanted)
        return code, capsys.readouterr().out

    return run


THREE = [row("ann", 2.31, 0.03, 1), row("bob", 2.29, 0.03, 2), row("cid", 1.5, 0.1, 3)]


async def test_the_table_shows_scores_with_intervals_and_who_is_tied(board):
    """A shared rank is marked; the submission can be copied into `show`."""
    code, out = await board(THREE, problem="sum")
    lines = [line.split() for line in out.splitlines()]
    assert code is Exit.DONE
    assert ["1=", "ann", "2.31x", "(2.28..2.34)", "s1"] in [line[:5] for line in lines]
    assert ["1=", "bob"] in [line[:2] for line in lines] and ["3", "cid"] in [line[:2] for line in lines]
    assert "spring: sum, on NVIDIA H200" in out and "over eager" not in out and "times faster than eager" in out and "practice" not in out


async def test_the_overall_table_says_how_many_problems_and_what_missing_ones_count(board):
    """Without --problem."""
    _, out = await board(THREE)
    assert (
        "spring: all problems" in out
        and "counts as 1x" in out
        and ["1=", "ann", "1.52x"] in [line.split()[:3] for line in out.splitlines()]
    )


async def test_times_are_shown_as_times(board):
    """In the unit that they are read in."""
    _, out = await board([row("ann", 1_234_567.0, 20_000, 1)], extra='score = "time"\n', problem="sum")
    assert "1.23 ms (1.21..1.25)" in out and "less is better" in out


async def test_practice_is_said_to_be_practice(board):
    """Times of an emulated device are on no official board."""
    _, out = await board([row("ann", 2.0, 0.1, 1, clock="host", device="emulated on 2 cores")], problem="sum")
    assert "\npractice, not official: times are of an emulated device\n" in out


async def test_a_device_is_found_by_a_part_of_its_name(board):
    """And where that is no one's or several's, those that there are, are named."""
    entries = [*THREE, row("dan", 4.0, 0.1, 4, device="NVIDIA H100")]
    _, out = await board(entries, problem="sum", device="h200")
    assert "on NVIDIA H200" in out and "dan" not in out and "also on: NVIDIA H100" in out
    with pytest.raises(UsageError, match=r"several devices have 'nvidia'.*NVIDIA H100, NVIDIA H200"):
        await board(problem="sum", device="nvidia")
    with pytest.raises(UsageError, match=r"no entries on a device with 'B200'.*NVIDIA H100"):
        await board(problem="sum", device="B200")


async def test_no_entries_is_no_error(board):
    """Nobody has handed anything in yet."""
    code, out = await board(problem="sum")
    assert code is Exit.DONE and "no entries yet" in out
    with pytest.raises(UsageError, match="no entries on a device 'H200', nor on any other yet"):
        await board(problem="sum", device="H200")


async def test_the_table_ends_after_a_page_and_says_so(board):
    """--all shows the rest."""
    many = [row(f"u{number:03}", 1.0 + number, 0.1, number) for number in range(60)]
    _, out = await board(many, problem="sum")
    assert "and 10 more; --all shows them" in out and " u000 " not in out
    _, out = await board(problem="sum", everything=True)
    assert "more" not in out and " u000 " in out


async def test_csv_has_every_entry_in_full(board, place):
    """Numbers to the last bit, times in UTC; the file is there as a whole or not at all."""
    values = [1.0 + number / 7 for number in range(60)]
    many = [row(f"u{number}", value, 0.1, number, flags="THROTTLED,DEVICE_NOT_QUIET") for number, value in enumerate(values)]
    code, out = await board(many, problem="sum", csv=str(place / "board.csv"))
    assert code is Exit.DONE and out == "" and not (place / "board.csv.part").exists()
    read = list(csv.DictReader((place / "board.csv").open()))
    assert [float(entry["score"]) for entry in read] == sorted(values, reverse=True)
    assert read[0]["user"] == "u59" and read[0]["submission"] == "s59" and read[0]["flags"] == "THROTTLED DEVICE_NOT_QUIET"
    assert datetime.fromisoformat(read[0]["create_time"]).tzinfo is not None
    _, out = await board(problem="sum", csv="-")
    assert out == (place / "board.csv").read_text()


async def test_a_csv_that_can_not_be_written_says_where(board, place):
    """A file that was there before stays there."""
    with pytest.raises(UsageError, match=r"missing/board.csv' can't be written: .*; name another file"):
        await board(THREE, problem="sum", csv=str(place / "missing" / "board.csv"))


async def test_json_is_the_message_in_full(board):
    """With proto field names and numbers that read back as they were."""
    _, out = await board([row("ann", 1 / 3, 0.01, 1), row("bob", 0.2, 0.01, 2)], problem="sum", json=True)
    read = json.loads(out)
    assert [entry["score"] for entry in read["entries"]] == [1 / 3, 0.2] and read["entry_count"] == 2 and read["devices"] == ["NVIDIA H200"]
    with pytest.raises(UsageError, match="both write to stdout"):
        await board(problem="sum", json=True, csv="-")


@pytest.fixture
def now():
    return datetime.now(UTC)


@pytest.fixture
def competition(place):
    """Write the competition's file, with these lines more."""

    def write(extra=""):
        (place / "competition.toml").write_text(board_toml(extra))
        return place / "competition.toml"

    return write


async def test_a_ranked_submission_comes_onto_the_board_with_its_score(serve, competition, kernel, finished):
    """From Submit to the board: accepted in three processes, with an interval that covers how they differed."""
    async with serve(competitions=(competition(),)) as client:
        draft = kernel(device_kind="emulated")
        draft.mode, draft.competition = submission_pb2.MODE_RANKED, "competitions/spring"
        draft.sources[0].content += "// speedup: 3.0\n"
        submission = await finished(client, await client.submit(draft))
        assert submission.report.verdict == report_pb2.VERDICT_ACCEPTED and submission.report.process_count == 3
        assert submission.score == pytest.approx(3.0, rel=1e-6) and submission.score_low < 2.97 and submission.score_high > 3.03
        assert (submission.score_kind, submission.score_baseline) == (report_pb2.SCORE_KIND_SPEEDUP, "eager")
        board = await CompetitionCalls(client).get_leaderboard("competitions/spring", problem="problems/sum")
        (entry,) = board.entries
        assert (entry.rank, entry.submission, entry.score) == (1, submission.name, submission.score)
        assert (entry.language, entry.submission_count) == ("cuda", 1)
        (overall,) = (await CompetitionCalls(client).get_leaderboard("competitions/spring")).entries
        assert (overall.language, overall.submission_count) == ("", 1)
        assert entry.create_time == submission.create_time and "EMULATED_NOT_RANKED" in entry.flags
        assert (board.device, list(board.devices), board.official) == ("fake", ["fake"], False)
        assert (board.score_kind, board.baseline) == (report_pb2.SCORE_KIND_SPEEDUP, "eager")
        overall = await CompetitionCalls(client).get_leaderboard("competitions/spring")
        assert overall.problem == "" and overall.entries[0].problem_count == 1 and overall.entries[0].submission == ""


async def test_every_process_is_seen_by_who_watches(serve, competition, kernel):
    """Which process the facts that follow are of."""
    async with serve(competitions=(competition(),)) as client:
        draft = kernel(device_kind="emulated")
        draft.mode = submission_pb2.MODE_RANKED
        events = [event async for event in client.watch((await client.submit(draft)).name)]
        begun = [event.progress for event in events if event.progress.process]
        assert [(event.process, event.process_count) for event in begun] == [(1, 3), (2, 3), (3, 3)]


async def test_pages_make_up_the_board(serve, competition, settings, now):
    """Each entry once, in order, whatever the page's size; the count is of all pages."""
    async with Ledger.open(settings.ledger) as ledger:
        await filled(ledger, rows(600, start=now - HOUR))
    async with serve(competitions=(competition(),)) as client:
        whole = await CompetitionCalls(client).get_leaderboard("competitions/spring", page_size=1000)
        assert len(whole.entries) == whole.entry_count > 150 and whole.next_page_token == ""
        entries, token = [], ""
        while True:
            page = await CompetitionCalls(client).get_leaderboard("competitions/spring", page_size=70, page_token=token)
            assert page.entry_count == whole.entry_count
            entries += page.entries
            if not (token := page.next_page_token):
                break
        assert entries == list(whole.entries)
        assert len((await CompetitionCalls(client).get_leaderboard("competitions/spring")).entries) == 50
        first = await CompetitionCalls(client).get_leaderboard("competitions/spring", page_size=70)
        with pytest.raises(InvalidRequest, match="page_token"):
            await CompetitionCalls(client).get_leaderboard("competitions/spring", device="NVIDIA H200", page_token=first.next_page_token)


async def test_what_is_not_there_is_said(serve, competition):
    """With what there is instead; a name that is none is named."""
    async with serve(competitions=(competition(),)) as client:
        with pytest.raises(CompetitionNotFound, match="take one of: spring"):
            await CompetitionCalls(client).get_leaderboard("competitions/autumn")
        with pytest.raises(ProblemNotFound, match="take one of: sum, other"):
            await CompetitionCalls(client).get_leaderboard("competitions/spring", problem="problems/vector_add")
        for wrong, field in (
            ({"competition": "spring"}, "competition"),
            ({"competition": "competitions/spring", "problem": "sum"}, "problem"),
        ):
            with pytest.raises(InvalidRequest, match=field):
                await CompetitionCalls(client).get_leaderboard(**wrong)
        empty = await CompetitionCalls(client).get_leaderboard("competitions/spring", device="nothing")
        assert (empty.entry_count, list(empty.devices)) == (0, [])


async def test_a_frozen_board_shows_administrators_what_it_keeps_from_others(settings, competition, now):
    """Also from whom the entry is of, and right after an administrator looked. Both show until when was counted, if not all."""
    freeze = now - HOUR
    early, late = rows(2, start=now - 2 * HOUR)
    early |= {"user_name": "ann", "problem_id": "sum", "device": "NVIDIA H200"}
    late |= {"user_name": "ann", "problem_id": "sum", "device": "NVIDIA H200", "score": 9.0, "score_high": 9.1, "create_time": freeze}
    path = competition(f"freeze = {freeze.isoformat()}\n")
    async with Ledger.open(settings.ledger) as ledger:
        await filled(ledger, [early, late])
        keys = {scope: (await ledger.keys.create("ann", frozenset({Scope.READ, scope})))[1] for scope in (Scope.READ, Scope.ADMIN)}
    there = settings.model_copy(update={"competitions": (path,), "auth": "keys"})
    boards: dict[Scope, competition_pb2.Leaderboard] = {}
    async with serving(there, fakes.wiring()) as running:
        for scope in (Scope.READ, Scope.ADMIN, Scope.READ):
            async with GraderClient(running.address, key=keys[scope]) as client:
                boards[scope] = await CompetitionCalls(client).get_leaderboard("competitions/spring", problem="problems/sum")
    assert [entry.score for entry in boards[Scope.READ].entries] == [early["score"]]
    assert boards[Scope.READ].freeze_time.ToDatetime(UTC) == freeze
    assert [entry.score for entry in boards[Scope.ADMIN].entries] == [9.0] and not boards[Scope.ADMIN].HasField("freeze_time")
