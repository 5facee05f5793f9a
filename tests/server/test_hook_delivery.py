"""Webhooks from a server to a receiver over real sockets: what arrives, how it is signed, what happens to what does not."""

import asyncio
import contextlib
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from grader.ledger import Ledger, hooks
from grader.ledger.hooks import Delivery, DeliveryState, HookEvent
from grader.model import Submission, SubmissionState
from grader.observability.observer import DeliveryOutcome, Observer
from grader.rules.disclosure import Redactor
from grader.server.commands import admin_hooks
from grader.webhooks.sender import HookSender, body, retry_s, signature
from tests import fakes

DELIVERED, GIVEN_UP = DeliveryState.DELIVERED, DeliveryState.GIVEN_UP


class Receiver:
    """A site: keeps what it got, answers what it is told to."""

    def __init__(self):
        self.got, self.statuses, self.here, self.most, self.gate = [], [], 0, 0, asyncio.Event()
        self.gate.set()

    async def take(self, request):
        self.here += 1
        self.most = max(self.most, self.here)
        try:
            self.got.append((request.headers.copy(), await request.read()))
            await self.gate.wait()
            return web.Response(status=self.statuses.pop(0) if self.statuses else 200, text="said \x1b[31m" + "x" * 5000)
        finally:
            self.here -= 1


@pytest.fixture
async def receiver():
    made = Receiver()
    app = web.Application()
    app.router.add_post("/hook", made.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield made
    made.gate.set()
    await runner.cleanup()


@pytest.fixture
def clock():
    class Clock:
        now = datetime(2026, 1, 1, tzinfo=UTC)

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
async def ledger(tmp_path, clock):
    async with Ledger.open(tmp_path / "ledger.sqlite3", now=clock) as opened:
        yield opened


@contextlib.asynccontextmanager
async def sending(ledger, **options):
    """A task that sends, as a server has it."""
    sender = HookSender(ledger, **{"allow_private": True, "poll_s": 0.01, **options})
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.run())
        try:
            yield
        finally:
            sender.stop()


async def until(condition, limit_s=60):
    async with asyncio.timeout(limit_s):
        while not (found := await condition()):
            await asyncio.sleep(0.01)
        return found


async def settled(ledger, count=1):
    async def all_of_them():
        found = await ledger.hooks.deliveries(states=[DELIVERED, GIVEN_UP])
        return found if len(found) >= count else None

    return await until(all_of_them)


async def graded(ledger):
    made = await ledger.submit(fakes.new_submission(), fakes.problem())
    await ledger.settle(await ledger.lease("w", ttl_s=30), fakes.report())
    return made.submission_id


class Watching(Observer):
    """Remembers what came of each try."""

    def __init__(self):
        self.sent = []

    def delivery_sent(self, sent):
        self.sent.append(sent)


async def test_an_observer_is_told_of_every_try(ledger, clock, receiver):
    """Failed, failed for the last time, and delivered, which is another one."""
    await ledger.hooks.create(receiver.url)
    watching = Watching()
    receiver.statuses = [500, 500, 200]
    async with sending(ledger, observer=watching):
        for count, new in enumerate((True, False, True), 1):
            clock.now += timedelta(days=2)
            if new:
                await graded(ledger)

            async def told(count=count):
                return len(watching.sent) == count

            await until(told)
    assert watching.sent == [DeliveryOutcome.FAILED, DeliveryOutcome.GIVEN_UP, DeliveryOutcome.DELIVERED]


async def test_a_server_tells_a_site_of_a_verdict(serve, settings, kernel, finished, receiver):
    """From a submission over gRPC to a signed POST that a site can check with what `hooks create` printed."""
    async with Ledger.open(settings.ledger) as ledger:
        _, secret = await ledger.hooks.create(receiver.url)
    async with serve(hooks_allow_private=True) as client:
        final = await finished(client, await client.submit(kernel("wrong")))

        async def arrived():
            return receiver.got

        [(headers, data)] = await until(arrived)
    told = json.loads(data)
    assert told["event"] == "submission.finished" and told["delivery_id"] == headers["X-Grader-Delivery"]
    assert told["submission"]["name"] == final.name and told["submission"]["state"] == "SUBMISSION_STATE_SUCCEEDED"
    assert told["submission"]["report"]["verdict"] == "VERDICT_WRONG_ANSWER"
    signed = hmac.new(secret.encode(), headers["X-Grader-Timestamp"].encode() + b"." + data, hashlib.sha256).hexdigest()
    assert headers["X-Grader-Signature"] == f"v1={signed}"
    assert signature("another" + secret, headers["X-Grader-Timestamp"], data) != signed
    assert b"sources" not in data and b"secret33" not in data and secret.encode() not in data


async def test_a_server_sends_nothing_to_a_private_address_unless_told(ledger, receiver):
    """The same receiver gets it from a server with --hooks-allow-private: the control."""
    await ledger.hooks.create(receiver.url)
    await graded(ledger)
    async with sending(ledger, allow_private=False):

        async def refused():
            return (await ledger.hooks.deliveries())[0].last_status

        assert "this host only" in await until(refused)
    assert receiver.got == []
    [delivery] = await ledger.hooks.deliveries()
    await ledger.hooks.retry(delivery_id=delivery.delivery_id)
    ledger.hooks._now.now += timedelta(hours=2)
    async with sending(ledger):
        await settled(ledger)
    assert len(receiver.got) == 1


async def test_what_fails_is_sent_again_until_it_arrives(ledger, clock, receiver):
    """500, then a redirect, then 200: three attempts of one delivery, and of each answer at most 200 characters are kept."""
    receiver.statuses = [500, 302, 200]
    await ledger.hooks.create(receiver.url)
    await graded(ledger)
    kept = set()
    async with sending(ledger):

        async def arrived():
            [one] = await ledger.hooks.deliveries()
            kept.add(one.last_status)
            clock.now += timedelta(seconds=1)
            return one.state is DELIVERED

        await until(arrived)
    assert len(receiver.got) == 3 and len({headers["X-Grader-Delivery"] for headers, _ in receiver.got}) == 1
    assert max(len(one) for one in kept) == 200 and "\x1b" not in "".join(kept) and "HTTP 500: said \\x1b" in "".join(kept)


async def test_two_servers_send_one_delivery_once(ledger, clock, receiver):
    """While one sends, however slowly, the other leaves it alone; the claim outlasts any sending."""
    await ledger.hooks.create(receiver.url)
    made = [await graded(ledger) for _ in range(6)]
    receiver.gate.clear()
    async with sending(ledger), sending(ledger):

        async def both():
            return receiver.here >= 6

        await until(both)
        clock.now += timedelta(seconds=30)
        await asyncio.sleep(0.1)  # rounds in which nothing may happen
        receiver.gate.set()
        await settled(ledger, 6)
    told = [json.loads(data)["submission"]["name"] for _, data in receiver.got]
    assert sorted(told) == sorted(f"submissions/{one}" for one in made)


async def test_a_rejudge_that_was_applied_is_told_with_the_history(ledger, clock, receiver):
    """The event has its own name, and the submission all its judgements."""
    await ledger.hooks.create(receiver.url)
    await graded(ledger)
    await ledger._database.write(lambda connection: hooks.enqueue(connection, clock.now, [1], HookEvent.JUDGED_AGAIN))
    async with sending(ledger):
        await settled(ledger, 2)
    told = {json.loads(data)["event"]: json.loads(data)["submission"] for _, data in receiver.got}
    assert set(told) == {"submission.finished", "judgement.changed"}
    assert [one["sequence"] for one in told["judgement.changed"]["judgements"]] == [1]


def test_waits_double_to_an_hour_and_are_spread():
    """A day holds a few dozen of them."""
    longest = [retry_s(attempt, lambda low, high: high) for attempt in range(1, 40)]
    assert longest[:4] == [5, 10, 20, 40] and max(longest) == 3600
    assert retry_s(3, lambda low, high: low) == 10
    assert sum(longest[:30]) < 24 * 3600 < sum(longest)


def test_the_body_is_the_same_bytes_for_the_same_submission():
    """A receiver may keep digests of what it got."""
    time = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
    report = replace(fakes.report(), environment=replace(fakes.ENVIRONMENT, versions={str(n): "1" for n in range(40)}))
    submission = Submission(
        submission_id="s", new=fakes.new_submission(), problem_digest="d", state=SubmissionState.SUCCEEDED, create_time=time, report=report
    )
    delivery = Delivery(
        delivery_id="d1", hook_id="h", submission_id="s", event=HookEvent.FINISHED, state=DeliveryState.WAITING, attempt=1,
        next_time=time, give_up_time=time, create_time=time,
    )  # fmt: skip
    data = body(delivery, submission, Redactor.of(fakes.problem()), time)
    assert data == body(delivery, submission, Redactor.of(fakes.problem()), time)
    told = json.loads(data)
    assert told["sent_time"] == "2026-01-02T03:04:05.678Z" and "sources" not in told["submission"]
    assert list(told["submission"]["report"]["environment"]["versions"]) == sorted(str(n) for n in range(40))


def test_an_administrator_makes_lists_and_removes_hooks(tmp_path, capsys):
    """The secret is shown once; lists never have it; what is wrong is said in one line with exit code 2."""

    def admin(*words):
        code = admin_hooks.main([*words, "--state-dir", str(tmp_path)])
        told = capsys.readouterr()
        return code, told.out, told.err

    code, out, _ = admin("create", "https://site.example/hook?token=t", "--user", "ann", "--json")
    made = json.loads(out)
    assert code == 0 and len(made["secret"]) > 40
    code, out, _ = admin("list")
    assert code == 0 and made["hook_id"] in out and "ann" in out and made["secret"] not in out
    assert made["secret"] not in admin("list", "--json")[1]
    assert admin("create", "http://site.example/")[0] == 2
    assert admin("remove", made["hook_id"])[0] == 0
    code, out, error = admin("remove", made["hook_id"])
    assert code == 2 and "no webhook" in error and not out
    assert admin("retry", "nothing")[0] == 2
