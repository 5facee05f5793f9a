"""GetLeaderboard over a socket: what is graded is on it, what is frozen is not, and pages make up the whole."""

from datetime import UTC, datetime, timedelta

import pytest

from grader.api.client import GraderClient
from grader.errors import CompetitionNotFound, InvalidRequest, ProblemNotFound
from grader.ledger import Ledger
from grader.model import Scope
from grader.server.running import serving
from grader.v1 import competition_pb2, report_pb2, submission_pb2
from tests import fakes
from tests.board_rows import filled, rows
from tests.server.competition_files import board_toml

HOUR = timedelta(hours=1)


@pytest.fixture
def now():
    return datetime.now(UTC)


@pytest.fixture
def competition(place):
    """Write the competition's file, with these lines more."""

    def write(more=""):
        (place / "competition.toml").write_text(board_toml(more))
        return place / "competition.toml"

    return write


async def test_a_ranked_submission_comes_onto_the_board_with_its_score(serve, competition, kernel, finished):
    """From Submit to the board: accepted in three processes, with an interval that covers how they differed."""
    async with serve(competitions=(competition(),)) as client:
        made = kernel(device_kind="emulated")
        made.mode, made.competition = submission_pb2.MODE_RANKED, "competitions/spring"
        made.sources[0].content += "// speedup: 3.0\n"
        done = await finished(client, await client.submit(made))
        assert done.report.verdict == report_pb2.VERDICT_ACCEPTED and done.report.process_count == 3
        assert done.score == pytest.approx(3.0, rel=1e-6) and done.score_low < 2.97 and done.score_high > 3.03
        assert (done.score_kind, done.score_baseline) == (report_pb2.SCORE_KIND_SPEEDUP, "eager")
        board = await client.get_leaderboard("competitions/spring", problem="problems/sum")
        (entry,) = board.entries
        assert (entry.rank, entry.submission, entry.score) == (1, done.name, done.score)
        assert (entry.language, entry.submission_count) == ("cuda", 1)
        (overall,) = (await client.get_leaderboard("competitions/spring")).entries
        assert (overall.language, overall.submission_count) == ("", 1)
        assert entry.create_time == done.create_time and "EMULATED_NOT_RANKED" in entry.flags
        assert (board.device, list(board.devices), board.official) == ("fake", ["fake"], False)
        assert (board.score_kind, board.baseline) == (report_pb2.SCORE_KIND_SPEEDUP, "eager")
        overall = await client.get_leaderboard("competitions/spring")
        assert overall.problem == "" and overall.entries[0].problem_count == 1 and overall.entries[0].submission == ""


async def test_every_process_is_seen_by_who_watches(serve, competition, kernel):
    """Which process the facts that follow are of."""
    async with serve(competitions=(competition(),)) as client:
        made = kernel(device_kind="emulated")
        made.mode = submission_pb2.MODE_RANKED
        events = [event async for event in client.watch((await client.submit(made)).name)]
        begun = [event.progress for event in events if event.progress.process]
        assert [(one.process, one.process_count) for one in begun] == [(1, 3), (2, 3), (3, 3)]


async def test_pages_make_up_the_board(serve, competition, settings, now):
    """Each entry once, in order, whatever the page's size; the count is of all pages."""
    async with Ledger.open(settings.ledger) as ledger:
        await filled(ledger, rows(600, start=now - HOUR))
    async with serve(competitions=(competition(),)) as client:
        whole = await client.get_leaderboard("competitions/spring", page_size=1000)
        assert len(whole.entries) == whole.entry_count > 150 and whole.next_page_token == ""
        entries, token = [], ""
        while True:
            page = await client.get_leaderboard("competitions/spring", page_size=70, page_token=token)
            assert page.entry_count == whole.entry_count
            entries += page.entries
            if not (token := page.next_page_token):
                break
        assert entries == list(whole.entries)
        assert len((await client.get_leaderboard("competitions/spring")).entries) == 50
        first = await client.get_leaderboard("competitions/spring", page_size=70)
        with pytest.raises(InvalidRequest, match="page_token"):
            await client.get_leaderboard("competitions/spring", device="NVIDIA H200", page_token=first.next_page_token)


async def test_what_is_not_there_is_said(serve, competition):
    """With what there is instead; a name that is none is named."""
    async with serve(competitions=(competition(),)) as client:
        with pytest.raises(CompetitionNotFound, match="take one of: spring"):
            await client.get_leaderboard("competitions/autumn")
        with pytest.raises(ProblemNotFound, match="take one of: sum, other"):
            await client.get_leaderboard("competitions/spring", problem="problems/vector_add")
        for wrong, field in (
            ({"competition": "spring"}, "competition"),
            ({"competition": "competitions/spring", "problem": "sum"}, "problem"),
        ):
            with pytest.raises(InvalidRequest, match=field):
                await client.get_leaderboard(**wrong)
        empty = await client.get_leaderboard("competitions/spring", device="nothing")
        assert (empty.entry_count, list(empty.devices)) == (0, [])


async def test_a_frozen_board_shows_administrators_what_it_keeps_from_others(settings, competition, now):
    """Also from whom the entry is of. Both show until when was counted, if not all."""
    freeze = now - HOUR
    early, late = rows(2, start=now - 2 * HOUR)
    early |= {"user_name": "ann", "problem_id": "sum", "device": "NVIDIA H200"}
    late |= {"user_name": "ann", "problem_id": "sum", "device": "NVIDIA H200", "score": 9.0, "score_high": 9.1, "create_time": freeze}
    path = competition(f"freeze = {freeze.isoformat()}\n")
    async with Ledger.open(settings.ledger) as ledger:
        await filled(ledger, [early, late])
        keys = {scope: (await ledger.keys.create("ann", frozenset({Scope.READ, scope})))[1] for scope in (Scope.READ, Scope.ADMIN)}
    there = settings.model_copy(update={"competitions": (path,), "auth": "keys"})
    seen: dict[Scope, competition_pb2.Leaderboard] = {}
    async with serving(there, fakes.wiring()) as running:
        for scope, key in keys.items():
            async with GraderClient(running.address, key=key) as client:
                seen[scope] = await client.get_leaderboard("competitions/spring", problem="problems/sum")
    assert [one.score for one in seen[Scope.READ].entries] == [early["score"]]
    assert seen[Scope.READ].freeze_time.ToDatetime(UTC) == freeze
    assert [one.score for one in seen[Scope.ADMIN].entries] == [9.0] and not seen[Scope.ADMIN].HasField("freeze_time")
