"""Pages as they come over HTTP: what they show, to whom, and how."""

import html
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from grader.access import ANYBODY, sees_competition
from grader.extensions import NoCompetitions
from grader.model import Caller, Failure, Score, ScoreKind, SourceFile
from grader_extensions.competitions import leaderboard
from grader_extensions.competitions.leaderboard import Standing
from grader_extensions.competitions.model import Competition
from grader_extensions.operation.retention import Retention
from grader_extensions.web import views
from grader_extensions.web.report.report_file import environment
from grader_extensions.web.sessions import asked_from_here, viewer
from grader_extensions.web.tests.site import END, FREEZE, START
from sandbox.protocol import wire
from tests import fakes

BOARD = "/competitions/spring"


def rows(text):
    """Cells of a page's tables, as text."""
    table_rows = re.findall(r"<tr>(.*?)</tr>", text, re.S)
    strip = lambda cell: " ".join(html.unescape(re.sub(r"<[^>]+>", " ", cell)).split())  # noqa: E731
    return [[strip(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)] for row in table_rows]


async def test_a_board_shows_ranks_scores_intervals_and_ties(open_site):
    """In order, those that overlap share a rank; the note on practice is not there for a real device."""
    async with open_site() as here:
        for user, score in (("ann", 2.0), ("bob", 1.99), ("cyd", 1.5), ("dan", 3.0)):
            await here.enter(user, score)
        _, text = await here.get(f"{BOARD}?problem=sum")
        entries = [row[:4] for row in rows(text) if row and row[0] and row[0][0].isdigit()]
        assert [row[:3] for row in entries] == [
            ["1", "dan", "3.00x"], ["2 tie", "ann", "2.00x"], ["2 tie", "bob", "1.99x"], ["4", "cyd", "1.50x"],
        ]  # fmt: skip
        assert entries[0][3] == "2.94x to 3.06x"
        assert "Practice" not in text and "H200" in text


async def test_a_board_has_gap_language_and_number_of_entries(open_site):
    """The gap is to the first; entries are accepted submissions that count, without those after a freeze."""
    async with open_site() as here:
        for user, score in (("ann", 2.0), ("ann", 1.0), ("bob", 1.5), ("bob", 1.4)):
            await here.enter(user, score)
        await here.enter("bob", 1.2, at=FREEZE + timedelta(seconds=1))
        await here.enter("ann", 2.0, problem_id="other")
        here.clock.now = FREEZE + timedelta(seconds=2)
        _, text = await here.get(f"{BOARD}?problem=sum")
        assert [row[1:3] + row[4:7] for row in rows(text)[1:]] == [
            ["ann", "2.00x", "-", "cuda", "2"],
            ["bob", "1.50x", "-25.0 %", "cuda", "2"],
        ]
        _, overall = await here.get(BOARD)
        assert [row[1:2] + row[4:7] for row in rows(overall)[1:]] == [["ann", "-", "2", "3"], ["bob", "-38.8 %", "1", "2"]]
        here.clock.now = END
        assert [row[6] for row in rows((await here.get(f"{BOARD}?problem=sum"))[1])[1:]] == ["2", "3"]


@pytest.mark.parametrize(("kind", "values", "shown"), [
    (ScoreKind.SPEEDUP, (3.0, 1.999, 1.5), ["3.00x", "2.00x", "1.50x"]),
    (ScoreKind.SPEEDUP, (12.34, 1.5), ["12.3x", "1.5x"]),
    (ScoreKind.TIME, (850_000.0, 1_234_567.0), ["850 us", "1235 us"]),
    (ScoreKind.TIME, (1_500.0, 20_000.0), ["1.50 us", "20.00 us"]),
    (ScoreKind.TIME, (12.0,), ["12.0 ns"]), (ScoreKind.SPEEDUP, (), []),
])  # fmt: skip
def test_a_column_of_scores_has_one_unit_and_one_number_of_decimals(kind, values, shown):
    """Trailing zeros stay, so that digits are below each other."""
    figure = views.score_column(values, kind)
    assert [figure(score) for score in values] == shown


def test_a_gap_is_to_the_first():
    """Less speedup, or more time; none of the first and of what has no ratio."""
    assert views.gap(1.5, 2.0, ScoreKind.SPEEDUP) == "-25.0 %" and views.gap(3.0, 2.0, ScoreKind.TIME) == "+50.0 %"
    assert views.gap(2.0, 2.0, ScoreKind.TIME) == "" and views.gap(0.0, 2.0, ScoreKind.TIME) == ""


async def test_sources_have_line_numbers_with_anchors(open_site):
    """Line 2 of the first file is at #L2, that of the second at #F2L2; a text that looks like markup is text."""
    async with open_site(open_server=True) as here:
        files = (SourceFile(path="a.cu", content="one\n<b>two</b>\n"), SourceFile(path="b.cuh", content="x\ny\n"))
        submission_id = await here.enter("ann", 2.0, sources=files)
        for path in (f"/submissions/{submission_id}/sources", f"/submissions/{submission_id}"):
            _, text = await here.get(path)
            assert '<tr id="L2"><td class="line-number"><a href="#L2" aria-label="2" tabindex="-1"></a></td>' in text
            assert 'id="F2L2"' in text and 'href="#F2L2"' in text and "<b>two" not in text and "b.cuh" in text


async def test_boards_are_per_problem_per_device_and_overall(open_site):
    """An emulated device's board says that it is practice; the first board is the overall one."""
    async with open_site() as here:
        await here.enter("ann", 2.0)
        await here.enter("bob", 5.0, problem_id="other")
        await here.enter("cyd", 9.0, device="emulation", official=False)
        _, overall = await here.get(BOARD)
        _, emulated = await here.get(f"{BOARD}?problem=sum&device=emulation")
        _, real = await here.get(f"{BOARD}?problem=sum&device=H200")
        assert 'aria-current="page">Overall' in overall and "ann" in overall and "bob" in overall and "cyd" not in overall
        assert "cyd" in emulated and "Practice, not official: times are of an emulated device." in emulated and "ann" not in emulated
        assert "ann" in real and "Practice" not in real and "cyd" not in real


def test_boards_have_pages():
    """Fifty entries each, and ranks go on."""
    competition = Competition(competition_id="c", title="", problem_ids=("p",), start_time=START, end_time=END)
    standings = [standing(f"user{number:02}", 100.0 - number) for number in range(53)]
    board = leaderboard.board(competition, standings, problem_id="p")
    first, second = (views.board(competition, board, START, {}, {}, page=page) for page in (1, 2))
    assert [entry["rank"] for entry in first["entries"] + second["entries"]] == list(range(1, 54))
    assert len(second["entries"]) == 3 and second["place"].pages == 2
    assert views.board(competition, board, START, {}, {}, page=99)["entries"] == []


def standing(user, score):
    return Standing(
        submission_id=user, user=user, problem_id="p", device="H200", clock=wire.Clock.DEVICE_EVENTS, create_time=START,
        score=Score(value=score, low=score * 0.9999, high=score * 1.0001),
    )  # fmt: skip


async def test_a_page_that_is_no_number_is_no_error(open_site):
    """Such a page is the first; one past the last is empty."""
    async with open_site() as here:
        await here.enter("ann", 2.0)
        for page in ("0", "-1", "x", "9" * 30, "%00", "99"):
            answer, text = await here.get(f"{BOARD}?problem=sum&page={page}")
            assert answer.status == 200 and ("ann" in text) is (page != "99")


async def test_what_is_not_graded_has_a_page_too(open_site):
    """Waiting, and failed by us: the page says so, and nothing of a verdict."""
    async with open_site(open_server=True) as here:
        waiting = await here.ledger.submit(fakes.new_submission(), fakes.problem())
        _, text = await here.get(f"/submissions/{waiting.submission_id}")
        assert "queued" in text and "ACCEPTED" not in text
        lease = await here.ledger.lease("w", ttl_s=30)
        await here.ledger.release(lease, Failure(reason="SANDBOX_BROKEN", message="no <b>box</b>", final=True))
        _, text = await here.get(f"/submissions/{waiting.submission_id}")
        assert "the grader failed" in text and "no &lt;b&gt;box&lt;/b&gt;" in text


async def test_a_report_shows_verdict_times_log_and_history(open_site):
    """All that a reader needs of a submission, on one page; samples are drawn."""
    async with open_site(open_server=True) as here:
        submission_id = await here.enter(
            "ann", 2.0, build=replace(fakes.report().build, log="ptxas info : 32 registers"), output="hello from the kernel"
        )
        _, text = await here.get(f"/submissions/{submission_id}")
        for phrase in ("ACCEPTED", "Right.", "ann", "ptxas info", "n64", "2x (1.96..2.04)", "H200"):
            assert phrase in text, phrase
        assert "hello from the kernel" not in text  # of a competition
        assert text.count('class="dots mark-') == 3 and text.count('class="median') == 3
        _, sources = await here.get(f"/submissions/{submission_id}/sources")
        assert "grade: accept" in sources and "kernel.cu" in sources


async def test_sources_that_are_kept_no_longer_are_said(open_site):
    """Instead of the link to them, which is there before."""
    sentence = "Its sources are kept no longer."
    async with open_site(open_server=True) as here:
        submission_id = await here.enter("ann", 2.0)
        _, before = await here.get(f"/submissions/{submission_id}")
        await Retention(here.ledger, NoCompetitions()).remove_sources(here.clock.now + timedelta(days=1), ["spring"])
        _, after = await here.get(f"/submissions/{submission_id}")
        assert "/sources" in before and sentence not in before
        assert "/sources" not in after and sentence in after and "ACCEPTED" in after


async def test_secret_workloads_are_on_no_page(open_site):
    """Neither their names nor their sizes nor times: only how many there are, and how many passed."""
    async with open_site(open_server=True) as here:
        hidden = (timed_hidden("secret33"), timed_hidden("secret-1"))
        trials = (fakes.trial(), fakes.trial("secret33", hidden=True), fakes.trial("secret-1", hidden=True))
        submission_id = await here.enter("ann", 2.0, trials=trials, measurements=hidden)
        for path in (BOARD, f"{BOARD}?problem=sum", f"/submissions/{submission_id}", f"/submissions/{submission_id}/sources", "/"):
            _, text = await here.get(path)
            assert not re.search(r"secret33|secret-1|70368|00112233|33 elements|987654", text), path
        assert "1 secret workload." in (await here.get(BOARD))[1]


def timed_hidden(name):
    return replace(fakes.measurement(name, hidden=True), certified=wire.Samples(durations_ns=(987654, 987654)))


async def test_an_open_server_is_open_only_to_those_who_come_from_here(open_site):
    """A strange name that leads here, or a proxy that makes the port public, opens nothing. The control: the plain request does."""
    async with open_site(open_server=True, visibility="private") as here:
        submission_id = await here.enter("ann", 2.0)
        assert (await here.get(f"/submissions/{submission_id}"))[0].status == 200
        for headers in ({"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:80"}, {"X-Forwarded-For": "8.8.8.8"}, {"Via": "1.1 x"}):
            assert (await here.get(f"/submissions/{submission_id}", **headers))[0].status == 404, headers


def test_the_rule_of_what_is_shown():
    """The API's: what a competition has opened; and on an open server, to those on its own host."""
    assert sees_competition(ANYBODY, "c", {"c"}) and not sees_competition(ANYBODY, "d", {"c"})
    assert not sees_competition(ANYBODY, "", {"c"}) and sees_competition(Caller(), "", ())
    assert viewer("localhost", [], open_server=True) == Caller() and not ANYBODY.admin and not ANYBODY.may_see("")
    assert viewer("localhost", [], open_server=False) == viewer("evil.example", [], open_server=True) == ANYBODY
    assert asked_from_here("localhost", []) and asked_from_here("[::1]:80", []) and asked_from_here("127.0.0.1:8080", ["Accept"])
    assert not asked_from_here("", []) and not asked_from_here("localhost:80", ["Forwarded"])


async def test_every_answer_has_the_headers_of_a_page_that_runs_nothing(open_site):
    """Pages, errors and the style sheet; no cookies; what is not there is a page too. Where there is a script, it is ours."""
    async with open_site() as here:
        for path, status in (("/", 200), (BOARD, 200), ("/problems", 200), ("/problems/sum", 200), ("/competitions", 200),
                             ("/static/site.js", 200), ("/static/style.css", 200), ("/nothing", 404), ("/static/../pages.py", 404),
                             ("/submissions/x", 404), (f"{BOARD}?problem=none", 404), ("/competitions/%3Cscript%3E", 404)):  # fmt: skip
            answer, text = await here.get(path)
            assert answer.status == status, path
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; style-src 'self'; img-src 'self' data:;") and "unsafe" not in policy
            assert (
                "script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'; form-action 'none'"
                in policy
            )
            assert answer.headers["X-Content-Type-Options"] == "nosniff" and "Set-Cookie" not in answer.headers
            assert text.count("<script") == text.count('<script src="/static/site.js"></script>') == ("<html" in text)
            assert " style=" not in text


async def test_a_competition_has_its_colors_and_its_logo(open_site, tmp_path):
    """In a style sheet and a picture of its own, under the policy of every answer; without them neither is there."""
    (tmp_path / "logo.webp").write_bytes(b"RIFF\x00\x00\x00\x00WEBPVP8 ")
    async with open_site(style='color = "#ffcc00"\nlogo = "logo.webp"') as here:
        _, text = await here.get(BOARD)
        assert f'<link rel="stylesheet" href="{BOARD}/event.css">' in text and f'<img src="{BOARD}/logo" alt="">' in text
        assert f'<link rel="stylesheet" href="{BOARD}/event.css">' in (await here.get("/"))[1]
        style, rules = await here.get(f"{BOARD}/event.css")
        assert rules == ".event { background: #ffcc00; color: #000000; }\n" and style.content_type == "text/css"
        async with here.session.get(here.url(f"{BOARD}/logo")) as logo:
            assert (logo.status, logo.content_type) == (200, "image/webp") and await logo.read() == b"RIFF\x00\x00\x00\x00WEBPVP8 "
            assert logo.headers["X-Content-Type-Options"] == "nosniff" and logo.headers["Content-Security-Policy"].startswith("default-src")
        (tmp_path / "logo.webp").write_bytes(b"<svg/>")  # changed since the file was read
        assert (await here.get(f"{BOARD}/logo"))[0].status == 404
        assert (await here.get("/competitions/none/logo"))[0].status == 404


@pytest.mark.parametrize(("color", "text_color"), [
    ("#000000", "#ffffff"), ("#ffffff", "#000000"), ("#0b5cad", "#ffffff"), ("#ffcc00", "#000000"), ("#767676", "#000000"),
    ("#757575", "#ffffff"),
])  # fmt: skip
def test_a_title_can_be_read_on_every_color(color, text_color):
    """The two greys are those next to equal contrast."""
    assert views.text_color(color) == text_color


async def test_a_competition_without_colors_looks_as_the_site(open_site):
    async with open_site() as here:
        _, text = await here.get(BOARD)
        assert "event.css" not in text and "<img" not in text and (await here.get(f"{BOARD}/logo"))[0].status == 404


async def test_a_page_that_has_not_changed_is_not_sent_again(open_site):
    """By its ETag; after a new entry it is."""
    async with open_site() as here:
        await here.enter("ann", 2.0)
        first, _ = await here.get(f"{BOARD}?problem=sum")
        again, body = await here.get(f"{BOARD}?problem=sum", **{"If-None-Match": first.headers["ETag"]})
        assert again.status == 304 and body == ""
        await here.enter("bob", 3.0)
        changed, _ = await here.get(f"{BOARD}?problem=sum", **{"If-None-Match": first.headers["ETag"]})
        assert changed.status == 200 and changed.headers["ETag"] != first.headers["ETag"]


async def test_our_own_failure_is_a_page_without_its_reason(open_site):
    """The log has it; the page says under which request."""
    async with open_site() as here:
        here.ledger.database = None
        answer, text = await here.get("/submissions/0123456789abcdef")
        assert answer.status == 500 and "Our fault" in text and "NoneType" not in text and "read" not in text


def test_untrusted_text_is_shown_harmlessly():
    """Control characters, direction overrides and zero-width ones are written as escapes, in every template, without a filter."""
    shown = environment().from_string("<p>{{ text }}</p>").render(text="a\x1b[31m\u202eb\u200bc\x00\r<b>&\"'")
    assert shown == "<p>a\\x1b[31m\\u202eb\\u200bc\\x00\\x0d&lt;b&gt;&amp;&#34;&#39;</p>"


@pytest.mark.parametrize(("now", "heading", "words"), [
    (START - timedelta(days=1, hours=2), "Upcoming competitions", 'begins <span data-until="2026-05-01T00:00:00+00:00">in 1 d 2 h</span>'),
    (START + timedelta(hours=1), "Running competitions", 'ends <span data-until="2026-05-03T00:00:00+00:00">in 1 d 23 h</span>'),
    (END - timedelta(minutes=30), "Running competitions", "in 30 min</span>"),
])  # fmt: skip
async def test_competitions_have_a_countdown_and_a_date(open_site, now, heading, words):
    """The date is there without a script; the countdown is of the time when the page was made."""
    async with open_site() as here:
        here.clock.now = now
        _, text = await here.get("/")
        assert heading in text and words in text and "Spring sprint" in text
        assert '<time datetime="2026-05-03T00:00:00+00:00">2026-05-03 00:00 UTC</time>' in text


async def test_a_competition_that_has_ended_is_in_the_list_only(open_site):
    """The first page links to the list of all, and still has its problems first, and then others by name."""
    async with open_site() as here:
        here.clock.now = END
        _, text = await here.get("/")
        assert "Spring sprint" not in text and "No competition is running." in text and 'href="/competitions"' in text
        assert "Spring sprint" in (await here.get("/competitions"))[1]
        assert text.index("/problems/sum") < text.index("/problems/other") and "All problems" in text  # in the competition's order


@pytest.mark.parametrize(("open_server", "headers", "shown"), [
    (True, {}, True), (False, {}, True), (True, {"X-Forwarded-For": "192.0.2.1"}, False), (True, {"Host": "grader.example"}, False),
])  # fmt: skip
async def test_the_queue_is_shown_as_two_counts(open_site, open_server, headers, shown):
    """With keys to everybody, and no more than the counts; on a server without keys to its own host only."""
    async with open_site(open_server=open_server) as here:
        for _ in range(3):
            await here.ledger.submit(fakes.new_submission(user="ann"), fakes.problem())
        await here.ledger.lease("w", ttl_s=30)
        _, text = await here.get("/", **headers)
        assert ("Queue: 2 waiting, 1 running." in text) is shown and ("Queue" in text) is shown
        assert "ann" not in text and "/submissions/" not in text


@pytest.mark.parametrize(("time", "words"), [
    (timedelta(seconds=-5), "0 min"), (timedelta(seconds=59), "0 min"),
    (timedelta(minutes=61), "1 h 1 min"), (timedelta(days=3, hours=5), "3 d 5 h"),
])  # fmt: skip
def test_a_remaining_time_is_rounded_down(time, words):
    """To the hour where it is days, else to the minute; never below none."""
    assert views.remaining(time) == words
