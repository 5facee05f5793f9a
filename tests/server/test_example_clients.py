"""The clients of examples/clients against a real server with a fake grade: what a site would start from."""

import asyncio
import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from examples.clients.python import webhook
from grader.hooks import signed
from grader.server.running import serving
from tests import fakes

ROOT = Path(__file__).parents[2]
PYTHON, NODE = ROOT / "examples/clients/python/submit.py", ROOT / "examples/clients/node"


async def output(*command, **environment):
    """Exit code and what was printed."""
    made = await asyncio.create_subprocess_exec(
        *map(str, command), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await asyncio.wait_for(made.communicate(), 60)
    return made.returncode, out.decode(), error.decode()


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
    """What every client does: a verdict, another verdict, a refusal with its details."""
    asked = [("sum", "accept.cu"), ("sum", "wrong.cu"), ("nothing", "accept.cu")]
    right, wrong, refused = await asyncio.gather(*(output(*command, problem, files / file, **environment) for problem, file in asked))
    code, out, error = right
    assert (code, error) == (0, "") and out.startswith("submissions/") and "ACCEPTED" in out and "verifying n64" in out
    code, out, _ = wrong
    assert code == 1 and "WRONG_ANSWER" in out and "secret33" not in out
    code, _, error = refused
    assert code == 2 and "PROBLEM_NOT_FOUND" in error and "sum" in error


async def test_the_python_client(server, files):
    """With generated stubs alone."""
    await check((sys.executable, PYTHON), files, GRADER_SERVER=server)


@pytest.mark.slow
async def test_the_node_client(server, files):
    """Generated from the same files; needs `npm ci` in its directory."""
    node = shutil.which("node")
    if node is None or not (NODE / "node_modules/@connectrpc/connect-node").is_dir():
        pytest.skip("run `npm ci` in examples/clients/node")
    code, _, error = await output("sh", NODE / "generate.sh", PYTHON=sys.executable)
    assert code == 0, error
    await check((node, NODE / "submit.mjs"), files, GRADER_SERVER=f"http://{server}")


def test_the_receiver_tells_ours_from_others():
    """Signed with another secret, changed, replayed later, or without a signature: not genuine."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    body = json.dumps({"delivery_id": "d"}).encode()
    headers = signed("whsec_a", "d", now, body)
    at = now.timestamp()
    assert webhook.genuine("whsec_a", headers, body, at) and webhook.genuine("whsec_a", headers, body, at + 299)
    assert not webhook.genuine("whsec_b", headers, body, at)
    assert not webhook.genuine("whsec_a", headers, body + b" ", at)
    assert not webhook.genuine("whsec_a", headers, body, at + 400)
    assert not webhook.genuine("whsec_a", {**headers, "X-Grader-Timestamp": str(int(at) + 1)}, body, at)
    for name, value in (("X-Grader-Signature", ""), ("X-Grader-Timestamp", "²"), ("X-Grader-Timestamp", "9" * 99)):
        assert not webhook.genuine("whsec_a", {**headers, name: value}, body, at)
    assert not webhook.genuine("whsec_a", {}, body, at)
