"""Secrets are planted, everything that a server says is kept, and then they are searched for in it."""

import asyncio
import base64
import json
import os
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import grpc
import pytest

from grader.ledger import Ledger
from grader.model import Scope
from grader.rules import keys
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2
from tests import fakes
from tests.ports import free_port
from tests.postgres import postgres, programs  # noqa: F401  # a fixture
from tests.server.keyed import METHODS, bearer, call
from tests.server.processes import fake_server

pytestmark = pytest.mark.slow  # each starts a server as a process
ROOT = Path(__file__).parents[3]
SOURCE = "planted_source_5f0e"
PASSWORD = "planted-password-77c1"
WORKLOAD = "planted_workload_9a33"
SEED = "5eed" * 8
SIZE = 1987654321  # of a secret workload
PAGES = ("/", "/metrics", "/healthz", "/readyz", "/competitions/cup", "/competitions/cup/problems/sum", "/problems/sum", "/users/alice")

PROBLEM = """
name = "sum"
title = "A sum"
axes = ["n"]
inputs = [{ name = "a", shape = ["n"] }]
outputs = [{ name = "c", shape = ["n"] }]
workloads = [{ id = "n64", axes = { n = 64 } }, { id = "%s", axes = { n = 1876543219 }, hidden = true }]
"""
COMPETITION = """
name = "cup"
title = "A cup"
problems = ["sum"]
devices = ["emulated"]
start = %s
end = %s
secret_seed = "%s"
secret = [{ problem = "sum", axes = { n = %d } }]
"""


class Outputs:
    """Everything that came out of a server, by where."""

    def __init__(self):
        self.texts: dict[str, bytes] = {}

    def add(self, where, data):
        """Keep bytes, text, a message, or an error with all its details."""
        if isinstance(data, grpc.aio.AioRpcError):
            details = [value if isinstance(value, bytes) else value.encode() for _, value in data.trailing_metadata() or ()]
            data = b"\n".join([(data.details() or "").encode(), *details])
        elif hasattr(data, "SerializeToString"):
            data = data.SerializeToString() + str(data).encode()
        elif isinstance(data, str):
            data = data.encode()
        self.texts[where] = self.texts.get(where, b"") + b"\n" + (data or b"")

    def places(self, secret):
        """Where a secret is, as it is or in another writing."""
        raw = str(secret).encode()
        written = (raw, raw.hex().encode(), base64.b64encode(raw).rstrip(b"=")[:-1], json.dumps(str(secret))[1:-1].encode())
        return sorted(where for where, text in self.texts.items() if any(form in text for form in written))


@pytest.fixture
def database(request):
    """Return a $GRADER_DATABASE: PostgreSQL, with a password in it, or SQLite where that is not installed."""
    if programs() is None and os.environ.get("GRADER_REQUIRE_POSTGRES") != "1":
        yield ""
    else:
        with request.getfixturevalue("postgres").lent() as url:
            yield url.replace("grader@", f"grader:{PASSWORD}@")


@pytest.fixture
def files(settings, place):
    fakes.write_problem(place / "problems", "sum", PROBLEM % WORKLOAD)
    now = datetime.now(UTC)
    (place / "cup").mkdir()
    times = ((now - timedelta(days=1)).isoformat(timespec="seconds"), (now + timedelta(days=1)).isoformat(timespec="seconds"))
    (place / "cup" / "competition.toml").write_text(COMPETITION % (*times, SEED, SIZE))
    return place


@asynccontextmanager
async def server_process(settings, place, database):
    """A server that logs all it can as JSON; its address, and that of its pages."""
    web = f"127.0.0.1:{free_port()}"
    options = ("--auth", "keys", "--competitions", str(place / "cup"), "--web", web, "--log-level", "debug", "--drain-s", "5")
    running_server = fake_server(
        settings, settings.state_dir, place / "counted", place / "log", *options,
        listen=settings.listen, environment={"GRADER_DATABASE": database},
    )  # fmt: skip
    async with running_server as (process, _):
        yield settings.listen, web
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 300) == 0


def kernel(order, **fields):
    content = fakes.source(order) + f"// {SOURCE}\n"
    source = submission_pb2.SourceFile(path="kernel.cu", content=content)
    return submission_pb2.Submission(problem="problems/sum", sources=[source], **fields)


def wrong_requests():
    """Submissions that are refused, with the source in each."""
    good = kernel("accept")
    yield api.SubmitRequest(submission=kernel("accept", entry=f"{SOURCE[:3]} x")).SerializeToString()
    yield api.SubmitRequest(submission=kernel("accept", language="fortran")).SerializeToString()
    yield api.SubmitRequest(submission=kernel("accept", device_kind="cuda:9")).SerializeToString()
    yield api.SubmitRequest(submission=submission_pb2.Submission(problem="problems/none", sources=good.sources)).SerializeToString()
    yield api.SubmitRequest(submission=submission_pb2.Submission(problem="problems/sum", sources=[*good.sources] * 2)).SerializeToString()
    yield api.SubmitRequest(submission=good).SerializeToString().replace(b"solve", b"\xff\xff\xff\xff\xff")  # no UTF-8
    yield good.sources[0].content.encode()  # no message


async def graded(channel, metadata, outputs, submission):
    """Hand it in, follow it to its end, and return its name."""
    submit = channel.unary_unary("/grader.v1.GraderService/Submit", response_deserializer=submission_pb2.Submission.FromString)
    created = await submit(api.SubmitRequest(submission=submission).SerializeToString(), metadata=metadata, timeout=60)
    created.ClearField("sources")  # its owner's own
    outputs.add("answers to the owner", created)
    watch = channel.unary_stream(
        "/grader.v1.GraderService/WatchSubmission", response_deserializer=submission_pb2.SubmissionEvent.FromString
    )
    async for event in watch(api.WatchSubmissionRequest(name=created.name).SerializeToString(), metadata=metadata, timeout=60):
        outputs.add("events to the owner", event)
        if event.WhichOneof("event") == "build" and "hang" in submission.sources[0].content:
            request = api.CancelSubmissionRequest(name=created.name).SerializeToString()
            assert await call(channel, "CancelSubmission", metadata, request) is None
    return created.name


async def ask_everything(channel, metadata, outputs, who, name):
    """Each method about this submission, its problem and its competition; sources only count where they are not the owner's."""
    requests = {
        "GetSubmission": api.GetSubmissionRequest(name=name, view="REPORT_VIEW_FULL"),
        "WatchSubmission": api.WatchSubmissionRequest(name=name),
        "WatchSubmissions": api.WatchSubmissionsRequest(names=[name], until_idle=True),
        "CancelSubmission": api.CancelSubmissionRequest(name=name),
        "GetProblem": api.GetProblemRequest(name="problems/sum"),
        "GetCompetition": api.GetCompetitionRequest(name="competitions/cup"),
        "GetLeaderboard": api.GetLeaderboardRequest(competition="competitions/cup", problem="problems/sum"),
    }
    for method, described in METHODS.items():
        path, request = f"/grader.v1.GraderService/{method}", requests.get(method)
        data = b"" if request is None else request.SerializeToString()
        try:
            if described.server_streaming:
                async for message in channel.unary_stream(path)(data, metadata=metadata, timeout=60):
                    outputs.add(f"{method} to {who}", message)
            else:
                message = await channel.unary_unary(path)(data, metadata=metadata, timeout=60)
                if method == "GetSubmission" and who in ("the owner", "an administrator"):
                    shown = submission_pb2.Submission.FromString(message)
                    assert SOURCE in shown.sources[0].content  # the control: it is there to be found
                    shown.ClearField("sources")
                    message = shown.SerializeToString()
                outputs.add(f"{method} to {who}", message)
        except grpc.aio.AioRpcError as error:
            outputs.add(f"{method} to {who}", error)


async def use(address, web, ledger, outputs):
    """Do all that can be done, right and wrong."""
    texts = {name: (await ledger.keys.create(name, frozenset({Scope.SUBMIT, Scope.READ})))[1] for name in ("alice", "bob")}
    texts["submitter"] = (await ledger.keys.create("submitter", frozenset({Scope.SUBMIT})))[1]
    texts["root"] = (await ledger.keys.create("root", frozenset(Scope)))[1]
    revoked = (await ledger.keys.create("gone", frozenset(Scope)))[1]
    await ledger.keys.revoke(revoked.split("_")[1])
    wrong = texts["alice"][:-4] + ("0000" if texts["alice"][-4:] != "0000" else "1111")
    async with grpc.aio.insecure_channel(address) as channel:
        owner_metadata = (bearer(texts["alice"]),)
        names = [await graded(channel, owner_metadata, outputs, kernel(order)) for order in ("accept", "wrong", "fault", "bug", "hang")]
        ranked = kernel("accept", competition="competitions/cup", mode=submission_pb2.MODE_RANKED)
        names.append(await graded(channel, owner_metadata, outputs, ranked))
        for name in (names[0], names[1], names[3], names[-1]):
            await ask_everything(channel, owner_metadata, outputs, "the owner", name)
        await ask_everything(channel, (bearer(texts["root"]),), outputs, "an administrator", names[-1])
        for who, text in {"another": texts["bob"], "scoped down": texts["submitter"], "revoked": revoked, "a guesser": wrong}.items():
            await ask_everything(channel, (bearer(text),), outputs, who, names[0])
        await ask_everything(channel, (), outputs, "nobody", names[0])
        await ask_everything(channel, (("authorization", texts["alice"]),), outputs, "one who forgot Bearer", names[0])
        for index, data in enumerate(wrong_requests()):
            refused = await call(channel, "Submit", owner_metadata, data)
            assert refused is not None, index
            outputs.add("refusals", refused)
    async with aiohttp.ClientSession() as session:
        for page in (*PAGES, *(f"/{name}" for name in names)):
            async with session.get(f"http://{web}{page}") as answer:
                outputs.add(f"page {page}", await answer.text())
    return {"the owner's key": texts["alice"], "another key": texts["bob"], "a revoked key": revoked, "a wrong key": wrong}


async def test_secrets_are_in_no_answer_log_metric_or_error(settings, files, database):
    """Keys, their digests, sources, the database's password, secret workloads, their sizes and their seed.

    The control: what the fake grade raises on purpose is found in the log, and the pages and metrics were really read.
    """
    outputs = Outputs()
    async with server_process(settings, files, database) as (address, web), Ledger.open(database or settings.ledger_path) as ledger:
        texts = await use(address, web, ledger, outputs)
    outputs.add("log", (files / "log").read_bytes())
    secrets = {kind: text.split("_")[2] for kind, text in texts.items()}
    secrets |= {f"digest of {kind}": keys.digest(secret) for kind, secret in secrets.items()}
    secrets |= {"source": SOURCE, "password": PASSWORD, "workload": WORKLOAD, "size": SIZE, "hidden size": 1876543219, "seed": SEED}
    assert {kind: places for kind, secret in secrets.items() if (places := outputs.places(secret))} == {}
    assert outputs.places("secret detail") == ["log"] and outputs.places("call_refused") == ["log"]
    assert outputs.places("grader_") and "page /metrics" in outputs.places("# HELP") and outputs.places("SUBMISSION_STATE_SUCCEEDED")


async def test_a_database_that_is_not_there_is_named_without_its_password(place):
    """On standard error, where a service manager keeps it."""
    url = f"postgresql://grader:{PASSWORD}@127.0.0.1:{free_port()}/none"
    pipe = asyncio.subprocess.PIPE

    async def run(*words):
        command = [sys.executable, "-m", "grader.server.main", *words, "--state-dir", str(place / "state"), "--database", url]
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
        output, _ = await asyncio.wait_for(process.communicate(), 300)
        return process.returncode, output

    for code, output in await asyncio.gather(run("--listen", f"unix:{place}/s"), run("admin", "keys", "list")):
        assert code == 3 and b"127.0.0.1" in output and PASSWORD.encode() not in output, output
