"""Adapters of examples/frameworks: each framework's own command, 20 problems and a scripted model, against a real server.

The frameworks lie in virtual environments of $GRADER_FRAMEWORKS_DIR, which `make frameworks` makes.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

import grader
from examples.frameworks import scripted_model
from grader.v1 import submission_pb2
from tests.ports import free_port

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "examples/frameworks"
RIGHT, WRONG = scripted_model.ANSWERS["right"], scripted_model.ANSWERS["wrong"]
RECIPES = ("plain", "top-k", "scatter", "two-outputs", "ragged", "integer")
TIMEOUT_S = 800
KILLED_AFTER = 4  # submissions with a verdict

Rewards = dict[str, float | None]  # by problem; None: unscored


@dataclass(frozen=True)
class Place:
    """Where a framework's command runs. bin: of its virtual environment."""

    name: str
    directory: Path
    model_url: str
    env: dict[str, str]

    @property
    def bin(self) -> Path:
        return Path(os.environ["GRADER_FRAMEWORKS_DIR"]).absolute() / self.name / "bin"

    def run(self, program: str, *words: str) -> str:
        """Run one of its programs, and return what it prints."""
        command = [str(self.bin / program), *words]
        with (self.directory / "log").open("a+") as log:
            process = subprocess.run(
                command, check=False, cwd=self.directory, env=self.env, stdout=subprocess.PIPE, stderr=log, timeout=TIMEOUT_S
            )
            log.seek(0)
            assert process.returncode == 0, f"{command}\n{log.read()[-4000:]}\n{process.stdout.decode()[-4000:]}"
        return process.stdout.decode()


def run_inspect(place: Place) -> Rewards:
    words = ("--model", "openai-api/scripted/scripted", "--log-dir", "logs", "--log-format", "json", "--display", "none")
    place.run("inspect", "eval", "grader_inspect/kernels", *words, "--max-connections", "20")
    log = json.loads(next(place.directory.glob("logs/*.json")).read_text("utf-8"))
    values = {sample["id"]: sample["scores"]["kernel_reward"]["value"] for sample in log["samples"]}
    # Its own count, and a mean that leaves those out.
    unscored = sum(math.isnan(value) for value in values.values())
    scored = [value for value in values.values() if not math.isnan(value)]
    [results] = log["results"]["scores"]
    assert (results["unscored_samples"], results["metrics"]["mean"]["value"]) == (unscored, pytest.approx(sum(scored) / len(scored)))
    return {problem: None if math.isnan(value) else value for problem, value in values.items()}


def run_verifiers(place: Place) -> Rewards:
    client = ("--model", "scripted", "--client.base-url", place.model_url, "--client.api-key-var", "SCRIPTED_API_KEY")
    agent = ("--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess", "-c", "20")
    place.run("vf-eval", "grader-kernels", *client, *agent, "--no-push", "--no-rich", "-o", "outputs", "--run.dir", "run")
    rewards: Rewards = {}
    for line in (place.directory / "outputs/run/traces.jsonl").read_text("utf-8").splitlines():
        [trace] = json.loads(line)["traces"]
        reward = trace["rewards"]["kernel_reward"]
        assert trace["ok"] == (reward is not None)
        rewards[trace["task"]["data"]["name"]] = None if reward is None else reward["score"]
    return rewards


def run_openenv(place: Place) -> Rewards:
    url = f"http://127.0.0.1:{(port := free_port())}"
    words = [str(place.bin / "uvicorn"), "grader_openenv:app", "--port", str(port)]
    with (place.directory / "server.log").open("w") as log, subprocess.Popen(words, env=place.env, stdout=log, stderr=log) as server:
        try:
            wait_for(lambda: answers(f"{url}/health"), server)
            lines = place.run("python", str(Path(__file__).with_name("openenv_client.py")), url).splitlines()
        finally:
            server.kill()
    return {line["problem"]: line.get("reward") for line in map(json.loads, lines)}


def run_nemo_gym(place: Place) -> Rewards:
    packages = PACKAGES / "nemo_gym"
    place.run("python", str(packages / "resources_servers/kernel_grader/app.py"), "--write-tasks", "tasks.jsonl")
    servers = (
        "resources_servers/kernel_grader",
        "responses_api_agents/simple_agent",
        "responses_api_models/openai_model",
        "environment_servers/legacy_agent",
    )
    for server in servers:  # in place of one that it would make for each
        link = place.directory / "environments" / server / ".venv"
        link.parent.mkdir(parents=True)
        link.symlink_to(place.bin.parent)
    environments = (f"+uv_venv_dir={place.directory / 'environments'}", "+skip_venv_if_present=true")
    model = ("--model-type", "openai_model", "--model", "scripted", "--model-url", place.model_url, "--model-api-key", "none")
    resources = ("--search-dir", str(packages), "--resources-server", "kernel_grader", "--agent", "kernel_grader_simple_agent")
    output = ("--split", "validation", "--output", "rollouts.jsonl", "+route_failures_to_sidecar=true")
    place.run("gym", "eval", "run", *resources, *model, *output, *environments)
    failures = (place.directory / "rollouts_failures.jsonl").read_text("utf-8").splitlines()
    assert all("reward" not in json.loads(line) for line in failures)
    lines = (place.directory / "rollouts.jsonl").read_text("utf-8").splitlines()
    return dict.fromkeys(RIGHT | WRONG) | {line["problem"]: line["reward"] for line in map(json.loads, lines)}


def run_harbor(place: Place) -> Rewards:
    place.run("grader-harbor-tasks", "tasks")
    parts = ("-a", "harbor_parts:ScriptedAgent", "-e", "harbor_parts:BubblewrapEnvironment")
    place.run("harbor", "run", "-c", "tasks/job.json", "-p", "tasks", *parts, "-o", "jobs", "--job-name", "job", "-n", "20", "-y", "-q")
    rewards: Rewards = {}
    for path in place.directory.glob("jobs/job/*/result.json"):
        trial = json.loads(path.read_text("utf-8"))
        result = trial["verifier_result"]
        assert (result is None) == (trial["exception_info"] is not None)
        rewards[path.parent.name.split("__")[0]] = None if result is None else result["rewards"]["reward"]
    return rewards


FRAMEWORKS: dict[str, Callable[[Place], Rewards]] = {
    "inspect": run_inspect,
    "verifiers": run_verifiers,
    "openenv": run_openenv,
    "nemo_gym": run_nemo_gym,
    "harbor": run_harbor,
}


def answers(url: str) -> bool:
    """Return whether something answers there."""
    try:
        urllib.request.urlopen(url, timeout=5)
    except (urllib.error.URLError, OSError):
        return False
    return True


def wait_for(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait until it is so."""
    for _ in range(600):
        assert process.poll() is None
        if is_so():
            return
        time.sleep(0.2)
    raise AssertionError("not in two minutes")


def succeeded(address: str) -> int:
    """Return how many submissions have a verdict."""
    with grader.SyncGraderClient(address) as client:
        return len(client.list_submissions(states=[submission_pb2.SUBMISSION_STATE_SUCCEEDED], page_size=1000).submissions)


@contextmanager
def grader_server(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Serve the problems on the emulated device; the process and its address."""
    recipes = directory / "recipes"
    recipes.mkdir()
    for recipe in RECIPES:
        words = [sys.executable, "-m", "grader.cli.main", "problems", "new", recipe.replace("-", "_"), "--like", recipe]
        subprocess.run(words, cwd=recipes, check=True, capture_output=True)
    port = free_port()
    problems = [ROOT / "kernels_examples", recipes, ROOT / "tests/exploits/problem", ROOT / "tests/exploits/problems/meaning_relu"]
    words = [sys.executable, "-m", "grader.server.main", "--listen", f"127.0.0.1:{port}", "--web", str(web := free_port())]
    words += ["--device", "emulated", "--state-dir", str(directory / "state"), "--no-resident-toolchain", "--problems", *map(str, problems)]
    with (directory / "server.log").open("w") as log, subprocess.Popen(words, stdout=log, stderr=log) as server:
        try:
            wait_for(lambda: answers(f"http://127.0.0.1:{web}/readyz"), server)
            yield server, f"127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(120)


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    """Directory and environment for a framework's commands, and the scripted model."""
    name = request.param
    if not (Path(os.environ.get("GRADER_FRAMEWORKS_DIR", "/nowhere")) / name / "bin").is_dir():
        pytest.skip(f"$GRADER_FRAMEWORKS_DIR has no virtual environment {name}; `make frameworks` makes it")
    model = ThreadingHTTPServer(("127.0.0.1", 0), scripted_model.Handler)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{model.server_port}/v1"
    environments = Path(os.environ["GRADER_FRAMEWORKS_DIR"]).absolute()
    env = {
        "HOME": str(tmp_path),
        "PATH": f"{environments / name}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "tests/frameworks"),
        "UV_CACHE_DIR": str(environments / "uv-cache"),
        "SCRIPTED_BASE_URL": url,
        "SCRIPTED_API_KEY": "none",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    env |= {key: value for key, value in os.environ.items() if key.startswith(("UV_", "PIP_", "SSL_"))}
    (tmp_path / "out").mkdir()
    yield Place(name, tmp_path / "out", url, env)
    model.shutdown()


@pytest.mark.parametrize("place", FRAMEWORKS, indirect=True)
def test_a_scripted_model_gets_the_rewards_of_its_kernels(place: Place, tmp_path: Path) -> None:
    """Of 20 answers ten are right; one forges a verdict, and one has no kernel."""
    with grader_server(tmp_path) as (_, address):
        place.env["GRADER_SERVER"] = address
        rewards = FRAMEWORKS[place.name](place)
    assert rewards == dict.fromkeys(RIGHT, 1.0) | dict.fromkeys(WRONG, 0.0)


@pytest.mark.parametrize("place", FRAMEWORKS, indirect=True)
def test_a_server_that_is_killed_leaves_answers_unscored(place: Place, tmp_path: Path) -> None:
    """No right kernel gets 0, and no more kernels get a reward than were graded."""
    graded = 0

    def kill() -> None:
        nonlocal graded
        while server.poll() is None:
            if (graded := succeeded(address)) >= KILLED_AFTER:
                server.kill()
            time.sleep(0.3)

    with grader_server(tmp_path) as (server, address):
        place.env.update(GRADER_SERVER=address, GRADER_TIMEOUT_S="60")
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        rewards = FRAMEWORKS[place.name](place)
        killer.join(10)
    scored = {problem: reward for problem, reward in rewards.items() if reward is not None}
    print(f"{place.name}: killed after {graded}; {scored}; unscored: {20 - len(scored)}")
    assert rewards.keys() == RIGHT.keys() | WRONG.keys()
    assert all(reward == (problem in RIGHT) for problem, reward in scored.items())
    assert 1 <= len(scored) <= graded + 2  # `meaning_relu` has no kernel; one may be graded between the count and the kill
    assert len(scored) < 20
