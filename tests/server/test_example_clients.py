"""The clients of examples/clients against a real server with a fake grade: what a site would start from."""

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import trustme
from aiohttp import web
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from grader.api.client import GraderClient
from grader.ledger import Ledger
from grader.model import Scope
from grader.server.running import serving
from grader.v1 import grader_service_pb2, submission_pb2
from tests import fakes
from tests.requirements import absent
from tests.server.web_apps import served_app

ROOT = Path(__file__).parents[2]
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ENOTCACHED")
PYTHON, NODE = ROOT / "examples/clients/python/submit.py", ROOT / "examples/clients/node"
FORWARDER = PYTHON.with_name("forward.py")


async def output(*command, **environment):
    """Exit code and what was printed."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await asyncio.wait_for(process.communicate(), 300)
    return process.returncode, out.decode(), error.decode()


@pytest.fixture
async def server(settings):
    async with serving(settings.model_copy(update={"listen": "127.0.0.1:0"}), fakes.wiring()) as running:
        yield running.address


@pytest.fixture
def files(tmp_path):
    for order in ("accept", "wrong"):
        (tmp_path / f"{order}.cu").write_text(fakes.source(order))
    return tmp_path


async def check(command, files, **environment):
    """Check what every client does: a verdict, another verdict, a refusal with its details."""
    cases = [("sum", "accept.cu"), ("sum", "wrong.cu"), ("nothing", "accept.cu")]
    right, wrong, refused = await asyncio.gather(*(output(*command, problem, files / file, **environment) for problem, file in cases))
    code, out, error = right
    assert (code, error) == (0, "") and out.startswith("submissions/") and "ACCEPTED" in out and "verifying n64" in out
    code, out, _ = wrong
    assert code == 1 and "WRONG_ANSWER" in out and "secret33" not in out
    code, _, error = refused
    assert code == 2 and "PROBLEM_NOT_FOUND" in error and "sum" in error


async def test_the_python_client(server, files):
    """With generated stubs alone."""
    await check((sys.executable, PYTHON), files, GRADER_SERVER=server)


def run_command(*command, limit_s, **environment):
    """Exit code, and all that was printed."""
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=limit_s, env={**os.environ, **environment})
    return result.returncode, result.stdout + result.stderr


@pytest.fixture(scope="module")
def node_client(tmp_path_factory):
    """The command that runs it: a copy, so that nothing is written beside the original, with the packages of its lock file."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        absent("node", "node and npm are not installed")
    checkout = tmp_path_factory.mktemp("checkout")
    place = checkout / "examples/clients/node"
    shutil.copytree(NODE, place, ignore=shutil.ignore_patterns("node_modules", "gen"))
    (checkout / "proto").symlink_to(ROOT / "proto")
    if all((NODE / "node_modules" / name).is_dir() for name in ("@connectrpc/connect-node", "@bufbuild/buf")):
        (place / "node_modules").symlink_to(NODE / "node_modules")
    else:
        code, text = run_command(
            npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--prefix", place, limit_s=120, npm_config_fetch_retries="0"
        )
        if code and any(word in text for word in UNREACHABLE):
            absent("node", "npm can't reach a registry; run `npm ci` in examples/clients/node where it can")
        assert code == 0, text
    code, text = run_command(npm, "run", "generate", "--prefix", place, limit_s=60)
    assert code == 0, text
    return node, place / "submit.mjs"


async def test_a_stock_client_calls_by_reflection(server):
    """gRPC's own, without a file of ours: it learns every message of the service, those of google.rpc too, and calls."""

    def call():
        with grpc.insecure_channel(server) as channel:
            pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
            service = pool.FindServiceByName("grader.v1.GraderService")
            method = service.methods_by_name["ListProblems"]
            request, answer = (GetMessageClass(kind) for kind in (method.input_type, method.output_type))
            path = f"/{service.full_name}/{method.name}"
            listed = channel.unary_unary(path, request.SerializeToString, answer.FromString)(request(page_size=1), timeout=60)
            return service, pool.FindMessageTypeByName("google.rpc.Status"), listed

    service, status, listed = await asyncio.to_thread(call)
    assert len(service.methods) == len(grader_service_pb2.DESCRIPTOR.services_by_name["GraderService"].methods)
    assert [field.name for field in status.fields] == ["code", "message", "details"]
    assert [problem.name for problem in listed.problems] == ["problems/other"] and listed.next_page_token


@pytest.mark.slow
async def test_the_node_client(server, files, node_client):
    """Generated from the same files, with another implementation of gRPC."""
    await check(node_client, files, GRADER_SERVER=f"http://{server}")


@pytest.mark.slow
async def test_the_node_client_with_tls_and_a_key(settings, files, node_client):
    """As a site would use it; without the key it is refused, and says so."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    (files / "cert.pem").write_bytes(issued.cert_chain_pems[0].bytes())
    (files / "key.pem").write_bytes(issued.private_key_pem.bytes())
    authority.cert_pem.write_to_path(files / "ca.pem")
    tls = {"tls_certificate": files / "cert.pem", "tls_key": files / "key.pem"}
    there = settings.model_copy(update={"listen": "127.0.0.1:0", "auth": "keys", **tls})
    async with Ledger.open(there.ledger) as ledger:
        _, key = await ledger.keys.create("ann", frozenset({Scope.SUBMIT, Scope.READ}))
    async with serving(there, fakes.wiring()) as running:
        environment = {"GRADER_SERVER": f"https://{running.address}", "GRADER_CA": str(files / "ca.pem")}
        await check(node_client, files, GRADER_KEY=key, **environment)
        code, _, error = await output(*node_client, "sum", files / "accept.cu", GRADER_KEY="", **environment)
    assert code == 2 and "UNAUTHENTICATED" in error and key not in error


async def test_the_forwarder_posts_each_finished_submission(server, files, tmp_path):
    """Again until the URL accepts it, and not those that it accepted before a restart."""
    statuses, bodies = [503], asyncio.Queue()

    async def receive(request):
        status = statuses.pop() if statuses else 204
        bodies.put_nowait((status, await request.json()))
        return web.Response(status=status)

    async def submit(order):
        async with GraderClient(server) as client:
            source = submission_pb2.SourceFile(path="k.cu", content=fakes.source(order))
            return await client.submit(submission_pb2.Submission(problem="problems/sum", sources=[source], tags=["site"]))

    @asynccontextmanager
    async def forwarder():
        command = (sys.executable, FORWARDER, "site", url, tmp_path / "seen.json")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "GRADER_SERVER": server}
        process = await asyncio.create_subprocess_exec(*map(str, command), env=environment)
        try:
            yield
        finally:
            process.terminate()
            await process.wait()

    first = await submit("accept")
    async with asyncio.timeout(60), served_app(web.post("/", receive)) as port:
        url = f"http://127.0.0.1:{port}/"
        async with forwarder():
            posts = [await bodies.get(), await bodies.get()]
            while not (tmp_path / "seen.json").exists():
                await asyncio.sleep(0.05)
        second = await submit("wrong")
        async with forwarder():
            posts.append(await bodies.get())
    assert [(status, body["name"]) for status, body in posts] == [(503, first.name), (204, first.name), (204, second.name)]
    assert [body["report"]["verdict"] for _, body in posts[1:]] == ["VERDICT_ACCEPTED", "VERDICT_WRONG_ANSWER"]
    assert "secret33" not in str(posts)
