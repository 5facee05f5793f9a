"""The corpus of torch extensions, built by nvcc and run on the GPU: light headers and torch's own agree there too."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grader.dispatch.gpus import Gpu
from tests.extensions import corpus
from tests.extensions.builds import ROOT, TIMEOUT_S, Built, build, build_alone, processors

# These read a tensor's memory on the host.
HOST_ONLY = {"bfloat16_pointers", "irange_and_arrays"}
LIGHT = [name for name in corpus.names() if corpus.load(name).headers == "light" and name not in HOST_ONLY]
pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture(scope="session")
def outcomes(gpu: Gpu, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """For each way, what every extension's calls came to."""
    place = tmp_path_factory.mktemp("gpu")
    extensions = [corpus.load(name) for name in LIGHT]
    with ThreadPoolExecutor(processors()) as pool:
        light = list(pool.map(lambda one: build(one, _made(place / "light" / one.name), device_kind="cuda"), extensions))
        full = list(pool.map(lambda one: build_alone(one, _made(place / "full" / one.name), device_kind="cuda"), extensions))
    ways = {"light": dict(zip(LIGHT, light, strict=True)), "full": dict(zip(LIGHT, full, strict=True))}
    found = {way: _called(built, place / way) for way, built in ways.items()}
    for way, built in ways.items():
        for name, one in built.items():
            if one.artifact is None or (one.note is not None and one.note.headers != way):
                found[way][name] = {"not built": one.log[-2000:], "note": repr(one.note)}
    return found


@pytest.mark.parametrize("name", LIGHT)
def test_no_bit_differs_on_the_gpu(name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    """Built by the light headers, and by torch's own."""
    light, full = outcomes["light"][name], outcomes["full"][name]
    assert light == full
    assert "outcomes" in full, full


def _called(built: dict[str, Built], out: Path) -> dict[str, Any]:
    plan = [(name, str(one.artifact), "kernel") for name, one in built.items() if one.artifact is not None]
    (out / "plan").write_text(json.dumps(plan))
    command = [sys.executable, "-m", "tests.extensions.calls", str(out / "plan"), str(out), "cuda"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
    # Some messages name the file that registered an operator.
    return {path.stem: json.loads(path.read_text().replace(str(out), "")) for path in out.glob("*.json")}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
