"""The web port, health, readiness and drains, over real sockets."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from grader import errors
from grader.api.client import GraderClient
from grader.observability.observer import LaneNow, LaneState
from grader.server import operation
from grader.server.running import SERVICES, Serving, serving
from grader.v1 import report_pb2
from tests import fakes
from tests.server.processes import until_built

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
TOKEN = "planted-b1946ac92492d234"


class Lanes:
    """The fake fleet's answers about its lanes."""

    def __init__(self):
        self.states = {"cuda:0": LaneState.FREE, "emulated:0": LaneState.FREE}

    def __call__(self):
        return tuple(LaneNow(name=name, state=state) for name, state in self.states.items())


@dataclass
class Operated:
    """A server; stop begins its drain, and task ends with it."""

    running: Serving
    client: GraderClient
    session: aiohttp.ClientSession
    stop: asyncio.Event
    task: asyncio.Task

    async def read(self, path):
        """Status and text of a page."""
        async with self.session.get(f"http://{self.running.web_address}{path}") as answer:
            return answer.status, await answer.text()

    async def health(self, service=""):
        async with grpc.aio.insecure_channel(self.running.address) as channel:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
        return answer.status


@pytest.fixture
def lanes():
    return Lanes()


@pytest.fixture
def operated(settings, lanes):
    """Start a server with a web port, that one lane grades for, and drain it in the end."""

    @asynccontextmanager
    async def start(grade=None, fault=str, **changes):
        there = settings.model_copy(update={"web": "0", "drain_s": 20.0, **changes})
        began, stop = asyncio.get_running_loop().create_future(), asyncio.Event()

        async def serve():
            async with serving(there, fakes.wiring(grade, capacity=1, lanes=lanes, fault=fault)) as running:
                began.set_result(running)
                await stop.wait()

        async with asyncio.timeout(300), asyncio.TaskGroup() as group:
            task = group.create_task(serve())
            running = await began
            async with GraderClient(running.address) as client, aiohttp.ClientSession() as session:
                yield Operated(running, client, session, stop, task)
                stop.set()
                await task

    return start


async def until(look, wanted):
    """Look until it is as wanted."""
    async with asyncio.timeout(300):
        while (value := await look()) != wanted:
            await asyncio.sleep(0.02)
    return value


def sample(text, line):
    """The value of the sample that begins so."""
    values = [row.removeprefix(line).strip() for row in text.splitlines() if row.startswith(line + " ")]
    return float(values[0]) if values else None


async def test_what_a_server_does_is_in_its_metrics(operated, kernel, finished):
    """A verdict, its call, the wait and the stages; and a refused call with its code. A method's name is one of ours."""
    async with operated() as server:
        await finished(server.client, await server.client.submit(kernel("accept")))
        with pytest.raises(errors.SubmissionNotFound):
            await server.client.get_submission("submissions/none")
        async with grpc.aio.insecure_channel(server.running.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary(f"/grader.v1.GraderService/{TOKEN}")(b"")
        status, text = await server.read("/metrics")
    assert sample(text, 'grader_calls_total{code="NOT_FOUND",method="GetSubmission"}') == 1
    assert TOKEN not in text
    assert status == 200
    assert sample(text, 'grader_verdicts_total{reason="",verdict="ACCEPTED"}') == 1
    assert sample(text, 'grader_calls_total{code="OK",method="Submit"}') == 1
    assert sample(text, 'grader_queue_wait_seconds_count{mode="benchmark"}') == 1
    assert sample(text, 'grader_stage_seconds_count{stage="building"}') == 1
    assert sample(text, 'grader_lane_state{lane="cuda:0",state="free"}') == 1


async def test_the_queue_and_open_watches_are_read_when_asked(operated, kernel):
    """The gauges count what waits beside the one that runs, and who watches it."""
    async with operated(drain_s=0.0) as server:
        first = await server.client.submit(kernel("hang"))
        watch = server.client.watch(first.name)
        while not (await anext(watch)).HasField("build"):
            pass
        await server.client.submit(kernel("hang"))
        _, text = await server.read("/metrics")
        await watch.aclose()
    assert sample(text, 'grader_queue_depth{mode="benchmark"}') == 1
    assert sample(text, "grader_attempts_running") == 1
    assert [sample(text, f'grader_device_submissions{{device="any",state="{state}"}}') for state in ("queued", "running")] == [1, 1]
    assert sample(text, 'grader_calls_open{method="WatchSubmission"}') == 1


async def test_nothing_that_was_handed_in_is_in_metrics(operated, kernel, finished):
    """Neither source, nor entry, nor the name of a file, nor a request id."""
    entry = TOKEN.replace("-", "_")
    sent = kernel("wrong", entry=entry)
    sent.sources[0].path, sent.sources[0].content = f"{TOKEN}.cu", sent.sources[0].content.replace("solve", entry)
    async with operated() as server:
        await finished(server.client, await server.client.submit(sent))
        output = "".join([(await server.read(path))[1] for path in ("/metrics", "/healthz", "/readyz")])
    assert "WRONG_ANSWER" in output and TOKEN not in output and entry not in output


async def test_a_quarantined_lane_does_not_serve_and_the_server_does(operated, lanes):
    """Each lane has its own health; with the last one the server is not ready, though alive."""
    async with operated() as server:
        assert [await server.health(f"grader.v1.lane/{name}") for name in lanes.states] == [SERVING, SERVING]
        lanes.states["cuda:0"] = LaneState.QUARANTINED
        await until(lambda: server.health("grader.v1.lane/cuda:0"), NOT_SERVING)
        assert await server.health("grader.v1.lane/emulated:0") == SERVING
        assert (await server.health(), (await server.read("/readyz"))[0]) == (SERVING, 200)
        lanes.states["emulated:0"] = LaneState.QUARANTINED
        assert [(await server.read(path))[0] for path in ("/readyz", "/healthz")] == [503, 200]
        assert "quarantined" in (await server.read("/readyz"))[1]
        lanes.states["cuda:0"] = LaneState.CHECKING
        await until(lambda: server.health("grader.v1.lane/cuda:0"), SERVING)


async def test_a_server_whose_host_can_not_grade_is_not_ready_and_says_why(operated, kernel):
    """The health service says the same. What is handed in meanwhile is taken. The control: well again, it is ready."""
    faults = ["boxes do not work: no engine"]
    async with operated(fault=lambda: "".join(faults), drain_s=0.0) as server:
        assert await server.read("/readyz") == (503, "nothing can be graded: boxes do not work: no engine\n")
        assert [await server.health(name) for name in SERVICES] == [NOT_SERVING, NOT_SERVING]
        assert (await server.client.submit(kernel("hang"))).name
        faults.clear()
        assert await server.read("/readyz") == (200, "ok\n")
        await until(lambda: server.health(SERVICES[1]), SERVING)


async def test_readiness_writes_to_the_ledger(operated, settings, monkeypatch):
    """A file that was moved away is noticed without a submission. The control: before and after that it is ready."""
    monkeypatch.setattr(operation, "PROOF_S", 0.0)
    monkeypatch.setattr(operation, "FAILED_PROOF_S", 0.0)
    async with operated() as server:
        assert await server.read("/readyz") == (200, "ok\n")
        moved = settings.ledger_path.with_name("moved")
        settings.ledger_path.rename(moved)
        status, text = await server.read("/readyz")
        assert status == 503 and "was removed or replaced while it is open" in text
        await until(server.health, NOT_SERVING)
        moved.rename(settings.ledger_path)
        assert await server.read("/readyz") == (200, "ok\n")


async def test_a_ledger_that_another_program_locks_is_not_ready_for_long(operated, settings, monkeypatch):
    """Nobody who asks waits for as long as a write does."""
    monkeypatch.setattr(operation, "PROOF_S", 0.0)
    monkeypatch.setattr(operation, "LEDGER_S", 0.2)
    async with operated() as server:
        with closing(sqlite3.connect(settings.ledger_path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            assert await server.read("/readyz") == (503, "the ledger was not written within 0.2 s\n")
            connection.execute("ROLLBACK")
        await until(lambda: server.read("/readyz"), (200, "ok\n"))


async def test_many_who_ask_whether_it_is_ready_have_the_ledger_written_once(operated):
    """Anybody may ask, without a key."""
    async with operated() as server:
        await server.read("/readyz")
        before = server.running.service.ledger.database.written.transaction_count
        await asyncio.gather(*(server.read("/readyz") for _ in range(50)))
        assert server.running.service.ledger.database.written.transaction_count - before <= 5  # and what a server does by itself


@pytest.mark.slow
async def test_a_draining_server_is_not_ready_ends_what_runs_and_keeps_the_queue(operated, place, kernel, finished):
    """New submissions are UNAVAILABLE from the first moment on; what waited is graded by the next server."""
    grade = fakes.FakeGrade(place / "counted")
    async with operated(grade) as server:
        submissions = [await server.client.submit(kernel("held")) for _ in range(3)]
        await until_built(server.client, submissions[0])
        server.stop.set()
        await until(lambda: server.read("/readyz"), (503, f"{operation.LEAVING}\n"))
        assert await server.health() == NOT_SERVING and (await server.read("/healthz"))[0] == 200
        with pytest.raises(errors.ShuttingDown):
            await server.client.submit(kernel("accept"))
        assert grade.running == 1 and not server.task.done()
        (place / "go").touch()
        await server.task
    assert [submission for submission, _ in grade.attempts] == [submissions[0].name.removeprefix("submissions/")] and not grade.stopped
    async with operated() as server:
        finals = [await finished(server.client, entry) for entry in submissions]
    assert [(final.report.verdict, final.attempt_count) for final in finals] == [(report_pb2.VERDICT_ACCEPTED, 1)] * 3


async def test_the_web_port_is_for_this_host_unless_said_and_said_if_taken(operated, settings, place):
    """A port alone is one of 127.0.0.1. Without it there is no web port."""
    async with serving(settings, fakes.wiring()) as running:
        assert running.web_address == ""
    async with operated() as server:
        address = server.running.web_address
        assert address.startswith("127.0.0.1:")
        there = settings.model_copy(update={"web": address, "state_dir": place / "second", "listen": f"unix:{place}/second.s"})
        with pytest.raises(errors.SettingsInvalid, match="--web: can't listen"):
            async with serving(there, fakes.wiring()):
                pass
