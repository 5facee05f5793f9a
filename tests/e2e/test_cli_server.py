"""`grader-cli --server` against a `grader-server`, both as processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli, first_word, started
from tests.harness.programs import program
from tests.run_files import cache_directory

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "kernels_examples"
ADD = EXAMPLES / "vector_add"
WAITING = """#include <cuda_runtime.h>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, long n) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, long n, cudaStream_t stream) {
    while (access("FILE", F_OK) != 0) usleep(10000);
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """A kernel that is right, and goes on only when its file is there."""

    kernel: Path
    file: Path

    def open(self) -> None:
        self.file.touch()


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    """Its box sees this host's files, under another uid."""
    with tempfile.TemporaryDirectory(prefix="grader-gate-") as place:
        Path(place).chmod(0o755)
        gate = Gated(kernel=tmp_path / "waiting.cu", file=Path(place) / "open")
        gate.kernel.write_text(WAITING.replace("FILE", str(gate.file)))
        yield gate


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server on a port of its own; it is drained afterwards, must end well, and leaves nothing beside its state."""
    state, temporary, problems = (tmp_path_factory.mktemp(name) for name in ("server", "temporary", "problems"))
    shutil.copytree(ADD, problems / "patient_add")
    text = (
        (ADD / "problem.toml").read_text().replace('name = "vector_add"', 'name = "patient_add"').replace("trial_s = 5.0", "trial_s = 600")
    )
    (problems / "patient_add" / "problem.toml").write_text(text)
    temporary.chmod(0o711)
    words = ["--listen", "127.0.0.1:0", "--state-dir", state, "--problems", EXAMPLES, problems, "--cache-dir", cache_directory()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        with program("grader.server.main", *words, "--sandbox", "process", "--device", "emulated") as server:
            facts = server.until("serving")["address"]
            assert [path.name.rpartition("-")[0] for path in temporary.glob("grader-*")] == [f"grader-{os.geteuid()}"]
            yield facts
    assert not list(temporary.glob("grader-*"))


def test_a_submission_can_be_left_and_watched_later(cli: Cli, address: str, tmp_path: Path) -> None:
    """--no-wait returns at once; watch follows to the end, with the exit code of the verdict. The client's side keeps nothing."""
    submitted = cli("submit", ADD / "grid_stride.cu", "--server", address, "--no-wait", "--json", "--mode", "test")
    assert submitted.code == 0, submitted.stderr
    name = submitted.json["name"]
    watched = cli("watch", name, "--server", address)
    assert watched.code == 0, watched.stdout + watched.stderr
    assert "ACCEPTED" in watched.stdout
    assert name.removeprefix("submissions/")[:8] in cli("list", "--server", address).stdout
    late = cli("cancel", name, "--server", address)
    assert late.code == 2
    assert "already" in late.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("number", "code", "state"),
    [(signal.SIGINT, 130, "CANCELLED"), (signal.SIGTERM, 143, "CANCELLED"), (None, 3, "SUCCEEDED")],
    ids=["ctrl-c", "term", "closed-pipe"],
)
def test_a_submission_that_is_waited_for_is_cancelled_by_a_signal(
    cli: Cli, address: str, environment: dict[str, str], gated: Gated, number: signal.Signals | None, code: int, state: str
) -> None:
    """At a server, too. A closed pipe ends the command only: the server goes on, as with --no-wait."""
    words = ("submit", gated.kernel, "--problem", "patient_add", "--server", address, "--mode", "test")
    with started(environment, *words) as process:
        assert process.stdout is not None and process.stderr is not None
        name = first_word(process)
        if number is None:
            process.stdout.close()
        else:
            process.send_signal(number)
            process.stdout.read()
        assert process.wait(timeout=300) == code
        assert process.stderr.read() == (f"cancelled {name}\n" if number else "")
    gated.open()
    cli("watch", name, "--server", address)
    assert cli("show", name, "--server", address, "--json").json["state"] == f"SUBMISSION_STATE_{state}"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_watching_only(
    cli: Cli, address: str, environment: dict[str, str], gated: Gated, number: signal.Signals, code: int
) -> None:
    """The watched submission goes on to its verdict."""
    words = ("submit", gated.kernel, "--problem", "patient_add", "--server", address, "--no-wait", "--json", "--mode", "test")
    name = cli(*words).json["name"]
    with started(environment, "watch", name, "--server", address) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(timeout=300) == code
        assert process.stderr.read() == ""
    gated.open()
    assert cli("watch", name, "--server", address).code == 0
