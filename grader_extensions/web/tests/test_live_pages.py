"""The page of a submission while it is graded, and the stream that it reads: the API's WatchSubmission, to the same callers."""

import asyncio
import contextlib
import json
import re
from dataclasses import replace
from datetime import timedelta

import aiohttp
import pytest
from aiohttp import web

from grader.api.client import GraderClient
from grader.errors import ShuttingDown
from grader.model import Failure
from grader.peers import PeerLimits
from grader.server.running import serving
from grader.v1 import report_pb2, submission_pb2
from grader_extensions.competitions.competition_file import problem_for
from grader_extensions.web import views
from grader_extensions.web.live import LiveSubmissions
from grader_extensions.web.pages import SCRIPT
from sandbox.protocol import wire
from tests import fakes
from tests.server.web_apps import served_app
from tests.waiting import until

LIMIT_S = 300.0  # no stream of these tests lasts so long


async def read(here, path, **headers):
    """A stream to its end, as events: a dict of fields each."""
    async with asyncio.timeout(LIMIT_S), here.session.get(here.url(path), headers=headers) as answer:
        assert answer.status == 200 and answer.headers["Content-Type"] == "text/event-stream"
        return parsed(await answer.text())


def parsed(text):
    events = [dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")) for block in text.split("\n\n")]
    return [event_fields for event_fields in events if event_fields]


def texts(events):
    """Of each event its stage or its result."""
    return [shown["stage"] or shown["text"] for shown in (json.loads(entry["data"]) for entry in events if "id" in entry)]


async def running(here, **fields):
    """A submission that is being graded, with its lease."""
    submission = await here.ledger.submit(fakes.new_submission(**fields), fakes.problem())
    return submission, await here.ledger.lease("w", ttl_s=300)


async def finish(here, lease, *facts):
    await here.ledger.append(lease, list(facts))
    await here.ledger.settle(lease, fakes.report())


async def test_a_stream_follows_a_submission_to_its_end(open_site):
    """State, stage and progress; then the event of the end, and the stream is over."""
    async with open_site(open_server=True) as here:
        submission, lease = await running(here)
        reading = asyncio.create_task(read(here, f"/submissions/{submission.submission_id}/events"))
        await here.ledger.append(lease, [fakes.ENVIRONMENT, wire.Progress(stage=wire.Stage.BUILDING)])
        await finish(here, lease, wire.Progress(stage=wire.Stage.VERIFYING, workload_id="n64"), fakes.trial())
        events = await reading
        assert events[0] == {"retry": "3000"} and events[-1] == {"event": "end", "data": "{}"}
        assert texts(events) == ["", "", "on fake", "building", "verifying n64", "n64: passed", ""]
        assert [json.loads(entry["data"])["state"] for entry in events if "id" in entry] == ["queued", "running", *4 * [""], "succeeded"]
        assert [entry["id"] for entry in events if "id" in entry] == ["1", "2", "3", "4", "5", "6", "7"]


async def test_a_stream_waits_for_what_is_found_after_the_verdict(open_site):
    """The page shows the verdict at once, and is loaded again when the report has the findings."""
    async with open_site(open_server=True) as here:
        submission, lease = await running(here)
        reading = asyncio.create_task(read(here, f"/submissions/{submission.submission_id}/events"))
        await finish(here, lease, wire.Progress(stage=wire.Stage.PROFILING))
        finished, _ = await asyncio.wait([reading], timeout=0.2)
        await here.ledger.amend(lease, replace(fakes.report(), profile=fakes.PROFILE), [fakes.PROFILE])
        events = await reading
        assert not finished and events[-1]["event"] == "end"
        assert [json.loads(entry["data"])["state"] for entry in events if "id" in entry] == ["queued", "running", "", "succeeded"]


async def test_a_stream_goes_on_after_what_was_seen(open_site):
    """By the header that a browser sends when it connects again, else by what the page asks for; a strange number is none."""
    async with open_site(open_server=True) as here:
        submission, lease = await running(here)
        await finish(here, lease, wire.Progress(stage=wire.Stage.BUILDING))
        at = f"/submissions/{submission.submission_id}/events"
        count = {}
        for path, headers in ((at, {}), (f"{at}?after=2", {}), (f"{at}?after=1", {"Last-Event-ID": "3"}), (f"{at}?after=4", {}),
                              (f"{at}?after=-1", {}), (f"{at}?after={'9' * 40}", {}), (at, {"Last-Event-ID": "x"})):  # fmt: skip
            events = await read(here, path, **headers)
            count[path, *headers.values()] = len([entry for entry in events if "id" in entry])
            assert events[-1]["event"] == "end"
        assert list(count.values()) == [4, 2, 1, 0, 4, 4, 4]


async def test_the_page_shows_what_has_happened_and_is_live(open_site):
    """Without a script it is loaded again every few seconds; with one it goes on after what it shows. At the end it is the report."""
    async with open_site(open_server=True) as here:
        submission, lease = await running(here)
        await here.ledger.append(lease, [wire.Progress(stage=wire.Stage.BUILDING)] * 2)
        at = f"/submissions/{submission.submission_id}"
        answer, text = await here.get(at)
        policy = answer.headers["Content-Security-Policy"]
        assert f'data-events="/submissions/{submission.submission_id}/events" data-after="4"' in text and text.count("<li>building") == 1
        assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in text and ">Reload</a>" in text
        assert text.count("<script") == 1 and "script-src 'self'; connect-src 'self'" in policy and "unsafe" not in policy
        await finish(here, lease)
        answer, text = await here.get(at)
        assert "ACCEPTED" in text and "refresh" not in text and 'id="live"' not in text


async def test_a_place_in_the_queue_is_shown(open_site):
    """On the page and in the stream; the stream of one that is cancelled ends, and that of one that the grader failed at."""
    async with open_site(open_server=True) as here:
        for _ in range(2):
            waiting = await here.ledger.submit(fakes.new_submission(), fakes.problem())
        at = f"/submissions/{waiting.submission_id}"
        assert "1 ahead in the queue" in (await here.get(at))[1]
        reading = asyncio.create_task(read(here, f"{at}/events"))
        await here.ledger.cancel(waiting.submission_id)
        events = await reading
        assert json.loads(events[-2]["data"])["state"] == "cancelled" and events[-1]["event"] == "end"
        _, lease = await running(here)  # which is the other one
        await here.ledger.release(lease, Failure(reason="SANDBOX_BROKEN", message="no box", final=True))
        assert (await read(here, f"/submissions/{lease.submission.submission_id}/events"))[-1]["event"] == "end"


@pytest.mark.parametrize(("open_server", "headers"), [
    (False, {}), (True, {"Host": "grader.example"}), (True, {"X-Forwarded-For": "192.0.2.1"}), (True, {"Via": "1.1 x"}),
])  # fmt: skip
async def test_a_stream_is_there_for_those_only_who_may_see_the_submission(open_site, open_server, headers):
    """Else it is the page of what is not there, with the same words; the control is every test above."""
    async with open_site(open_server=open_server) as here:
        submission, _ = await running(here, user="ann")
        answers = []
        for submission_id in (submission.submission_id, "0000000000000000"):
            answer, text = await here.get(f"/submissions/{submission_id}/events", **headers)
            answers.append((answer.status, answer.headers["Content-Type"], text))
        assert answers[0] == answers[1] and answers[0][0] == 404


async def test_secret_workloads_are_not_in_a_stream(open_site):
    """Neither their names nor numbers; and what comes while they are run comes when something else has happened."""
    async with open_site(open_server=True) as here:
        problem = problem_for(here.competitions.get("spring"), fakes.problem())
        submission = await here.ledger.submit(fakes.new_submission(user="ann", competition_id="spring"), problem)
        lease = await here.ledger.lease("w", ttl_s=300)
        reading = asyncio.create_task(read(here, f"/submissions/{submission.submission_id}/events"))
        secret = [wire.Progress(stage=wire.Stage.VERIFYING, workload_id="secret33"), fakes.trial("secret33", hidden=True)]
        await here.ledger.append(lease, secret)
        _, page = await here.get(f"/submissions/{submission.submission_id}")
        await finish(here, lease, *secret)
        for text in (page, json.dumps(await reading)):
            assert "verifying hidden-1" in text and "secret33" not in text and "33" not in text.replace(submission.submission_id, "")


async def test_a_ranked_submission_shows_its_processes_while_it_runs_and_afterwards(open_site):
    """In a competition that is not over, whose report has no timeline: only times that the events have, of secret workloads none."""
    async with open_site(open_server=True) as here:
        problem = problem_for(here.competitions.get("spring"), fakes.problem())
        submission = await here.ledger.submit(fakes.new_submission(user="ann", competition_id="spring"), problem)
        at = f"/submissions/{submission.submission_id}"
        here.clock.now += timedelta(seconds=2)
        lease = await here.ledger.lease("w", ttl_s=300)
        secret = wire.Progress(stage=wire.Stage.MEASURING, workload_id="secret33")
        for seconds, fact in (
            (0, wire.Progress(stage=wire.Stage.BUILDING)), (3, wire.Round(index=0, count=2)), (5, secret), (7, secret),
            (20, wire.Round(index=1, count=2)), (1, wire.Progress(stage=wire.Stage.VERIFYING, workload_id="n64")),
        ):  # fmt: skip
            here.clock.now += timedelta(seconds=seconds)
            await here.ledger.append(lease, [fact])
        _, text = await here.get(at)
        assert '<span data-live="process">process 2 of 2</span> <bdi data-live="stage">verifying n64</bdi>' in text
        here.clock.now += timedelta(seconds=10)
        await finish(here, lease)
        _, text = await here.get(at)
        timeline = re.findall(r'<th scope="row">([^<]*)</th><td class="number">([0-9.]+)</td></tr>', text.partition('id="timeline"')[2])
        assert timeline == [("queue", "2"), ("building", "3"), ("process 1 of 2", "32"), ("process 2 of 2", "11")]


async def test_streams_are_limited_and_counted(open_site):
    """An address has so many; what is over is refused at once, and one that has ended makes room."""
    async with open_site(open_server=True, stream_limits=PeerLimits(total=9, per_address=2)) as here:
        submission, lease = await running(here)
        at = here.url(f"/submissions/{submission.submission_id}/events")
        async with contextlib.AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(here.session.get(at)) for _ in range(2)]
            async with here.session.get(at) as refused:
                assert refused.status == 503 and refused.headers["Retry-After"] == "10"
                assert [response.status for response in opened] == [200, 200]
            await finish(here, lease)
            for stream in opened:
                assert "event: end" in await stream.text()
        assert (await read(here, f"/submissions/{submission.submission_id}/events"))[-1]["event"] == "end"


class Silent:
    """Events that never come, until it has to end."""

    def __init__(self):
        self.leaving, self.ended = asyncio.Event(), asyncio.Event()

    async def stream(self, caller, submission_id, after, *, until_findings):
        try:
            await self.leaving.wait()
            raise ShuttingDown()
            yield
        finally:
            self.ended.set()


async def test_a_silent_stream_has_heartbeats_and_ends_with_the_server(open_site):
    """Comments, which a browser does not show; a server that leaves ends it without an end event, so that the browser comes again."""
    async with open_site(open_server=True) as here:
        submission, _ = await running(here)
        events = Silent()
        async with live_stream(here, submission, events) as (live, answer):
            lines = [await answer.content.readline() for _ in range(6)]
            assert lines.count(b": still here\n") >= 2 and live.count.total == 1
            events.leaving.set()
            async with asyncio.timeout(LIMIT_S):
                assert b"event: end" not in await answer.read()


async def test_a_server_that_stops_ends_its_streams(settings, kernel):
    """The submission is given back to the queue, and the browser comes again."""
    there = settings.model_copy(update={"web": "127.0.0.1:0"})
    async with aiohttp.ClientSession() as session:
        async with serving(there, fakes.wiring()) as server, GraderClient(server.address) as client:
            submission = await client.submit(kernel("hang"))
            answer = await session.get(f"http://{server.web_address}/{submission.name}/events")
            while b"building" not in await answer.content.readline():
                pass
        async with asyncio.timeout(LIMIT_S):
            assert b"event: end" not in await answer.read()


async def test_the_page_has_all_that_has_happened_however_much(open_site):
    """More than is read of the ledger at once; the last lines are shown."""
    async with open_site(open_server=True) as here:
        submission, lease = await running(here)
        await here.ledger.append(lease, [wire.Progress(stage=wire.Stage.VERIFYING, workload_id=f"n{number}") for number in range(600)])
        _, text = await here.get(f"/submissions/{submission.submission_id}")
        assert 'data-after="602"' in text and "verifying n599" in text and text.count("<li>verifying") == views.LINES


async def test_a_reader_who_leaves_ends_the_stream(open_site):
    """At the next heartbeat nothing of it is left: no watch, and no place among those that are counted."""
    async with open_site(open_server=True) as here:
        submission, _ = await running(here)
        events = Silent()
        async with live_stream(here, submission, events) as (live, answer):
            await answer.content.readline()
            answer.close()
            await until(lambda: events.ended.is_set() and not live.count.total)


@contextlib.asynccontextmanager
async def live_stream(here, submission, events):
    """Serve these events with a short pause between heartbeats; the pages, and the answer to one who reads the stream."""
    live = LiveSubmissions(here.web_site(), PeerLimits(total=9, per_address=9), heartbeat_s=0.01)
    here.service.watch = events
    async with served_app(web.get("/submissions/{id}/events", live.events)) as port:
        yield live, await here.session.get(f"http://127.0.0.1:{port}/submissions/{submission.submission_id}/events")


def event(**fields):
    return submission_pb2.SubmissionEvent(sequence=7, attempt=1, **fields)


@pytest.mark.parametrize(("update", "text"), [
    (event(trial=report_pb2.Trial(workload_id="n64\r\n\r\nevent: end", outcome="TRIAL_OUTCOME_PASSED")), "n64 event: end: passed"),
    (event(environment=report_pb2.Environment(device="\u202e<b>\x1b[31m")), "on \\u202e<b>\\x1b[31m"),
    (event(progress=submission_pb2.Progress(stage="STAGE_MEASURING", workload_id="n64")), "measuring n64"),
    (event(progress=submission_pb2.Progress(stage="STAGE_LOADING", process=2, process_count=3)), "loading"),
    (event(build=report_pb2.Build(outcome="BUILD_OUTCOME_BUILT")), "build: built"),
])  # fmt: skip
def test_a_text_is_one_line_of_one_event(update, text):
    """No text ends its event or forges another one; nothing hides or reorders it."""
    message = views.message(update)
    assert texts(parsed(message.decode())) == [text] and message.count(b"\n") == 3 and message.isascii()


def test_what_says_nothing_is_not_sent():
    """Facts that concern the grader alone are empty events; of a hidden workload pages show no time, of a public one they do."""
    assert views.message(event()) == b""
    for hidden in (True, False):
        message = views.message(event(measurement=report_pb2.Measurement(workload_id="n64", hidden=hidden)))
        assert (message == b"") is hidden


def test_the_script_is_small_and_makes_no_markup():
    """Text only, and below 4 KB."""
    text = SCRIPT.read_text()
    assert len(text.encode()) < 4096
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval", "Function(", ".style", "import"):
        assert word not in text, word
