"""`grader-cli leaderboard` against a server: the table, the exports, and what it says where there is nothing."""

import csv
import json
from datetime import UTC, datetime, timedelta

import pytest

from grader.cli.exits import Exit, UsageError
from grader.ledger import Ledger
from grader_extensions.competitions.cli.competitions import leaderboard_command
from tests.board_rows import filled, rows
from tests.server.competition_files import board_toml

HOUR = timedelta(hours=1)


def row(user, value, half, number, **fields):
    """A submission's row, made on one problem and device."""
    (made,) = rows(1, start=datetime.now(UTC) - HOUR)
    made |= {"submission_id": f"s{number}", "user_name": user, "problem_id": "sum", "device": "NVIDIA H200", "flags": ""}
    return made | {"score": value, "score_low": value - half, "score_high": value + half} | fields


@pytest.fixture
def board(serve, settings, place, capsys):
    """Run the command against a server with these rows; returns its exit code and what it printed."""

    async def run(made=(), *, more="", json=False, **wanted):
        (place / "competition.toml").write_text(board_toml(more))
        if made:
            async with Ledger.open(settings.ledger) as ledger:
                await filled(ledger, made)
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
    _, out = await board([row("ann", 1_234_567.0, 20_000, 1)], more='score = "time"\n', problem="sum")
    assert "1.23 ms (1.21..1.25)" in out and "less is better" in out


async def test_practice_is_said_to_be_practice(board):
    """Times of an emulated device are on no official board."""
    _, out = await board([row("ann", 2.0, 0.1, 1, clock="host", device="emulated on 2 cores")], problem="sum")
    assert "\npractice, not official: times are of an emulated device\n" in out


async def test_a_device_is_found_by_a_part_of_its_name(board):
    """And where that is no one's or several's, those that there are, are named."""
    made = [*THREE, row("dan", 4.0, 0.1, 4, device="NVIDIA H100")]
    _, out = await board(made, problem="sum", device="h200")
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
    assert [float(one["score"]) for one in read] == sorted(values, reverse=True)
    assert read[0]["user"] == "u59" and read[0]["submission"] == "s59" and read[0]["flags"] == "THROTTLED DEVICE_NOT_QUIET"
    assert datetime.fromisoformat(read[0]["create_time"]).tzinfo is not None
    _, out = await board(problem="sum", csv="-")
    assert out == (place / "board.csv").read_text()


async def test_a_csv_that_can_not_be_written_says_where(board, place):
    """What was there before stays there."""
    with pytest.raises(UsageError, match=r"missing/board.csv' can't be written: .*; name another file"):
        await board(THREE, problem="sum", csv=str(place / "missing" / "board.csv"))


async def test_json_is_the_message_in_full(board):
    """With proto field names and numbers that read back as they were."""
    _, out = await board([row("ann", 1 / 3, 0.01, 1), row("bob", 0.2, 0.01, 2)], problem="sum", json=True)
    read = json.loads(out)
    assert [one["score"] for one in read["entries"]] == [1 / 3, 0.2] and read["entry_count"] == 2 and read["devices"] == ["NVIDIA H200"]
    with pytest.raises(UsageError, match="both write to stdout"):
        await board(problem="sum", json=True, csv="-")
