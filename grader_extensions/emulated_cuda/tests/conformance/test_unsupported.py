"""Names of CUDA's that unsupported.toml lists are unknown to g++ with the emulated device's headers, and are refused for that."""

import tomllib
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import emulation_limits
from grader_extensions.emulated_cuda.tests.conformance.conftest import compile_emulated

TABLE = tomllib.loads(Path(__file__).with_name("unsupported.toml").read_text())
NAMES = [name for feature in TABLE["feature"] for name in feature.get("names", ())]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_header_declares_is_unsupported(name: str, tmp_path: Path) -> None:
    """A header that declares it one day makes the table wrong."""
    headers = "#include <cuda.h>\n#include <curand_kernel.h>\n"
    text = f"{headers}__global__ void k(int* x) {{ x[0] = {name}(1, 2, 3); }}\n"
    log = compile_emulated(text, tmp_path, "-fsyntax-only").stderr
    assert emulation_limits.unknown_name(log, text) == f"the emulated device has no {name}; use a CUDA device for this kernel"
