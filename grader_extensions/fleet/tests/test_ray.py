"""Workers that Ray places on the nodes of a cluster on this host, and a server that knows nothing of Ray."""

import asyncio
import builtins
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.config import Settings
from grader_extensions.fleet import ray_placement
from grader_extensions.fleet.ray_placement import WorkerActor, clean_environment
from grader_extensions.fleet.tests.ray_cluster import RayCluster
from tests.e2e.conftest import EXAMPLES
from tests.harness.programs import program
from tests.run_files import cache_directory
from tests.waiting import until

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A head, and two nodes that have room for both lanes."""
    os.environ |= {"GRADER_STATE_DIR": str(tmp_path_factory.mktemp("workers")), "GRADER_CACHE_DIR": str(cache_directory())}
    ray_cluster = RayCluster(2)
    yield ray_cluster
    ray_cluster.close()
    for name in ("GRADER_STATE_DIR", "GRADER_CACHE_DIR"):
        os.environ.pop(name)


@pytest.fixture
def server(tmp_path):
    """The server, its address, and where workers join."""
    join = f"unix:{tmp_path}/fleet"
    words = ["--listen", "127.0.0.1:0", "--fleet", "remote", "--fleet-listen", join, "--state-dir", tmp_path / "server"]
    with program("grader.server.main", *words, "--problems", EXAMPLES, "--sandbox", "process", "--drain-s", "5") as process:
        yield process, process.until("serving")["address"], join


def words(cluster, *arguments):
    return ["--ray", cluster.address, "--json", *arguments]


def placed(cluster, capsys):
    """The lanes with a worker that runs. What SIGTERM and print do stays as it was, though Ray replaces both."""
    former = signal.getsignal(signal.SIGTERM), builtins.print
    assert ray_placement.main(words(cluster, "--list")) == 0
    assert (signal.getsignal(signal.SIGTERM), builtins.print) == former
    return {name: facts for name, facts in json.loads(capsys.readouterr().out).items() if facts.get("pid")}


REACHES = """
def reached():
    import os, pathlib, socket
    found = []
    try:
        socket.create_connection(tuple("{address}".rsplit(":", 1)), timeout=2).close()
        found.append("port")
    except OSError:
        pass
    if list(pathlib.Path("{directory}").glob("session_*/sockets/*")):
        found.append("sockets")
    if any(name.startswith("RAY_") for name in os.environ):
        found.append("environment")
    return f"reached: {{found}}"
"""


def test_placed_workers_grade_and_a_lost_node_is_replaced(cluster, server, cli, capsys, tmp_path) -> None:
    """Two lanes on two nodes; to place them again changes nothing. A box reaches nothing of Ray. A worker that dies is started again; a
    node that dies gives its lane to another node."""
    if shutil.which("bwrap") is None and os.environ.get("GRADER_REQUIRE_BUBBLEWRAP") != "1":
        pytest.skip("bubblewrap is not installed")
    _, address, join = server
    arguments = ["--lanes", "emulated=2", "--join", join, "--", "--sandbox", "bubblewrap", "--no-resident-toolchain"]
    for _ in range(2):
        assert ray_placement.main(words(cluster, *arguments)) == 0
        assert set(json.loads(capsys.readouterr().out)) == {"grader-lane-emulated-0", "grader-lane-emulated-1"}
    ended = cli("submit", EXAMPLES / "vector_add" / "grid_stride.cu", "--server", address, "--mode", "test")
    assert ended.code == 0 and "ACCEPTED" in ended.stdout, ended.stdout + ended.stderr
    reaches = REACHES.format(address=cluster.address, directory=cluster.directory)
    (tmp_path / "reaches.py").write_text(f"{reaches}\nprint(reached())\n\n\ndef solve(a, b):\n    return a + b\n")
    ended = cli("submit", tmp_path / "reaches.py", "--problem", "vector_add", "--server", address, "--mode", "test")
    assert ended.code == 0 and "reached: []" in ended.stdout, ended.stdout + ended.stderr
    namespace: dict = {}
    exec(reaches, namespace)  # the control: here they are, but for the environment of an actor
    assert namespace["reached"]().startswith("reached: ['port', 'sockets'")
    before = until_lanes(cluster, capsys, 2)
    os.kill(before["grader-lane-emulated-0"]["pid"], 9)
    again = until_lanes(cluster, capsys, 2, unlike=before["grader-lane-emulated-0"]["pid"])
    assert again["grader-lane-emulated-0"]["restart_count"] == 1
    dying = again["grader-lane-emulated-1"]["pid"]
    cluster.remove_node(cluster.node_of(dying))
    moved = until_lanes(cluster, capsys, 2, unlike=dying)
    ended = cli("submit", EXAMPLES / "vector_add" / "off_by_one.cu", "--server", address, "--mode", "test")
    assert ended.code == 1 and "UNWRITTEN_OUTPUT" in ended.stdout, ended.stdout + ended.stderr
    assert ray_placement.main(words(cluster, "--remove", *moved)) == 0
    capsys.readouterr()
    assert placed(cluster, capsys) == {}
    assert ray_placement.main(words(cluster, "--remove", "grader-lane-emulated-0")) == 2


def until_lanes(cluster, capsys, count, *, unlike=None):
    deadline = time.monotonic() + 480
    while True:
        nodes = placed(cluster, capsys)
        pids = {facts["pid"] for facts in nodes.values()}
        if len(nodes) == count and unlike not in pids:
            return nodes
        assert time.monotonic() < deadline, nodes
        time.sleep(1.0)


def test_a_keepers_worker_sees_nothing_of_ray(tmp_path: Path) -> None:
    """Neither its token nor its addresses; and it ends when the actor does. The control is the actor's own environment."""
    environment = {"RAY_AUTH_TOKEN": "secret", "RAY_ADDRESS": "x", "CUDA_VISIBLE_DEVICES": "3", "OMP_NUM_THREADS": "1", "PATH": "/bin"}
    assert clean_environment(environment) == {"PATH": "/bin"}
    script = "import os, sys; open(sys.argv[1], 'w').write(repr(dict(os.environ))); sys.stdin.read(); open(sys.argv[1], 'a').write('ended')"

    async def worker_text() -> str:
        place_of = tmp_path / "seen"
        keeper = WorkerActor("lane-0", [sys.executable, "-c", script, str(place_of)], [], kind="emulated")
        await until(lambda: place_of.exists() and "PATH" in place_of.read_text())
        assert (await keeper.standing())["pid"]
        await keeper.drain()
        return place_of.read_text()

    os.environ["RAY_TEST_TOKEN"] = "secret"
    try:
        text = asyncio.run(worker_text())
    finally:
        del os.environ["RAY_TEST_TOKEN"]
    assert "RAY_TEST_TOKEN" not in text and text.endswith("ended")


def test_a_gpu_is_asked_for_by_its_label() -> None:
    """Nothing that is secret is among what Ray shows; an emulated lane takes a core."""
    wanted = ray_placement.options("H200", 3)
    assert wanted["num_gpus"] == 1 and wanted["label_selector"] == {"ray.io/accelerator-type": "H200"} and wanted["max_task_retries"] == 0
    assert ray_placement.options("emulated", 0)["num_cpus"] == 1


def test_the_server_imports_no_ray() -> None:
    """Not with any of its modules: what comes out of an actor runs code where it is read."""
    script = "import sys, pkgutil, importlib, grader.server; "
    script += "[importlib.import_module(one.name) for one in pkgutil.walk_packages(grader.server.__path__, 'grader.server.')]; "
    script += "import grader_extensions.fleet.remote_fleet; assert 'ray' not in sys.modules, 'ray'"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert Settings().fleet == "local"
