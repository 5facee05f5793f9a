"""WatchSubmissions: one stream for many submissions."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, aclosing
from typing import ClassVar

import grpc
import pytest

from grader import errors
from grader.api.client import GraderClient
from grader.extensions import NoCompetitions
from grader.ledger import Ledger
from grader.ledger.changes import Changes, News, NewsKind
from grader.model import Caller, Failure, Scope, SubmissionState
from grader.server import submission_watch
from grader.server.submission_watch import NAME_LIMIT, PAUSE_S, WATCH_LIMIT, SubmissionUpdates, SubmissionWatch, revision
from grader.v1 import grader_service_pb2 as api
from grader.v1 import grader_service_pb2_grpc, submission_pb2
from tests import fakes
from tests.server.keyed import keyed_server

QUEUED, RUNNING = submission_pb2.SUBMISSION_STATE_QUEUED, submission_pb2.SUBMISSION_STATE_RUNNING
SUCCEEDED, CANCELLED = submission_pb2.SUBMISSION_STATE_SUCCEEDED, submission_pb2.SUBMISSION_STATE_CANCELLED
SOON_S = 300.0
NEVER_S = 3600.0
ANN = Caller(user="ann", scopes=frozenset({Scope.SUBMIT, Scope.READ}), key_id="ann")


async def until(updates, name, state):
    """Read on to this state of this submission."""
    async with asyncio.timeout(SOON_S):
        async for update in updates:
            if update.submission.name == name and update.submission.state == state:
                return update
    raise AssertionError(f"{name} was never {state}")


# -- over the wire ----------------------------------------------------------------------------------------------------------


async def test_each_is_followed_to_its_report_and_then_the_stream_ends(client, kernel):
    """States in their order, each once; reports and nothing of sources with the last; others are not there."""
    submissions = await client.batch_submit([kernel(order, tags=["run"]) for order in ("accept", "wrong", "slow", "accept")])
    await client.submit(kernel(tags=["other"]))
    updates = [update async for update in client.watch_many(tag="run")]
    assert {update.submission.name for update in updates} == {entry.name for entry in submissions}
    for submission in submissions:
        own_updates = [update for update in updates if update.submission.name == submission.name]
        assert [update.revision for update in own_updates] == sorted({update.revision for update in own_updates})
        assert own_updates[-1].submission.state == SUCCEEDED
        shown = await client.get_submission(submission.name)
        assert own_updates[-1].submission.report == shown.report and own_updates[-1].submission.tags == ["run"]
        assert not any(update.submission.sources for update in own_updates)
        assert not any(update.submission.HasField("report") for update in own_updates[:-1])


async def test_names_are_followed_too_also_those_that_have_the_tag(client, kernel):
    """Finished ones are sent once."""
    submissions = await client.batch_submit([kernel(tags=["run"]), kernel(), kernel()])
    names = [submission.name for submission in submissions[:2]]
    assert {update.submission.name async for update in client.watch_many(names=names)} == set(names)
    assert {update.submission.name async for update in client.watch_many(names=names, tag="run")} == {names[0]}
    again = [update async for update in client.watch_many(names=[*names, names[0]])]
    assert sorted(update.submission.name for update in again) == sorted(names)
    assert {update.submission.state for update in again} == {SUCCEEDED}


async def test_without_any_the_stream_ends_at_once_or_waits_for_the_first(client, kernel):
    """The stream does not end by itself unless it is asked to."""
    assert [update async for update in client.watch_many(tag="run")] == []
    async with aclosing(client.watch_many(tag="run", until_idle=False)) as updates:
        for _ in range(2):
            first = asyncio.ensure_future(anext(updates))
            await asyncio.wait([first], timeout=0.3)
            assert not first.done()
            submission = await client.submit(kernel(tags=["run"]))
            first_state = (await asyncio.wait_for(first, SOON_S)).submission
            assert first_state.name == submission.name
            if first_state.state != SUCCEEDED:  # what is graded before the stream looks is sent once
                await until(updates, submission.name, SUCCEEDED)


async def test_what_is_cancelled_is_finished(client, kernel):
    """While it runs, and while it waits."""
    submissions = await client.batch_submit([kernel("hang", tags=["run"]) for _ in range(6)])
    async with aclosing(client.watch_many(tag="run")) as updates:
        await until(updates, submissions[0].name, RUNNING)
        for submission in submissions:
            await client.cancel(submission.name)
        async with asyncio.timeout(SOON_S):
            last = {update.submission.name: update.submission.state async for update in updates}
    assert set(last) >= {entry.name for entry in submissions[1:]} and set(last.values()) == {CANCELLED}


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (api.WatchSubmissionsRequest(), "tag"),
        (api.WatchSubmissionsRequest(tag="a b"), "tag"),
        (api.WatchSubmissionsRequest(names=["s1"]), "names[0]"),
        (api.WatchSubmissionsRequest(names=["submissions/x"] * (NAME_LIMIT + 1)), "names"),
        (api.WatchSubmissionsRequest(tag="a", seen_revisions={"x": 1}), "seen_revisions"),
        (api.WatchSubmissionsRequest(tag="a", seen_revisions={"submissions/x": -1}), "seen_revisions"),
        (api.WatchSubmissionsRequest(tag="a", seen_revisions={f"submissions/{n}": 1 for n in range(NAME_LIMIT + 1)}), "seen_revisions"),
    ],
)
async def test_a_request_that_is_wrong_is_refused_by_its_field(client, request_, field):
    """Before anything is read."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async for _ in client.stub.WatchSubmissions(request_, timeout=60):
            pass
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT and refused.value.details().startswith(f"{field}: ")


async def test_what_was_seen_is_not_sent_again(client, kernel):
    """By its revision; a state that is newer is."""
    submissions = await client.batch_submit([kernel(tags=["run"]), kernel(tags=["run"])])
    updates = [update async for update in client.watch_many(tag="run")]
    last = {update.submission.name: update.revision for update in updates}

    async def unseen_names(revisions):
        request = api.WatchSubmissionsRequest(tag="run", seen_revisions=revisions, until_idle=True)
        return [update.submission.name async for update in client.stub.WatchSubmissions(request, timeout=60)]

    assert await unseen_names(last) == []
    assert await unseen_names({**last, submissions[1].name: last[submissions[1].name] - 1}) == [submissions[1].name]
    assert await unseen_names({}) == [submission.name for submission in submissions]


class BreakingUpdates(grader_service_pb2_grpc.GraderServiceServicer):
    """Breaks each stream after two updates, of which the first is the last of the stream before."""

    def __init__(self):
        self.seen_revisions = []

    async def WatchSubmissions(self, request, context):
        self.seen_revisions.append(dict(request.seen_revisions))
        number = len(request.seen_revisions)
        for index in (max(number, 1), number + 1):
            yield api.SubmissionUpdate(submission=submission_pb2.Submission(name=f"submissions/{index}"), revision=1)
        if number < 3:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")


async def test_a_client_takes_a_broken_stream_up_again(served):
    """The client says what it has seen, and passes nothing on twice."""
    breaking = BreakingUpdates()
    async with GraderClient(await served(breaking)) as client:
        names = [update.submission.name async for update in client.watch_many(tag="run")]
    assert names == [f"submissions/{number}" for number in range(1, 5)]
    assert breaking.seen_revisions == [{f"submissions/{index}": 1 for index in range(1, number)} for number in range(1, 5)]


async def test_a_stream_goes_on_when_the_server_comes_back(serve, kernel, settings):
    """The client hears that it leaves, and continues with the next one."""
    async with AsyncExitStack() as stack, GraderClient(settings.listen) as client:
        first = await stack.enter_async_context(AsyncExitStack())
        await first.enter_async_context(serve(fakes.FakeGrade(), capacity=1))
        submissions = await client.batch_submit([kernel("hang", tags=["run"]), kernel(tags=["run"])])
        updates = await stack.enter_async_context(aclosing(client.watch_many(tag="run")))
        await until(updates, submissions[0].name, RUNNING)
        await first.aclose()
        await stack.enter_async_context(serve(fakes.FakeGrade()))
        assert (await until(updates, submissions[1].name, SUCCEEDED)).submission.report.summary
        await client.cancel(submissions[0].name)
        await until(updates, submissions[0].name, CANCELLED)


# -- whose they are ---------------------------------------------------------------------------------------------------------


async def test_others_are_not_followed(settings, kernel):
    """A name of another user is not there; a tag has one's own. The control: the owner, and an administrator by name."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(keyed_server(settings))
        scopes = {"ann": (Scope.SUBMIT, Scope.READ), "bob": (Scope.SUBMIT, Scope.READ), "root": tuple(Scope)}
        people = {name: await stack.enter_async_context(server.client(await server.key(name, allowed))) for name, allowed in scopes.items()}
        by_ann, by_bob = await people["ann"].submit(kernel(tags=["run"])), await people["bob"].submit(kernel(tags=["run"]))
        for name in (by_ann.name, "submissions/nothing"):
            with pytest.raises(errors.SubmissionNotFound):
                _ = [update async for update in people["bob"].watch_many(names=[by_bob.name, name])]
        assert {update.submission.name async for update in people["bob"].watch_many(tag="run")} == {by_bob.name}
        assert {update.submission.name async for update in people["ann"].watch_many(tag="run")} == {by_ann.name}
        names = [by_ann.name, by_bob.name]
        assert {update.submission.name async for update in people["root"].watch_many(names=names)} == set(names)
        assert [update async for update in people["root"].watch_many(tag="run")] == []


async def test_a_new_one_of_another_user_is_not_followed(settings, kernel):
    """With the same tag, while the stream is open."""
    async with (
        keyed_server(settings) as server,
        server.client(await server.key("ann")) as ann,
        server.client(await server.key("bob")) as bob,
        aclosing(ann.watch_many(tag="run", until_idle=False)) as updates,
    ):
        first = asyncio.ensure_future(anext(updates))
        by_bob = await bob.submit(kernel(tags=["run"]))
        _ = [update async for update in bob.watch_many(names=[by_bob.name])]
        by_ann = await ann.submit(kernel(tags=["run"]))
        assert (await asyncio.wait_for(first, SOON_S)).submission.name == by_ann.name


async def test_a_user_has_so_many_streams_and_no_more(client, kernel):
    """RESOURCE_EXHAUSTED; one that ends makes room."""
    await client.submit(kernel("hang", tags=["run"]))
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(aclosing(client.watch_many(tag="run"))) for _ in range(WATCH_LIMIT)]
        await asyncio.gather(*(anext(stream) for stream in streams))
        with pytest.raises(errors.TooManyWatches) as refused:
            await anext(client.watch_many(tag="run"))
        assert refused.value.limit == WATCH_LIMIT and refused.value.retry_s > 0
        await streams[0].aclose()
        async with asyncio.timeout(SOON_S):
            while True:
                try:
                    await anext(client.watch_many(tag="run"))
                    break
                except errors.TooManyWatches:  # the server has not heard of it yet
                    await asyncio.sleep(0)


# -- what it costs ----------------------------------------------------------------------------------------------------------


class CountingLedger(Ledger):
    """Counts reads."""

    reads: ClassVar = Counter()

    async def heads(self, submission_ids, *, reports=False):
        self.reads["reports" if reports else "heads"] += 1
        return await super().heads(submission_ids, reports=reports)

    async def events(self, submission_id, **options):
        self.reads["events"] += 1
        return await super().events(submission_id, **options)


@pytest.fixture
async def ledger(place):
    CountingLedger.reads.clear()
    async with CountingLedger.open(place / "ledger") as opened:
        yield opened


async def show(submission):
    name, state = f"submissions/{submission.submission_id}", f"SUBMISSION_STATE_{submission.state.name}"
    return submission_pb2.Submission(name=name, state=state, parent="p", annotations={"a": "b"})


def streaming(ledger, *, poll_s=NEVER_S, user="ann", tag_limit=NAME_LIMIT, **request):
    updates = SubmissionUpdates(ledger, show, poll_s, tag_limit=tag_limit)
    return aclosing(updates.stream(api.WatchSubmissionsRequest(**request), Caller(user=user, scopes=ANN.scopes, key_id=user)))


async def submit(ledger, count=1, **fields):
    draft = fakes.new_submission(**{"user": "ann", "tags": ("run",), **fields})
    return [await ledger.submit(draft, fakes.problem()) for _ in range(count)]


async def test_facts_cost_a_watch_of_many_no_read(ledger):
    """However many; only a change of state is looked at. The control: that one is."""
    await submit(ledger, 20)
    async with streaming(ledger, tag="run") as updates:
        for _ in range(20):
            await anext(updates)
        following = asyncio.ensure_future(anext(updates))
        lease = await ledger.lease("w", ttl_s=60)
        assert (await asyncio.wait_for(following, SOON_S)).submission.state == RUNNING
        following = asyncio.ensure_future(anext(updates))
        await asyncio.wait([following], timeout=0.3)
        before = Counter(ledger.reads)
        for _ in range(100):
            await ledger.append(lease, [fakes.trial()])
        await asyncio.wait([following], timeout=0.3)
        assert Counter(ledger.reads) == before and not following.done()
        await ledger.settle(lease, fakes.report())
        assert (await asyncio.wait_for(following, SOON_S)).submission.state == SUCCEEDED
        assert Counter(ledger.reads) - before == Counter(heads=1, reports=1)


async def test_a_watch_of_one_submission_reads_once_for_each_event(ledger, monkeypatch):
    """And not at all while it waits for a device, though its place in the queue is looked up again and again."""
    for name in ("POSITION_DELAY_S", "POSITION_AGE_S", "POSITION_PAUSE_S"):
        monkeypatch.setattr(submission_watch, name, 0.01)
    (submission,) = await submit(ledger)
    watch = SubmissionWatch(ledger, NoCompetitions())
    async with aclosing(watch.stream(ANN, submission.submission_id, 0)) as events:
        assert (await anext(events)).submission.state == QUEUED
        assert (await asyncio.wait_for(anext(events), SOON_S)).HasField("queue_position")
        following = asyncio.ensure_future(anext(events))
        await asyncio.wait([following], timeout=0.3)
        assert ledger.reads["events"] == 1
        lease = await ledger.lease("w", ttl_s=60)
        assert (await asyncio.wait_for(following, SOON_S)).submission.state == RUNNING
        for count in range(10):
            await ledger.append(lease, [fakes.trial()])
            assert (await asyncio.wait_for(anext(events), SOON_S)).HasField("trial")
            assert ledger.reads["events"] == 3 + count


async def test_what_changes_together_is_read_together(ledger):
    """A hundred that are taken up at once are a few reads, not a hundred."""
    await submit(ledger, 100)
    async with streaming(ledger, tag="run") as updates:
        for _ in range(100):
            await anext(updates)
        following = asyncio.ensure_future(anext(updates))
        before = Counter(ledger.reads)
        leases = [await ledger.lease("w", ttl_s=60) for _ in range(100)]
        moved = [await asyncio.wait_for(following, SOON_S), *[await asyncio.wait_for(anext(updates), SOON_S) for _ in range(99)]]
        assert {update.submission.state for update in moved} == {RUNNING}
        assert len({update.submission.name for update in moved}) == len(leases)
        assert (Counter(ledger.reads) - before)["heads"] <= 5


async def test_a_stream_looks_at_most_ten_times_a_second(ledger):
    """Also where something changes without a pause, and its reader is quick: looks are bounded by the time, not by the changes."""
    await submit(ledger, 60)
    loop, before = asyncio.get_running_loop(), Counter(ledger.reads)
    async with streaming(ledger, tag="run", until_idle=True) as updates:
        reading = asyncio.create_task(collect(updates))
        began_s = loop.time()
        for _ in range(60):
            await ledger.settle(await ledger.lease("w", ttl_s=60), fakes.report())
        updates_seen = await asyncio.wait_for(reading, SOON_S)
        took_s = loop.time() - began_s
    assert sum(update.submission.state == SUCCEEDED for update in updates_seen) == 60
    assert (Counter(ledger.reads) - before)["heads"] <= took_s / PAUSE_S + 3


async def collect(updates):
    return [update async for update in updates]


async def test_an_update_is_small(ledger):
    """Without parent and annotations; what has finished and was seen is not read whole."""
    (submission,) = await submit(ledger)
    lease = await ledger.lease("w", ttl_s=60)
    await ledger.settle(lease, fakes.report())
    async with streaming(ledger, tag="run", until_idle=True) as updates:
        (update,) = [message async for message in updates]
    assert update == api.SubmissionUpdate(
        submission=submission_pb2.Submission(name=f"submissions/{submission.submission_id}", state=SUCCEEDED), revision=4
    )
    ledger.reads.clear()
    async with streaming(ledger, tag="run", until_idle=True, seen_revisions={update.submission.name: 4}) as updates:
        assert [message async for message in updates] == [] and ledger.reads == Counter(heads=1)


async def test_of_a_tag_with_very_many_the_newest_are_sent(ledger):
    """In the order in which they were made, and then those that follow."""
    submissions = await submit(ledger, 5)
    async with streaming(ledger, tag_limit=3, tag="run") as updates:
        names = [(await anext(updates)).submission.name for _ in range(3)]
        following = asyncio.ensure_future(anext(updates))
        later = await submit(ledger, 4)
        names.append((await asyncio.wait_for(following, SOON_S)).submission.name)
        names += [(await asyncio.wait_for(anext(updates), SOON_S)).submission.name for _ in range(3)]
    assert names == [f"submissions/{entry.submission_id}" for entry in (*submissions[2:], *later)]


async def test_a_server_that_only_reads_looks_by_itself(place):
    """The reading server hears nothing from the one that writes."""
    async with Ledger.open(place / "l") as writes, Ledger.open(place / "l") as reads, streaming(reads, poll_s=0.2, tag="run") as updates:
        following = asyncio.ensure_future(anext(updates))
        await asyncio.wait([following], timeout=0.2)
        (submission,) = await submit(writes)
        assert (await asyncio.wait_for(following, SOON_S)).submission.name == f"submissions/{submission.submission_id}"
        await writes.cancel(submission.submission_id)
        assert (await asyncio.wait_for(anext(updates), SOON_S)).submission.state == CANCELLED


async def test_a_server_that_leaves_sends_what_is_there_and_ends_the_stream(ledger):
    """So that the client comes again."""
    await submit(ledger)
    async with streaming(ledger, tag="run") as updates:
        ledger.changes.leave()
        assert (await anext(updates)).submission.state == QUEUED
        with pytest.raises(errors.ShuttingDown):
            await anext(updates)


async def test_servers_on_one_database_hear_of_each_others(url):
    """Although neither polls: new ones with the tag, and each change of their states."""
    async with Ledger.open(url) as here, Ledger.open(url) as there, streaming(here, tag="run") as updates:
        following = asyncio.ensure_future(anext(updates))
        await asyncio.wait([following], timeout=0.3)
        (submission,) = await submit(there)
        assert (await asyncio.wait_for(following, SOON_S)).submission.state == QUEUED
        lease = await there.lease("w", ttl_s=60)
        assert (await asyncio.wait_for(anext(updates), SOON_S)).submission.state == RUNNING
        await there.append(lease, [fakes.trial()])
        await there.settle(lease, fakes.report())
        last = await asyncio.wait_for(anext(updates), SOON_S)
        assert last.submission.state == SUCCEEDED and last.submission.name.endswith(submission.submission_id)


async def test_a_revision_grows_with_every_change(ledger):
    """Through attempts that are given back, to each end; the same for every reader."""
    (submission,) = await submit(ledger)
    states = [submission]
    for _ in range(2):
        lease = await ledger.lease("w", ttl_s=60)
        states += [lease.submission, await ledger.release(lease, Failure(reason="X", message="x"), counted=False)]
    states.append(await ledger.cancel(submission.submission_id))
    assert [state.state for state in states] == [
        *[SubmissionState.QUEUED, SubmissionState.RUNNING] * 2, SubmissionState.QUEUED, SubmissionState.CANCELLED,
    ]  # fmt: skip
    numbers = [revision(state) for state in states]
    assert numbers == sorted(set(numbers)) and numbers[0] == 1
    assert [revision(state) for state in await ledger.heads([submission.submission_id])] == numbers[-1:]


async def test_after_news_was_missed_everything_is_looked_at_again():
    """As where the connection to PostgreSQL was away. The control: news of one is of one, and a new one of another tag is none."""
    changes = Changes()
    with changes.of_many("ann", "run") as many:
        many.follow(["a", "b"])
        many.maybe_new = False
        assert many.take(9) == ["a", "b"] and not many.pending
        changes.hear(News(kind=NewsKind.CHANGED, submission_id="b"))
        changes.hear(News(kind=NewsKind.CHANGED, submission_id="c"))
        assert many.take(9) == ["b"] and not many.pending
        changes.made(fakes.new_submission(user="ann", tags=("other",)))
        changes.made(fakes.new_submission(user="bob", tags=("run",)))
        assert not many.pending
        changes.hear(News(kind=NewsKind.MISSED))
        assert many.maybe_new and set(many.take(9)) == {"a", "b"}
    changes.hear(News(kind=NewsKind.MISSED))
    assert many.take(9) == []
