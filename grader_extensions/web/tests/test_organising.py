"""Organisers' calls while a competition runs, over a real socket with keys, and what each reader gets to see of it."""

import asyncio
import contextlib
import html
import os
import signal
from datetime import timedelta
from types import SimpleNamespace

import aiohttp
import pytest

from grader import errors
from grader.api.client import GraderClient
from grader.ledger import Ledger
from grader.model import Caller, Scope
from grader.problems.store import Problems
from grader.server.running import serving, takes_hang_up
from grader.v1 import competition_pb2
from grader_extensions.competitions import refusals
from grader_extensions.competitions.calls import CompetitionCalls as Calls
from grader_extensions.competitions.organising_calls import OrganisingCalls
from grader_extensions.competitions.store import Competitions
from grader_extensions.competitions.tests.ledger_actions import LedgerActions
from grader_extensions.web.tests.signed_in import key_of, reader
from grader_extensions.web.tests.site import END, START, site
from grader_extensions.web.tests.test_submit_page import send
from sandbox.protocol import wire
from tests import fakes
from tests.server.competition_files import NOW, toml
from tests.server.processes import fake_server
from tests.waiting import until

USUAL = (Scope.SUBMIT, Scope.READ)
PEOPLE = {"alice": USUAL, "bob": USUAL, "root": tuple(Scope)}
CHANGED = competition_pb2.COMPETITION_CHANGE_KIND_CHANGED


class Organised:
    """A server with keys, pages and the competition `one`: clients by user."""

    def __init__(self, running, settings, file):
        self.running, self.settings, self.file, self.keys = running, settings, file, {}
        self.stack = contextlib.AsyncExitStack()

    @property
    def url(self):
        return f"http://{self.running.web_address}"

    async def key(self, user, scopes=USUAL):
        async with Ledger.open(self.settings.ledger) as ledger:
            return await key_of(ledger, user, scopes)

    async def client(self, user, key=""):
        if not key:
            key = self.keys[user] = self.keys.get(user) or await self.key(user, PEOPLE[user])
        return await self.stack.enter_async_context(GraderClient(self.running.address, key=key))

    async def entry(self, client, kernel):
        """A submission of this client's that is on the board."""
        submission = await client.submit(kernel("accept", mode=wire.Mode.RANKED, competition_id="one"))
        return [event async for event in client.watch(submission.name)][-1].submission

    async def page(self, path, user=""):
        if not user:
            async with aiohttp.ClientSession() as session, session.get(self.url + path) as answer:
                return answer.status, await answer.text()
        async with reader(self.url) as browser:
            await browser.sign_in(self.keys[user])
            answer, text = await browser.get(path)
            return answer.status, text


@pytest.fixture
async def organised(settings, place):
    file = place / "competitions" / "competition.toml"
    file.parent.mkdir()
    file.write_text(toml("one"))
    there = settings.model_copy(update={"competitions": (file.parent,), "web": "127.0.0.1:0", "auth": "keys"})
    async with serving(there, fakes.wiring()) as running:
        competition = Organised(running, there, file)
        async with competition.stack:
            yield competition


async def on_board(client):
    return [entry.user for entry in (await Calls(client).get_leaderboard("competitions/one", problem="problems/sum")).entries]


async def test_an_owner_withdraws_and_only_an_administrator_undoes_it(organised, kernel):
    """The submission says by whom and why, to those who see it; nobody else learns that it is there."""
    alice, bob, root = [await organised.client(name) for name in PEOPLE]
    entry = await organised.entry(alice, kernel)
    assert await on_board(bob) == ["alice"]
    with pytest.raises(errors.SubmissionNotFound):
        await Calls(bob).withdraw(entry.name)
    withdrawn = (await Calls(alice).withdraw(entry.name, reason="measured the wrong one")).withdrawal
    assert (withdrawn.user, withdrawn.reason) == ("alice", "measured the wrong one") and await on_board(bob) == []
    for client in (alice, root):
        assert (await client.get_submission(entry.name)).withdrawal == withdrawn
        (listed,) = (await client.list_submissions(competition="competitions/one")).submissions
        assert listed.withdrawal == withdrawn
    with pytest.raises(errors.PermissionDenied):
        await Calls(alice).restore(entry.name)
    assert not (await Calls(root).restore(entry.name, reason="asked by mail")).HasField("withdrawal") and await on_board(bob) == ["alice"]
    actions = (await Calls(root).list_competition_actions("competitions/one")).actions
    assert [(action.action, action.user) for action in actions] == [("restored", "root"), ("withdrawn", "alice")]


async def test_an_administrator_says_why_somebody_elses_is_withdrawn(organised, kernel):
    """Their own need no reason."""
    alice, _, root = [await organised.client(name) for name in PEOPLE]
    submission, own_submission = await organised.entry(alice, kernel), await organised.entry(root, kernel)
    with pytest.raises(errors.InvalidRequest, match="reason: is missing; say why"):
        await Calls(root).withdraw(submission.name)
    assert await on_board(alice) == ["alice", "root"]
    await Calls(root).withdraw(own_submission.name)
    await Calls(root).withdraw(submission.name, reason="replays outputs")
    assert await on_board(alice) == []


async def test_who_withdraws_hides_nothing(tmp_path):
    """Where everybody sees all sources after the end, also those of what was withdrawn; before it nobody else does, as always."""
    async with site(tmp_path, visibility="after_end") as here:
        entry_id = await here.enter("ann", 2.0)
        await here.enter("bob", 1.5)
        await LedgerActions(here.ledger).withdraw(entry_id, here.competitions.get("spring"), Caller(user="ann", scopes=frozenset()), "")
        for now, status in ((START, 404), (END, 200)):
            here.clock.now = now
            async with aiohttp.ClientSession() as session:
                for path in (f"/submissions/{entry_id}", f"/submissions/{entry_id}/sources"):
                    async with session.get(here.url(path)) as answer:
                        assert answer.status == status, path
                async with session.get(here.url("/competitions/spring?problem=sum")) as answer:
                    assert "bob" in (text := await answer.text()) and "ann" not in text and entry_id not in text


async def test_pages_say_that_a_submission_is_withdrawn(organised, kernel):
    """Its own page and the list of its owner's, to those to whom they are shown. The board has no row of it."""
    alice, root = await organised.client("alice"), await organised.client("root")
    submission = await organised.entry(alice, kernel)
    path = f"/submissions/{submission.name.rpartition('/')[2]}"
    assert "Withdrawn" not in (await organised.page(path, "alice"))[1]  # the control
    await Calls(root).withdraw(submission.name, reason="replays <b>outputs</b>")
    status, text = await organised.page(path, "alice")
    assert status == 200 and "Withdrawn by the administrator root" in text and "replays &lt;b&gt;outputs&lt;/b&gt;" in text
    assert "withdrawn by the administrator root" in (await organised.page("/submissions", "alice"))[1]
    assert (await organised.page(path))[0] == 404
    for user in ("", "alice"):
        board = (await organised.page("/competitions/one?fresh=1", user))[1]
        assert "No one is on this board yet." in board and "replays" not in board


async def test_a_banned_user_is_refused_with_every_key_and_off_the_board(organised, kernel):
    """By API and by form. What the user reads is the reason; others see an absent row and nothing else."""
    alice, bob, root = [await organised.client(name) for name in PEOPLE]
    second = await organised.client("alice", await organised.key("alice"))
    await organised.entry(alice, kernel)
    await organised.entry(bob, kernel)
    ban = await Calls(root).ban_user("competitions/one", "alice", reason="copied <i>a</i> kernel")
    assert (ban.submission_count, ban.administrator) == (1, "root") and await on_board(bob) == ["bob"] == await on_board(root)
    for client in (alice, second):
        with pytest.raises(errors.UserBanned, match="banned from competition 'one': copied <i>a</i> kernel"):
            await client.submit(kernel("accept", mode=wire.Mode.TEST, competition_id="one"))
    with pytest.raises(errors.UserBanned):
        (refused,) = await second.batch_submit([kernel("accept", competition_id="one")])
        raise refused
    await alice.submit(kernel("accept"))  # to no competition as before
    async with reader(organised.url) as browser:
        await browser.sign_in(organised.keys["alice"])
        answer, text = await send(browser, competition="one", mode="ranked")
        assert answer.status == 403 and "You are banned from competition" in html.unescape(text) and "<i>a</i>" not in text
    for client in (alice, bob):
        with pytest.raises(errors.PermissionDenied):
            await Calls(client).list_bans("competitions/one")
        assert "banned" not in str(await Calls(client).get_competition("competitions/one"))
    for path in ("/", "/competitions/one"):
        assert "copied" not in (await organised.page(path))[1] + (await organised.page(path, "bob"))[1]
    assert [entry.user for entry in (await Calls(root).list_bans("competitions/one")).bans] == ["alice"]
    assert await Calls(root).lift_ban("competitions/one", "alice") and not await Calls(root).lift_ban("competitions/one", "alice")
    assert sorted(await on_board(bob)) == ["alice", "bob"]
    await organised.entry(second, kernel)


async def test_a_ban_names_a_user_and_a_competition(organised):
    """And says why."""
    root = await organised.client("root")
    for user, competition, reason, error in (
        ("Alice!", "one", "x", errors.InvalidRequest),
        ("", "one", "x", errors.InvalidRequest),
        ("alice", "one", " ", errors.InvalidRequest),
        ("alice", "two", "x", errors.CompetitionNotFound),
    ):
        with pytest.raises(error):
            await Calls(root).ban_user(f"competitions/{competition}", user, reason=reason)
    assert not (await Calls(root).list_competition_actions("competitions/one")).actions


async def test_a_longer_competition_takes_submissions_at_once(organised, kernel):
    """The end was over, and now is not: for submissions, pages, API and board. It says what has changed, and keeps it."""
    organised.file.write_text(toml("one", end_h=-0.5))
    alice, root = await organised.client("alice"), await organised.client("root")
    with pytest.raises(refusals.ReloadRefused, match="'end' of competition 'one' would be over by now"):
        await Calls(root).reload_competitions()
    competitions = organised.running.service.policy
    competitions.replace(competitions.read_again())  # as a restart would
    with pytest.raises(errors.CompetitionClosed):
        await alice.submit(kernel("accept", competition_id="one"))
    with pytest.raises(errors.PermissionDenied):
        await Calls(alice).reload_competitions()
    organised.file.write_text(toml("one", end_h=30))
    (change,) = (await Calls(root).reload_competitions()).changes
    assert (change.competition, change.kind) == ("competitions/one", CHANGED) and [key.key for key in change.keys] == ["end"]
    end = (NOW + timedelta(hours=30)).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert change.keys[0].after == end and change.keys[0].before < end
    await organised.entry(alice, kernel)
    assert await on_board(alice) == ["alice"]
    assert (await Calls(alice).get_competition("competitions/one")).state == competition_pb2.COMPETITION_STATE_OPEN
    assert end[:16] in (await organised.page("/competitions/one"))[1]
    assert not (await Calls(root).reload_competitions()).changes
    (action,) = (await Calls(root).list_competition_actions("competitions/one")).actions
    assert (action.action, action.user) == ("file_reloaded", "root") and action.reason.startswith("changed; end: ")


@pytest.mark.parametrize("broken", ["name = ", 'name = "one"\ntitl = "x"\n', toml("one", problems=("nothing",))])
async def test_one_broken_file_changes_nothing(organised, kernel, broken):
    """Not the good one beside it either; the file, and where it can be told the line, is named."""
    root = await organised.client("root")
    good, bad = (organised.file.parent / name / "competition.toml" for name in ("good", "bad"))
    for file, text in ((organised.file.parent / "one" / "competition.toml", toml("one", end_h=9)), (good, toml("two")), (bad, broken)):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    organised.file.unlink()
    before = await Calls(root).list_competitions()
    with pytest.raises(refusals.ReloadRefused, match=r"the competitions stay as they are: .*bad/competition\.toml"):
        await Calls(root).reload_competitions()
    after = await Calls(root).list_competitions()
    assert after == before and len(after.competitions) == 1
    bad.unlink()
    assert [change.competition for change in (await Calls(root).reload_competitions()).changes] == [
        "competitions/one",
        "competitions/two",
    ]  # the control


async def test_a_reload_tells_no_secret(organised):
    """Neither where it is refused, nor where a competition to come has another seed and other sizes."""
    root = await organised.client("root")
    secret = 'secret_seed = "{}"\n[[secret]]\nproblem = "sum"\naxes = {{ n = {} }}\n'
    for refused, text in ((True, toml("one", extra=secret.format("ab" * 16, 987654))), (False, toml("later", 5, 6))):
        place = organised.file if refused else organised.file.parent / "later" / "competition.toml"
        place.parent.mkdir(exist_ok=True)
        if refused:
            place.write_text(text)
            with pytest.raises(refusals.ReloadRefused, match="'secret', 'secret_seed' can't change any more") as caught:
                await Calls(root).reload_competitions()
            assert "987654" not in str(caught.value) and "abab" not in str(caught.value)
            place.write_text(toml("one"))
        else:
            await asyncio.to_thread(organised.file.rename, organised.file.parent / "one.toml")
            for name, content in (("one", toml("one")), ("later", text)):
                (organised.file.parent / name).mkdir(exist_ok=True)
                (organised.file.parent / name / "competition.toml").write_text(content)
            assert [change.kind for change in (await Calls(root).reload_competitions()).changes] == [
                competition_pb2.COMPETITION_CHANGE_KIND_ADDED
            ]
            place.write_text(toml("later", 5, 6, extra=secret.format("cd" * 16, 123457)))
            answer = await Calls(root).reload_competitions()
            assert {key.key for key in answer.changes[0].keys} == {"secret", "secret_seed"}
            actions = await Calls(root).list_competition_actions("competitions/later")
            assert not any(secret_text in f"{answer}{actions}" for secret_text in ("123457", "cdcd"))


class SlowLedger:
    """A ledger that writes when it is told to. written: the values of each row."""

    def __init__(self):
        self.write_begun, self.released, self.written, self.database = asyncio.Event(), asyncio.Event(), [], self

    def now(self):
        return NOW

    async def write(self, work):
        self.write_begun.set()
        await self.released.wait()
        work(SimpleNamespace(execute=lambda statement: self.written.append(statement.compile().params)))


async def test_a_reload_whose_caller_goes_away_is_recorded_and_done(place):
    """Both or neither: the record says what the server goes by."""
    fakes.write_problem(place / "problems", "sum")
    (file := place / "competition.toml").write_text(toml("one"))
    competitions, ledger = Competitions.load((file,), Problems.load((place / "problems",))), SlowLedger()
    file.write_text(toml("one").replace('"T"', '"Another title"'))
    organising = OrganisingCalls(SimpleNamespace(ledger=ledger), competitions)
    reloading = asyncio.create_task(organising.ReloadCompetitions(None))
    await ledger.write_begun.wait()
    reloading.cancel()
    await asyncio.sleep(0)
    ledger.released.set()
    await asyncio.wait([reloading])
    assert reloading.cancelled() and [competition.title for competition in competitions.all()] == ["Another title"]
    assert [(row["competition_id"], row["reason"]) for row in ledger.written] == [("one", "changed; title: T -> Another title")]


def test_a_terminal_that_is_closed_still_ends_its_server(monkeypatch):
    """Where standard input is a terminal, SIGHUP means that it is gone; and what is ignored, as under nohup, stays so."""
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        master, terminal = os.openpty()
        with open(terminal) as there, open(os.devnull) as nowhere:  # of a descriptor
            monkeypatch.setattr("sys.stdin", there)
            assert not takes_hang_up()
            monkeypatch.setattr("sys.stdin", nowhere)
            assert takes_hang_up()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            assert not takes_hang_up()
        os.close(master)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
async def test_a_server_process_reads_its_competitions_again_at_sighup(settings, place):
    """A broken file is logged and changes nothing; the server goes on, and ends at SIGTERM as before."""
    file = place / "competitions" / "competition.toml"
    file.parent.mkdir()
    file.write_text(toml("one"))
    options = ("--competitions", str(file.parent))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, in processes that are started too
    async with fake_server(
        settings, settings.state_dir, place / "counted", place / "log", *options, listen=settings.listen, stdin=asyncio.subprocess.DEVNULL
    ) as (process, client):
        signal.signal(signal.SIGHUP, before)
        file.write_text("name = ")
        process.send_signal(signal.SIGHUP)
        await until(lambda: "competitions_not_reloaded" in (place / "log").read_text())
        assert (await Calls(client).get_competition("competitions/one")).title == "T"
        file.write_text(toml("one").replace('"T"', '"Another title"'))
        async with asyncio.timeout(300):
            while (await Calls(client).get_competition("competitions/one")).title != "Another title":
                process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
