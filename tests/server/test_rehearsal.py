"""A rehearsal: boards, ties, freeze, final and rejudge over a real ledger and server, with simulated times that are marked as such."""

import asyncio
import re
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from grader import devices
from grader.api.client import GraderClient
from grader.config import Settings
from grader.errors import ProblemInvalid, SettingsInvalid
from grader.ledger import Ledger
from grader.problems.competition_store import FILE_NAME
from grader.server.commands import rehearse
from grader.server.rehearsal import ORGANISER_KEY, USER_KEY, RehearsalStage, prepare, schedule, timed_text
from grader.server.running import serving
from grader.v1 import rejudge_pb2, report_pb2
from tests import fakes
from tests.server.processes import ROOT, START_S

NAME = "competitions/rehearsal"


def now():
    return datetime.now(UTC)


@asynccontextmanager
async def served(made):
    """The rehearsal's server as the command starts it, with a client of an organiser and one of a user."""
    settings = Settings(**rehearse.served_settings(made, f"unix:{made.directory}/s", "127.0.0.1:0"), drain_s=0)
    async with serving(settings, rehearse.simulated(made)) as running:
        keys = [(made.directory / one).read_text().strip() for one in (ORGANISER_KEY, USER_KEY)]
        organiser, user = (GraderClient(running.address, key=key) for key in keys)
        async with organiser, user:
            yield running, organiser, user


async def standings(made):
    """What the ledger has on its boards, without the ids of submissions."""
    async with Ledger.open(made.directory / "ledger.sqlite3") as ledger:
        found = await ledger.boards.standings(made.competition)
    return sorted((one.user, one.problem_id, one.create_time, one.score) for one in found)


async def test_users_see_a_frozen_board_and_organisers_see_all(place):
    """Twelve users, shared ranks, and a leader who came after the freeze. Every board has the mark as its device."""
    made = await prepare(place / "r", stage=RehearsalStage.FROZEN, now=now())
    async with served(made) as (_, organiser, user):
        frozen, whole = [await one.get_leaderboard(NAME) for one in (user, organiser)]
        assert len(frozen.entries) == len(whole.entries) == 12
        assert frozen.HasField("freeze_time") and not whole.HasField("freeze_time")
        assert frozen.entries[0].rank == frozen.entries[1].rank == 1, "a tie"
        assert whole.entries[0].user != frozen.entries[0].user and whole.entries[1].rank == whole.entries[2].rank == 2
        assert list(whole.devices) == [devices.SIMULATED] and not whole.official


async def test_the_first_page_and_boards_carry_the_mark(place):
    """Control: a site without a notice has no such words."""
    made = await prepare(place / "r", stage=RehearsalStage.FROZEN, now=now())
    async with served(made) as (running, _, _), aiohttp.ClientSession() as session:
        for path in ("/", "/competitions", "/problems", "/competitions/rehearsal", "/competitions/rehearsal?problem=double"):
            async with session.get(f"http://{running.web_address}{path}") as answer:
                text = await answer.text()
            assert answer.status == 200 and f'role="note">{devices.SIMULATED}<' in text, path
        assert "nothing was built or run" in text and "emulated device" not in text and "The board is frozen" in text


async def test_after_the_end_the_board_is_whole_and_reports_are_shown(place):
    """The same directory, set to another stage: the submissions stay."""
    first = await prepare(place / "r", stage=RehearsalStage.FROZEN, now=now())
    made = await prepare(place / "r", stage=RehearsalStage.ENDED, now=now())
    assert made.record == first.record
    async with served(made) as (running, organiser, user), aiohttp.ClientSession() as session:
        assert (await user.get_leaderboard(NAME)).entries == (await organiser.get_leaderboard(NAME)).entries
        board = await user.get_leaderboard(NAME, problem="problems/double")
        async with session.get(f"http://{running.web_address}/{board.entries[0].submission}") as answer:
            text = await answer.text()
        assert answer.status == 200 and devices.SIMULATED in text and "emulated device" not in text


async def test_a_final_runs_the_best_again_and_shows_who_falls(place):
    """One of the best is right at first and wrong when it is run again."""
    made = await prepare(place / "r", stage=RehearsalStage.ENDED, now=now())
    async with served(made) as (_, organiser, _):
        order = rejudge_pb2.Rejudge(
            cause="final", competition=NAME, top_count=4, device_kind="cuda", method=rejudge_pb2.REJUDGE_METHOD_RUN, fresh_sizes=True
        )
        found = await organiser.create_rejudge(order, request_id="11111111-1111-4111-8111-111111111111")
        while found.state == rejudge_pb2.REJUDGE_STATE_RUNNING:
            found = await organiser.get_rejudge(found.name)
        changed = [one for one in found.changes if one.after.verdict == report_pb2.VERDICT_WRONG_ANSWER]
        assert changed and all(one.before.verdict == report_pb2.VERDICT_ACCEPTED for one in changed)
        assert any(one.after.verdict == report_pb2.VERDICT_ACCEPTED for one in found.changes)


async def test_the_same_seed_makes_the_same_boards(place):
    """Users, times and scores; ids of submissions are the ledger's own. Control: another seed makes others."""
    time = now()
    one, same, other = [
        await prepare(place / name, stage=RehearsalStage.OPEN, now=time, seed=seed) for name, seed in (("a", 7), ("b", 7), ("c", 8))
    ]
    assert await standings(one) == await standings(same) != await standings(other)
    assert schedule(one.competition, one.record.began, 7) == schedule(same.competition, same.record.began, 7)


async def test_a_competition_of_ones_own_is_rehearsed_with_its_problems_and_secrets(place):
    """Title and times are replaced, all else is as the file says; the file itself is not changed."""
    fakes.write_problem(place / "problems", "sum")
    file = place / "competition.toml"
    text = (
        'name = "spring"\ntitle = "Spring"\nproblems = ["sum"]\ndevices = ["cuda:H200"]\nstart = 2026-05-01T00:00:00Z\n'
        'end = 2026-05-03T00:00:00Z\nscore = "time"\nsecret_seed = "00112233445566778899aabbccddeeff"\n\n[[secret]]\n'
        'problem = "sum"\ndevice = "cuda"\naxes = { n = 70368 }\n'
    )
    file.write_text(text)
    made = await prepare(place / "r", stage=RehearsalStage.ENDED, now=now(), file=file, problem_dirs=[place / "problems"])
    assert (made.competition.competition_id, made.competition.title) == ("spring", "REHEARSAL: Spring")
    assert made.competition.device_kinds == ("cuda:H200",) and len(made.competition.secret_workloads["sum"]) == 1
    assert file.read_text() == text and (made.directory / FILE_NAME).stat().st_mode & 0o777 == 0o600
    async with served(made) as (_, organiser, _):
        assert len((await organiser.get_leaderboard("competitions/spring")).entries) == 12


async def test_what_is_wrong_is_refused_with_what_to_do(place):
    """A directory of something else, another seed, a competition with a mistake."""
    (place / "full").mkdir()
    (place / "full" / "notes.txt").write_text("mine")
    with pytest.raises(SettingsInvalid, match="is not a finished rehearsal; name a new directory"):
        await prepare(place / "full", stage=RehearsalStage.OPEN, now=now())
    await prepare(place / "r", stage=RehearsalStage.OPEN, now=now(), seed=3)
    with pytest.raises(SettingsInvalid, match="was made with --seed 3; leave --seed out"):
        await prepare(place / "r", stage=RehearsalStage.OPEN, now=now(), seed=4)
    (place / "competition.toml").write_text('name = "x"\n')
    fakes.write_problem(place / "problems", "sum")
    with pytest.raises(ProblemInvalid, match="title"):
        await prepare(place / "s", stage=RehearsalStage.OPEN, now=now(), file=place / "competition.toml", problem_dirs=[place / "problems"])


def test_only_title_and_times_are_replaced():
    """A file where they can't be replaced line by line is refused, and not changed by guess."""
    began = datetime(2026, 5, 1, tzinfo=UTC)
    head = 'name = "x"\ntitle = "X"\nproblems = ["a"]\nstart = 2026-01-01T00:00:00Z\nend = 2026-01-02T00:00:00Z\n'
    made = timed_text(head, RehearsalStage.ENDED, began, began + timedelta(days=1))
    assert made.count("title = ") == 1 and 'name = "x"' in made and "end = 2026-05-01T00:00:00+00:00" in made
    with pytest.raises(SettingsInvalid, match="write each on one line"):
        timed_text(f'{head}statement = """\nstart = soon\n"""\n', RehearsalStage.ENDED, began, began)


def test_the_command_prints_addresses_and_what_to_try(place, capsys):
    """Freeze, final, rejudge preview and export, each as a command; the keys are in files of their owner's."""
    assert rehearse.main([str(place / "r"), "--fill-only", "--listen", "127.0.0.1:50999"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{devices.SIMULATED}\n12 users, ") and "http://127.0.0.1:8081/competitions/rehearsal" in text
    for command in ("leaderboard rehearsal", "final rehearsal --top 5 --device cuda", "rejudge create --run", "competitions export"):
        assert f"grader-cli {command}" in text, command
    assert f"grader-server rehearse {place}/r --listen 127.0.0.1:50999 --stage ended" in text
    assert (place / "r" / ORGANISER_KEY).stat().st_mode & 0o777 == 0o600
    assert rehearse.main([str(place / "r"), "--problems", "x"]) == 2
    assert "name it with --competition FILE" in capsys.readouterr().err


async def test_a_rehearsal_has_a_withdrawn_submission_and_announcements(place):
    """The one that is withdrawn would lead its problem's board: put back, it does."""
    made = await prepare(place / "r", stage=RehearsalStage.OPEN, now=now())
    async with served(made) as (_, organiser, user):
        shown = (await user.get_competition(NAME)).announcements
        assert len(shown) == 2 and shown[0].create_time.ToNanoseconds() > shown[1].create_time.ToNanoseconds()
        actions = (await organiser.list_competition_actions(NAME)).actions
        assert sorted(one.action for one in actions) == ["announced", "announced", "withdrawn"]
        assert [one.create_time.seconds for one in actions] == sorted((one.create_time.seconds for one in actions), reverse=True)
        (withdrawal,) = [one for one in actions if one.action == "withdrawn"]
        problem = made.competition.problem_ids[0]
        before = await user.get_leaderboard(NAME, problem=f"problems/{problem}")
        withdrawn = await organiser.get_submission(f"submissions/{withdrawal.subject}")
        assert withdrawn.withdrawal.reason and withdrawn.name not in [one.submission for one in before.entries]
        await organiser.restore(withdrawn.name)
        after = await user.get_leaderboard(NAME, problem=f"problems/{problem}")
        assert after.entries[0].submission == withdrawn.name


@pytest.mark.slow
async def test_ports_that_the_system_chose_are_printed(place):
    """With `--web 0` and `--listen ...:0`: the first page is where it says, and so is the API. The command to go on keeps the options."""
    words = [sys.executable, "-m", "grader.server.main", "rehearse", str(place / "r"), "--web", "0", "--listen", "127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        printed = ""
        async with asyncio.timeout(START_S):
            while "--stage ended" not in printed:
                printed += (await process.stdout.readline()).decode()
        (page,) = re.findall(r"^pages: (http://127\.0\.0\.1:[1-9]\d*)/competitions/rehearsal$", printed, re.MULTILINE)
        (address,) = re.findall(r"^API: (127\.0\.0\.1:[1-9]\d*)$", printed, re.MULTILINE)
        assert f"export GRADER_SERVER={address}\n" in printed and "--listen 127.0.0.1:0 --web 0 --stage ended" in printed
        async with aiohttp.ClientSession() as session, session.get(f"{page}/healthz") as answer:
            assert answer.status == 200
        async with GraderClient(address, key=(place / "r" / USER_KEY).read_text().strip()) as client:
            assert await client.list_problems()
    finally:
        process.terminate()
        await process.wait()
