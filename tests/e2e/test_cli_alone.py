"""`grader-cli` without a server: every exit code, and what is printed."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli, first_word, started

pytestmark = pytest.mark.slow  # each starts a server and a judge of its own

ADD = Path(__file__).parents[2] / "kernels_examples" / "vector_add"
TRIAL_S = 600  # longer than a test may take, so that no limit of a trial ends an endless kernel
GONE_S = 300.0
LOCAL = ("--sandbox", "process", "--device", "emulated")

RIGHT = """
#include <cstdint>
#include <cuda_runtime.h>
__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    PRINT;
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);
}
"""
ENDLESS = RIGHT.replace("PRINT", "for (volatile int forever = 1; forever;) {}")
WORKLOAD = '[[workloads]]\nid = "n1024"\naxes = { n = 1024 }\n'


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def beside(directory: Path, name: str, *, workloads: tuple[str, ...] = (), trial_s: float = 5.0) -> None:
    """Write the problem of vector addition there under another name; with these workloads, where any are given."""
    text = (ADD / "problem.toml").read_text().replace('name = "vector_add"', f'name = "{name}"')
    assert "trial_s = 5.0\n" in text
    text = text.replace("trial_s = 5.0\n", f"trial_s = {trial_s}\n")
    if workloads:
        text = "\n".join((text[: text.index("[[workloads]]")], *workloads))
    write(directory / "problem.toml", text)
    shutil.copy(ADD / "reference.py", directory)


# -- exit 0: a verdict ------------------------------------------------------------------------------------------------------


def test_an_accepted_kernel_exits_0(cli: Cli, tmp_path: Path) -> None:
    """The report has verdict, workloads, times, isolation and device, and the problem is the one beside the file."""
    beside(tmp_path, "small_add", workloads=(WORKLOAD,))
    shutil.copy(ADD / "grid_stride.cu", tmp_path)
    ended = cli("submit", "grid_stride.cu", *LOCAL)
    assert ended.code == 0, ended.stdout + ended.stderr
    for part in (r"^ACCEPTED, right; times here", r"building: built", r"Workloads", r"passed", r"Times", r"process: UNSAFE"):
        assert re.search(part, ended.stdout, re.MULTILINE), part


# -- exit 3: the grader failed ----------------------------------------------------------------------------------------------


def test_a_reference_that_raises_exits_3(cli: Cli, tmp_path: Path) -> None:
    """The problem's fault is not the kernel's: no verdict is given."""
    beside(tmp_path, "broken_add")
    (tmp_path / "reference.py").write_text("def reference(*tensors, **axes):\n    raise RuntimeError('no reference today')\n")
    ended = cli("submit", write(tmp_path / "mine.cu", RIGHT.replace("PRINT", "")), *LOCAL)
    assert ended.code == 3, ended.stdout + ended.stderr
    assert "the grader failed" in ended.stdout and "no reference today" in ended.stdout
    assert "attempt 2" not in ended.stdout  # it would only fail again


# -- interruption -----------------------------------------------------------------------------------------------------------


def descendants(pid: int) -> list[int]:
    """The processes that this one began, and those that they did."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return children + [below for child in children for below in descendants(child)]


@contextmanager
def watched(pids: list[int]) -> Iterator[list[int]]:
    """Descriptors of the processes that are still there, which can be read once they have ended."""
    with ExitStack() as stack:
        descriptors = []
        for pid in pids:
            with suppress(ProcessLookupError):
                descriptors.append(os.pidfd_open(pid))
                stack.callback(os.close, descriptors[-1])
        yield descriptors


def all_end(descriptors: list[int]) -> bool:
    """Return whether all of them end: the last, such as the judge's own, do when those before them have."""
    return all(select.select([descriptor], [], [], GONE_S)[0] for descriptor in descriptors)


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        pytest.param((signal.SIGINT,), 130, id="ctrl-c"),
        pytest.param((signal.SIGTERM,), 143, id="term"),  # term-twice begins with it
        pytest.param((signal.SIGHUP,), 129, id="hangup"),
        pytest.param((signal.SIGTERM, signal.SIGTERM), 143, id="term-twice"),
    ],
)
def test_a_signal_cancels(cli: Cli, environment: dict[str, str], tmp_path: Path, signals: tuple[signal.Signals, ...], code: int) -> None:
    """The command says so and its exit code is the signal's; the submission is cancelled, and nothing of it is left running."""
    beside(tmp_path, "patient_add", trial_s=TRIAL_S)
    mine = write(tmp_path / "mine.cu", ENDLESS)
    with started(environment, "submit", mine, *LOCAL) as process:
        assert process.stdout is not None and process.stderr is not None
        name = first_word(process)
        for line in process.stdout:
            if line.startswith("building: built"):
                break
        with watched(descendants(process.pid)) as begun:
            assert begun
            for number in signals:
                process.send_signal(number)
            process.stdout.read()
            assert process.wait(timeout=300) == code
            assert process.stderr.read() == f"cancelled {name}\n"
            assert all_end(begun)
    assert [entry["state"] for entry in cli("list", "--json").json["submissions"]] == ["SUBMISSION_STATE_CANCELLED"]


@pytest.mark.parametrize("lines", [1, 10_000], ids=["closed", "read"])
def test_a_closed_pipe_cancels_and_is_no_verdict(cli: Cli, environment: dict[str, str], lines: int) -> None:
    """As `| head -1` leaves it: 1 would be another verdict. The control reads all, and the kernel is right."""
    with started(environment, "submit", ADD / "grid_stride.cu", "--mode", "test", *LOCAL) as process:
        assert process.stdout is not None and process.stderr is not None
        name = first_word(process)
        for _, _ in zip(range(1, lines), process.stdout, strict=False):
            pass
        process.stdout.close()
        code = process.wait(timeout=300)
        message = process.stderr.read()
    states = [entry["state"] for entry in cli("list", "--json").json["submissions"]]
    expected = (3, f"cancelled {name}\n", "CANCELLED") if lines == 1 else (0, "", "SUCCEEDED")
    assert (code, message, states) == (*expected[:2], [f"SUBMISSION_STATE_{expected[2]}"])
