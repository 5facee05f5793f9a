"""The corpus of torch extensions, built by nvcc and run on the GPU: light headers and torch's own agree there too."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from grader.dispatch.gpus import Gpu
from grader_extensions.fast_torch_build.tests.torch_extensions import corpus
from grader_extensions.fast_torch_build.tests.torch_extensions.builds import FULL_BUILDER, build, processors
from grader_extensions.fast_torch_build.tests.torch_extensions.results import called

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
        light = list(pool.map(lambda ext: build(ext, place / "light" / ext.name, device_kind="cuda"), extensions))
        full = list(pool.map(lambda ext: build(ext, place / "full" / ext.name, device_kind="cuda", program=FULL_BUILDER), extensions))
    ways = {"light": dict(zip(LIGHT, light, strict=True)), "full": dict(zip(LIGHT, full, strict=True))}
    outcomes_of = {}
    for way, built in ways.items():
        artifacts = [(name, entry.artifact, "kernel") for name, entry in built.items() if entry.artifact is not None]
        outcomes_of[way] = called(artifacts, place / way / "calls", "cuda")
        for name, built_extension in built.items():
            if built_extension.artifact is None or (built_extension.note is not None and built_extension.note.headers != way):
                outcomes_of[way][name] = {"not built": built_extension.log[-2000:], "note": repr(built_extension.note)}
    return outcomes_of


@pytest.mark.parametrize("name", LIGHT)
def test_no_bit_differs_on_the_gpu(name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    """Built by the light headers, and by torch's own."""
    light, full = outcomes["light"][name], outcomes["full"][name]
    assert light == full
    assert "outcomes" in full, full
