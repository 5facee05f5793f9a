"""Secrets of a competition are planted everywhere, and then searched for in all that leaves the server."""

import asyncio
import re
import urllib.request
from contextlib import asynccontextmanager
from dataclasses import replace

import sqlalchemy as sa

from grader.api.client import GraderClient
from grader.errors import GraderError, ProblemBroken
from grader.ledger import Ledger
from grader.ledger.tables import submissions
from grader.observability import log
from grader.problems.store import Problems
from grader.server.running import serving
from grader.v1 import rejudge_pb2, submission_pb2
from grader_extensions.competitions.calls import CompetitionCalls
from grader_extensions.competitions.store import Competitions
from sandbox.protocol import wire
from tests import fakes
from tests.server.competition_files import toml

SIZE, SEED, ID = 987654, "feedfacecafebeef" * 2, "secret-1"
PLANTED = (str(SIZE), SEED, ID, "77777")
SECRET = f'secret_seed = "{SEED}"\n[[secret]]\nproblem = "sum"\naxes = {{ n = {SIZE} }}\n'
DRAWN = f'secret_seed = "{SEED}"\n[[secret]]\nproblem = "sum"\naxes = {{ n = {{ low = 1000000000, high = 2000000000 }} }}\n'
NANOSECONDS = 77777
WAIT_S = 300


def words_in(words, shown):
    """Those of the words that are in what was said. A number with other digits around it is another number: some moment's nanoseconds."""
    text = "\n".join(str(part) for part in shown)
    patterns = {word: rf"(?<![0-9])0*{word}(?![0-9])" if word.isdigit() else re.escape(word) for word in words}
    return [word for word, pattern in patterns.items() if re.search(pattern, text)]


class Telltale(fakes.FakeGrade):
    """Says the size wherever there is room for words or numbers."""

    async def _facts(self, lease):
        order = lease.submission.new.sources[0].content.split("grade: ")[1].split(" ")[0]
        workloads = lease.problem.spec.workloads
        secret = [workload for workload in workloads if workload.workload_id == ID]
        size = secret[0].axes["n"] if secret else SIZE
        detail = f"{(secret or workloads)[-1].workload_id} has {size} elements"
        if order == "fault":
            raise ProblemBroken(f"does not fit: {detail}")
        if order == "bug":
            raise KeyError(detail)
        async for fact in super()._facts(lease):
            match fact:
                case wire.Trial(hidden=True):
                    yield replace(
                        fact,
                        message=detail,
                        element_count=size,
                        mismatched_count=size,
                        max_absolute_error=float(size),
                        duration_ns=NANOSECONDS,
                        key=f"{size:032}",
                        wrong_pattern=_wrong_pattern(detail, size),
                    )
                case wire.Measurement(hidden=True):
                    times = wire.Samples(durations_ns=(NANOSECONDS,))
                    yield replace(fact, certified=times, bound_ns=NANOSECONDS, floor_ns=size, moved_bytes=size, conditions={"n": detail})
                case _:
                    yield fact


def _wrong_pattern(name: str, size: int) -> wire.WrongPattern:
    """Return a pattern that says it in its name, its shape, its count, and in the sentence that is made of it."""
    tail = wire.IndexRange(axis=0, size=size, first=1, last=size - 1)
    return wire.WrongPattern(output=name, shape=(size,), kind=wire.PatternKind.REGION, count=size, ranges=(tail,))


@asynccontextmanager
async def telling(settings, place, kernel, capsys, *, competition, secret=SECRET):
    """Everything that a server said when each kind of submission was made: in answers, events, errors, logs, metrics."""
    (place / "competitions").mkdir(exist_ok=True)
    (place / "competitions" / "competition.toml").write_text(toml("one", extra=secret))
    log.configure("json", level=0)
    shown = []
    there = settings.model_copy(update={"competitions": (place / "competitions",), "web": "0"})
    async with serving(there, fakes.wiring(Telltale())) as running, GraderClient(running.address) as client:
        sent = []
        for order in ("accept", "wrong", "fault", "bug"):
            for mode in wire.Mode.TEST, wire.Mode.RANKED:
                sent.append(await client.submit(kernel(order, mode=mode, competition_id="one" if competition else "")))
        shown += sent
        for submission in sent:
            async for event in client.watch(submission.name):
                shown.append(event)
            shown.append(await client.get_submission(submission.name, full=True))
        shown += [await client.list_submissions(), await client.list_problems(), await CompetitionCalls(client).list_competitions()]
        shown += [await CompetitionCalls(client).get_competition("competitions/one"), await client.get_problem("problems/sum")]
        for name in ("competitions/two", "one"):
            try:
                await CompetitionCalls(client).get_competition(name)
            except GraderError as error:
                shown.append(error)
        url = f"http://{running.web_address.rsplit('/', 1)[-1]}/metrics"
        shown.append(await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=30).read().decode()))
        yield client, sent, shown
    shown.append(capsys.readouterr().err)
    log.configure("json", level=50)


async def test_what_is_secret_leaves_the_server_nowhere(settings, place, kernel, capsys):
    """Neither sizes, nor ids, nor the seed, nor a time: in no answer, event, error, log line or metric."""
    async with telling(settings, place, kernel, capsys, competition=True) as (_, sent, shown):
        pass
    text = "\n".join(str(part) for part in shown)
    assert len(sent) == 8 and '"attempt_broke"' in text and '"attempt_failed"' in text and "grader_" in text
    assert words_in(PLANTED, shown) == []


async def test_without_a_competition_the_search_finds_something(settings, place, kernel, capsys):
    """The control: hidden workloads of a problem keep their times, and failures their messages."""
    async with telling(settings, place, kernel, capsys, competition=False) as (_, _, shown):
        pass
    assert words_in((str(SIZE), "77777"), shown) == [str(SIZE), "77777"]


async def test_what_a_final_draws_leaves_the_server_nowhere(settings, place, kernel, capsys):
    """Its sizes and its seed, and those of the file: not in its runs, its failures, its preview, nor in what it leaves behind."""
    async with telling(settings, place, kernel, capsys, competition=True, secret=DRAWN) as (client, sent, shown):
        order = rejudge_pb2.Rejudge(cause="a final", competition="competitions/one", method="REJUDGE_METHOD_RUN", fresh_sizes=True)
        rejudge = await CompetitionCalls(client).create_rejudge(order, request_id="")
        async with asyncio.timeout(WAIT_S):
            while rejudge.state == rejudge_pb2.REJUDGE_STATE_RUNNING:
                await asyncio.sleep(0.02)
                rejudge = await CompetitionCalls(client).get_rejudge(rejudge.name)
        shown += [rejudge, await CompetitionCalls(client).apply_rejudge(rejudge.name), await CompetitionCalls(client).list_rejudges()]
        async with Ledger.open(settings.ledger_path) as ledger:
            runs = [run.submission_id for run in await _runs(ledger)]
        for name in [*(submission.name for submission in sent), *(f"submissions/{run_id}" for run_id in runs)]:
            shown.append(await client.get_submission(name, full=True))
            shown += [event async for event in client.watch(name)]
    competitions = Competitions.load([place / "competitions"], Problems.load([place / "problems"]))
    drawn = [competitions.get("one"), competitions.redrawn("one", rejudge.name.removeprefix("rejudges/"))]
    sizes = [competition.secret_workloads["sum"][0].axes["n"] for competition in drawn]
    async with Ledger.open(settings.ledger_path) as ledger:
        stored = str([await ledger.problem(run.problem_digest) for run in await _runs(ledger)])
    assert len(runs) == 4 and str(sizes[1]) in stored  # those are the sizes that it was run at
    secret = [ID, "77777", *(str(size) for size in sizes), *(competition.secret_seed for competition in drawn)]
    assert len(set(secret)) == 6 and words_in(secret, shown) == []


def test_a_number_is_found_wherever_it_is_one():
    """Padded, with a point behind it or before its zeros, as part of a word; not within another number."""
    for text in ("n=987654", "0" * 26 + "987654", "987654.0", "size_987654.", "0.000987654", "-987654,"):
        assert words_in([str(SIZE)], [text]) == [str(SIZE)], text
    assert words_in([str(SIZE)], ["nanos: 198765432", "seconds: 1987654", "9876540"]) == []


async def _runs(ledger):
    query = sa.select(submissions.c.submission_id, submissions.c.problem_digest).where(submissions.c.rejudge_id.is_not(None))
    return await ledger.database.read(lambda connection: connection.execute(query).all())


async def test_of_a_secret_workload_the_outcome_is_told_and_the_ledger_keeps_the_rest(settings, place, kernel, capsys):
    """The outcome, the verdict and one sentence for all sizes. Its events have the time of the attempt's begin; the database the cause."""
    async with telling(settings, place, kernel, capsys, competition=True) as (client, sent, _):
        shown = [await client.get_submission(submission.name, full=True) for submission in sent]
        events = [event async for event in client.watch(sent[0].name)]
    accepted, ranked = shown[0].report, shown[1].report
    hidden = [trial for trial in accepted.trials if trial.hidden]
    assert [trial.workload_id for trial in hidden] == ["hidden-1", "hidden-2"]
    names = {field.name for trial in hidden for field, _ in trial.ListFields()}
    assert names == {"workload_id", "phase", "outcome", "hidden"}
    assert ranked.process_count == 3 and not [measurement for measurement in ranked.measurements if measurement.hidden]
    assert [measurement for measurement in ranked.measurements if not measurement.hidden]
    hidden_events = [event for event in events if "hidden-" in str(event) and not event.HasField("submission")]
    assert hidden_events and all(event.event_time == shown[0].start_time for event in hidden_events)
    assert any(event.event_time != shown[0].start_time for event in events if event.HasField("trial") and not event.trial.hidden)
    failed = [submission for submission in shown if submission.state == submission_pb2.SUBMISSION_STATE_FAILED]
    assert len(failed) == 4 and all("the details are kept for its organisers" in submission.error.message for submission in failed)
    async with Ledger.open(settings.ledger_path) as ledger:
        messages = str([(await ledger.get(submission.name.removeprefix("submissions/"))).failure.message for submission in failed])
    assert str(SIZE) in messages and "KeyError" in messages
