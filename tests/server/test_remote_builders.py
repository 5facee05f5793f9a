"""Workers that build for others: which one is asked, what is believed of it, and what becomes of a build when one of the two goes."""

import asyncio
import hashlib
import pickle
from collections import Counter
from contextlib import asynccontextmanager

import grpc
import pytest

from grader.artifacts import BuildResult
from grader.artifacts.files import CHUNK_BYTES
from grader.dispatch import build_messages, remote_builders
from grader.dispatch.build_messages import BuildReceived, build_asked, build_message, build_pieces
from grader.dispatch.lease_messages import lease_to_bytes
from grader.dispatch.worker_stream import ProtocolViolation, checked_standing
from grader.errors import SandboxBroken
from grader.fleet.v1 import fleet_pb2
from grader.grading.build import build_input
from grader.observability.observer import BuilderNow
from grader.server.grading import Builds
from sandbox.protocol import wire
from sandbox.protocol.wire import BuildOutcome
from tests import fakes
from tests.server.fleet_workers import graded, inside, lease, standing, until, working

ARTIFACT = bytes(range(256)) * 4096  # several pieces
DIGEST = hashlib.sha256(ARTIFACT).hexdigest()
BUILD = wire.Build(outcome=BuildOutcome.BUILT, log="a log", artifact_digest=DIGEST)
MADE = BuildResult(build=BUILD, artifact=ARTIFACT, cacheable=True)
REJECTED = BuildResult(build=wire.Build(outcome=BuildOutcome.REJECTED, log="line 1: no"), artifact=None, cacheable=True)
LINE = wire.encode(BUILD)


def builder(places=2, toolchain="t", **more):
    return fleet_pb2.Standing(build_capacity=places, toolchain=toolchain, **more)


def request(attempt=1, environment=None, toolchain="t"):
    line = wire.encode(fakes.ENVIRONMENT) if environment is None else environment
    return {"build_request": fleet_pb2.BuildRequest(attempt=attempt, environment=line, toolchain=toolchain)}


def piece(number=1, content=ARTIFACT, build=LINE, *, last=True):
    return {"build_piece": fleet_pb2.BuildPiece(number=number, content=content, build=build, last=last)}


async def received(worker):
    """What a worker is sent of a build, to its last piece."""
    found = BuildReceived()
    async with asyncio.timeout(30):
        while True:
            message = await worker.heard()
            assert message.WhichOneof("message") == "build_piece", message
            if found.add(message.build_piece):
                return found.made


@asynccontextmanager
async def grading(address, fleet, given=None, **more):
    """A worker that has an attempt and asks for its build."""
    async with inside(address, **more) as worker:
        task = asyncio.create_task(graded(fleet, given or lease()))
        attempt = await worker.grade()
        await worker.say(**request(attempt.attempt))
        yield worker
        worker.call.cancel()
        await asyncio.gather(task, return_exceptions=True)


# -- as messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [MADE, REJECTED, None, BuildResult(build=BUILD, artifact=ARTIFACT, cacheable=False)])
def test_what_was_built_arrives_as_it_was(made) -> None:
    pieces = list(build_pieces(7, made))
    assert {one.number for one in pieces} == {7} and all(len(one.content) <= CHUNK_BYTES for one in pieces)
    found = BuildReceived()
    assert [found.add(one) for one in pieces] == [False] * (len(pieces) - 1) + [True]
    assert found.made == made


def test_a_builder_gets_what_a_build_box_gets_and_no_hidden_size() -> None:
    job, files = build_input(lease("accept"), fakes.ENVIRONMENT)
    message = build_message(1, job, files, "ada")
    assert build_asked(message) == (job, files)
    for hidden in (b"secret33", b"def reference"):
        assert hidden in lease_to_bytes(lease("accept")) and hidden not in message.SerializeToString()


@pytest.mark.parametrize("path", ["../job.json", "/etc/passwd", "files/../../x", "files//x"])
def test_a_builder_writes_no_file_elsewhere(path) -> None:
    job, _ = build_input(lease(), fakes.ENVIRONMENT)
    with pytest.raises(ValueError, match="leads elsewhere"):
        build_asked(build_message(1, job, {path: b""}, ""))


@pytest.mark.parametrize(
    "given",
    [
        standing(build_capacity=1),
        fleet_pb2.Standing(build_capacity=1, device_kinds=["emulated"]),
        builder(lanes=[fleet_pb2.Lane(name="cuda:0", state="FREE")]),
        builder(10**6),
        builder(-1),
        builder(toolchain="\x1b[2J"),
        builder(toolchain="x" * 101),
    ],
)
def test_a_builder_that_makes_no_sense_is_not_let_in(given) -> None:
    """The control is every other test here."""
    with pytest.raises(ProtocolViolation):
        checked_standing(given)


# -- a server between the two ---------------------------------------------------------------------------------------------


async def test_a_builder_builds_for_a_worker(fleet, address) -> None:
    """The server makes the job of its own lease: the worker says only what it is built for, and with."""
    async with inside(address, builder(), instance="b") as there, grading(address, fleet, lease("accept")) as worker:
        asked = (await there.heard()).build
        assert build_asked(asked) == build_input(lease("accept"), fakes.ENVIRONMENT) and asked.user == lease("accept").submission.new.user
        assert fleet.builders() == (BuilderNow(name="local/b", capacity=2, building=1, takes=True),)
        for one in build_pieces(asked.number, MADE):
            await there.say(build_piece=one)
        assert await received(worker) == MADE
        assert fleet.builders()[0].building == 0 and fleet.capacity() == 2 and fleet.lanes() == ()


async def test_a_kernel_that_a_builder_rejects_is_rejected(fleet, address) -> None:
    async with inside(address, builder()) as there, grading(address, fleet) as worker:
        for one in build_pieces((await there.heard()).build.number, REJECTED):
            await there.say(build_piece=one)
        assert await received(worker) == REJECTED


@pytest.mark.parametrize("given", [None, builder(toolchain="other"), builder(leaving=True)])
async def test_a_worker_builds_itself_where_nobody_else_can(fleet, address, given) -> None:
    """No builder, one with other compilers, or one that leaves."""
    if given is None:
        async with grading(address, fleet) as worker:
            assert await received(worker) is None
        return
    async with inside(address, given), grading(address, fleet) as worker:
        assert await received(worker) is None


async def test_a_builder_without_room_is_passed_over(fleet, address) -> None:
    async with inside(address, builder(1)) as there, grading(address, fleet), grading(address, fleet, lease(submission_id="s2")) as second:
        await there.heard()
        assert await received(second) is None


async def test_a_cordoned_builder_is_passed_over(fleet, address) -> None:
    fleet.cordon({"local-1"})
    async with inside(address, builder()), grading(address, fleet) as worker:
        assert await received(worker) is None and not fleet.builders()[0].takes
    fleet.cordon(())


async def test_the_same_sources_go_to_the_same_builder(fleet, address) -> None:
    """It may have them in its cache; of other sources some go to the other one."""
    async with inside(address, builder(64), instance="a") as one, inside(address, builder(64), instance="b") as two:
        where = []
        orders = ["accept"] * 3 + [f"accept {number}" for number in range(12)]
        async with inside(address, standing(capacity=64)) as worker:
            heard = {name: asyncio.create_task(there.heard()) for name, there in (("one", one), ("two", two))}
            tasks = []
            for number, order in enumerate(orders):
                tasks.append(asyncio.create_task(graded(fleet, lease(order, submission_id=f"s{number}"))))
                attempt = await worker.grade()
                await worker.say(**request(attempt.attempt))
                done, _ = await asyncio.wait(heard.values(), return_when=asyncio.FIRST_COMPLETED, timeout=30)
                (name,) = (name for name, task in heard.items() if task in done)
                where.append(name)
                there = {"one": one, "two": two}[name]
                heard[name] = asyncio.create_task(there.heard())
            for ended in (worker, one, two):
                ended.call.cancel()
            await asyncio.gather(*heard.values(), *tasks, return_exceptions=True)
    assert len(set(where[:3])) == 1 and len(set(where)) == 2


FORGED = {
    "another digest": [piece(content=b"other")],
    "an artifact of a build that failed": [piece(build=wire.encode(REJECTED.build))],
    "a build without its artifact": [piece(content=b"")],
    "a fact that is no build": [piece(build=wire.encode(fakes.trial()))],
    "a pickle": [piece(build=pickle.dumps(Counter))],
    "another build": [piece(number=2)],
    "a build without end": [piece(content=bytes(1 << 20), last=False, build=b"")] * 5,
    "a log without end": [piece(build=bytes(2 << 20))],
    "the same build twice": [piece(), piece()],
    "a fact": [{"fact": fleet_pb2.Fact(attempt=1, number=0, line=wire.encode(fakes.ENVIRONMENT))}],
    "a build of its own": [request()],
    "that it grades as well": [{"standing": standing()}],
    "a second hello": [{"hello": fleet_pb2.Hello()}],
}


@pytest.mark.parametrize("messages", FORGED.values(), ids=FORGED)
async def test_what_no_builder_says_ends_its_stream_and_the_worker_builds(fleet, address, monkeypatch, messages) -> None:
    """The control is above, where a builder keeps to the protocol."""
    monkeypatch.setattr(build_messages, "ARTIFACT_LIMIT_BYTES", 4 << 20)
    async with inside(address, builder()) as there, grading(address, fleet) as worker:
        assert (await there.heard()).build.number == 1
        for message in messages:
            await there.say(**message)
        code, details = await there.refusal()
        assert code is grpc.StatusCode.INVALID_ARGUMENT, details
        # What came before was in order.
        assert await received(worker) == (BuildResult(build=BUILD, artifact=ARTIFACT, cacheable=False) if len(messages) == 2 else None)
        await until(lambda: fleet.builders() == ())


ASKED_WRONGLY = {
    "another attempt": [request(attempt=2)],
    "two at once": [request()],
    "no environment": [request(environment=wire.encode(fakes.trial()))],
    "a pickle": [request(environment=pickle.dumps(Counter))],
    "a build that it was not asked for": [piece()],
    "an architecture that is an option of nvcc": [
        request(environment=wire.encode(wire.Environment(device="d", device_kind="cuda", clock=wire.Clock.HOST, architecture="sm_90 -I/")))
    ],
}


@pytest.mark.parametrize(("name", "messages"), ASKED_WRONGLY.items(), ids=ASKED_WRONGLY)
async def test_a_worker_asks_for_builds_of_its_own_attempts_only(fleet, address, name, messages) -> None:
    async with inside(address, builder()) as there, inside(address) as worker:
        task = asyncio.create_task(graded(fleet, lease()))
        await worker.grade()
        if name == "two at once":
            await worker.say(**request())
            await there.heard()
        for message in messages:
            await worker.say(**message)
        assert (await worker.refusal())[0] is grpc.StatusCode.INVALID_ARGUMENT
        await asyncio.gather(task, return_exceptions=True)


async def test_another_builder_takes_over_from_one_that_fails_or_goes(fleet, address) -> None:
    """One that failed rests; the last one's failure leaves it to the worker."""
    async with grading(address, fleet) as worker:
        assert await received(worker) is None
        async with inside(address, builder(), instance="a") as one, inside(address, builder(), instance="b") as two:
            await worker.say(**request())
            calls = {asyncio.create_task(there.heard()): there for there in (one, two)}
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=30)
            (first,) = done
            second = next(task for task in calls if task is not first)
            calls[first].call.cancel()  # it goes
            number = (await second).build.number
            await calls[second].say(build_piece=fleet_pb2.BuildPiece(number=number, last=True))  # it fails
            assert await received(worker) is None
            await worker.say(**request())
            assert await received(worker) is None  # it rests


async def test_a_builder_that_takes_too_long_is_dropped(fleet, address, monkeypatch) -> None:
    monkeypatch.setattr(remote_builders, "BUILD_S", 0.05)
    async with inside(address, builder()), grading(address, fleet) as worker:
        assert await received(worker) is None
        await until(lambda: fleet.builders() == ())


async def test_a_build_that_nobody_waits_for_is_stopped(fleet, address) -> None:
    """It keeps its place until the builder says that its box is gone."""
    async with inside(address, builder(1)) as there:
        async with grading(address, fleet):
            build = (await there.heard()).build
        assert (await there.heard()).cancel_build.number == build.number
        assert fleet.builders()[0].building == 1
        await there.say(build_piece=fleet_pb2.BuildPiece(number=build.number, last=True))
        await until(lambda: fleet.builders()[0].building == 0)
        async with grading(address, fleet, lease(submission_id="s2")):  # and it does not rest
            assert (await there.heard()).WhichOneof("message") == "build"


# -- the real session ----------------------------------------------------------------------------------------------------


class Bench:
    """Builds of a host, as its session sees them."""

    def __init__(self, toolchain="t", made=MADE):
        self.made, self.asked, self.elsewhere = made, [], None
        self.gate = asyncio.Event()
        self.gate.set()
        self.stopped = 0
        self.builds = Builds(toolchain=toolchain, count=2, build=self.build, have_built=self.have_built)

    async def build(self, job, files, user):
        self.asked.append((job, files, user))
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        if isinstance(self.made, Exception):
            raise self.made
        return self.made

    def have_built(self, elsewhere):
        self.elsewhere = elsewhere


class Asking(fakes.FakeGrade):
    """Grades by having built; what came of that is in `found`."""

    def __init__(self, bench):
        super().__init__()
        self.bench, self.found = bench, []

    async def _facts(self, given):
        self.found.append(await self.bench.elsewhere(given, fakes.ENVIRONMENT))
        yield fakes.ENVIRONMENT


async def test_a_worker_has_a_builder_build(fleet, address, files) -> None:
    """Both halves are real; once the streams are over, each builds for itself again."""
    own, there = Bench(), Bench()
    grade = Asking(own)
    async with (
        working(address, None, files, builds=there.builds, builds_only=True),
        working(address, grade, files, builds=own.builds),
    ):
        assert there.elsewhere is None and own.elsewhere is not None
        assert await graded(fleet, lease("accept")) == [fakes.ENVIRONMENT]
        assert grade.found == [MADE] and own.asked == []
        assert there.asked == [(*build_input(lease("accept"), fakes.ENVIRONMENT), lease("accept").submission.new.user)]
        for failed in (ValueError("no"), SandboxBroken("its box did not start")):
            there.made = failed
            await graded(fleet, lease("accept", submission_id="s2"))
            assert grade.found[-1] is None
    assert own.elsewhere is None


async def test_a_builder_that_is_stopped_ends_what_it_has(fleet, address, files) -> None:
    own, there = Bench(), Bench()
    there.gate.clear()
    grade = Asking(own)
    async with working(address, grade, files, builds=own.builds):
        async with working(address, None, files, builds=there.builds, builds_only=True, drain_s=30.0) as (stop, task):
            grading = asyncio.create_task(graded(fleet, lease()))
            await until(lambda: there.asked)
            stop.set()
            await until(lambda: not fleet.builders()[0].takes)
            there.gate.set()
            await grading
            await task
        assert grade.found == [MADE]


async def test_a_build_is_stopped_with_the_attempt(fleet, address, files) -> None:
    own, there = Bench(), Bench()
    there.gate.clear()
    async with (
        working(address, None, files, builds=there.builds, builds_only=True),
        working(address, Asking(own), files, builds=own.builds),
    ):
        grading = asyncio.create_task(graded(fleet, lease()))
        await until(lambda: there.asked)
        grading.cancel()
        await asyncio.gather(grading, return_exceptions=True)
        await until(lambda: there.stopped == 1 and fleet.builders()[0].building == 0)
