"""The wheel in an empty environment: the base package is a client, and says which extra any other command needs."""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.harness.programs import program
from tests.run_files import cache_directory

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ADD = ROOT / "kernels_examples" / "vector_add"
CLIENT = {"grpcio", "grpcio-status", "googleapis-common-protos", "protobuf", "typer", "rich", "jinja2"}
SERVER = {"torch", "sqlalchemy", "aiohttp", "structlog", "docker", "numpy"}  # not pydantic: typer needs it
TIMEOUT_S = 480


def run(*words: object, cwd: Path = ROOT) -> str:
    result = subprocess.run(list(map(str, words)), cwd=cwd, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def built(place: Path, *, dependencies: str = "") -> Path:
    """Build the wheel of a copy of the sources. dependencies: further ones of the base package."""
    sources = place / "sources"
    for name in ("grader", "proto", "sandbox"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md"):
        shutil.copy(ROOT / name, sources)
    text = (ROOT / "pyproject.toml").read_text()
    assert text.count("\ndependencies = [\n") == 1
    (sources / "pyproject.toml").write_text(text.replace("\ndependencies = [\n", f"\ndependencies = [\n{dependencies}"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", place, sources)
    (wheel,) = place.glob("kernel_grader-*.whl")
    return wheel


def required(wheel: Path, extra: str = "") -> set[str]:
    """The packages that this wheel asks for with an extra, or without one. Its own extras are resolved."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        names, lines = set[str](), email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        wanted = marker is None or (marker.evaluate({"extra": extra}) and not (extra and marker.evaluate({"extra": ""})))
        if not wanted or (extra and marker is None):
            continue
        if canonicalize_name(requirement.name) == "kernel-grader":
            names |= {name for inner in requirement.extras for name in required(wheel, inner)}
        else:
            names.add(str(canonicalize_name(requirement.name)))
    return names


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which the base package alone was installed."""
    place = tmp_path_factory.mktemp("client")
    venv.create(place, with_pip=True)
    pip = (place / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:")
    run(*pip, "-c", ROOT / "constraints.txt", wheel)
    return place / "bin"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server on a free port."""
    state = tmp_path_factory.mktemp("server")
    words = ["--listen", "127.0.0.1:0", "--state-dir", state, "--problems", ADD, "--cache-dir", cache_directory()]
    with program("grader.server.main", *words, "--sandbox", "process", "--device", "emulated") as server:
        yield server.until("serving")["address"]


def client(programs: Path, place: Path, *words: object, program: str = "grader-cli") -> subprocess.CompletedProcess[str]:
    """Run a program of the environment as its user does."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GRADER_", "PYTHON"))}
    environment = {**inherited, "HOME": str(place), "XDG_STATE_HOME": str(place), "XDG_CONFIG_HOME": str(place)}
    command = [str(programs / program), *map(str, words)]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)


def test_the_base_package_asks_for_a_client_only(wheel: Path, tmp_path: Path) -> None:
    """The control is a wheel whose base package asks for everything, as version 0.1.0 did: PyTorch is found in it."""
    assert required(wheel) == CLIENT
    assert required(wheel, "all") >= SERVER and not required(wheel, "server") & {"torch", "numpy"}
    assert "torch" in required(built(tmp_path, dependencies='    "kernel-grader[all]",\n'))


def test_a_client_is_generated_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """By protoc, which has google/protobuf itself. The control is without the other files of google."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    (proto,) = tmp_path.glob("kernel_grader-*.data/data/share/kernel-grader/proto")
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", proto, f"--python_out={tmp_path}", "grader/v1/grader_service.proto"]
    run(*command)
    shutil.rmtree(proto / "google")
    with pytest.raises(AssertionError, match=r"google/\w+/\w+\.proto: File not found"):
        run(*command)


def test_the_base_package_submits_to_a_server(programs: Path, address: str, tmp_path: Path) -> None:
    """A right kernel and a wrong one get their verdicts and exit codes."""
    for name, code, verdict in (("grid_stride", 0, "VERDICT_ACCEPTED"), ("off_by_one", 1, "VERDICT_WRONG_ANSWER")):
        result = client(programs, tmp_path, "submit", ADD / f"{name}.cu", "--server", address, "--mode", "test", "--json")
        assert (result.returncode, json.loads(result.stdout)["report"]["verdict"]) == (code, verdict), result.stderr


@pytest.mark.parametrize(
    ("words", "extras", "suffix"),
    [
        (("submit", ADD / "grid_stride.cu"), "server,judge", ", or pass --server HOST:PORT"),
        (("submit", ADD / "grid_stride.cu", "--problem", ADD / "problem.toml"), "server,judge", ", or pass --server HOST:PORT"),
        (("list",), "server", ", or pass --server HOST:PORT"),
    ],
)
def test_a_command_that_needs_an_extra_says_which(
    programs: Path, tmp_path: Path, words: tuple[object, ...], extras: str, suffix: str
) -> None:
    """Exit 2, and one line that says what to install."""
    result = client(programs, tmp_path, *words)
    expected = f"error: this command needs packages that are not installed: pip install '.[{extras}]' in a clone{suffix}\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", expected)
