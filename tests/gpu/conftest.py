"""The fixtures of the GPU tests: one fleet a module on the first GPU, and tables at the end."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.harness.grading import Grading, grader, isolation_from_environment, usable_gpus

TABLES_VARIABLE = "GRADER_GPU_TABLES"  # a directory; each table is also written there, as NAME.md
LOCKS = Path(tempfile.gettempdir()) / f"grader-gpu-tests-{os.geteuid()}"
_TABLES = pytest.StashKey[dict[str, list[tuple[str, ...]]]]()

Tell = Callable[..., None]


def why_no_gpu() -> str | None:
    """What is missing here for grading on a GPU; None where nothing is."""
    if not usable_gpus():
        return "no NVIDIA GPU, or no driver and packages that can use it"
    if shutil.which("nvcc") is None and not (Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc").exists():
        return "no nvcc on the PATH, in $CUDA_HOME or in /usr/local/cuda"
    return None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grading() -> AsyncIterator[Grading]:
    """A fleet on the first GPU, with the isolation that $GRADER_GPU_ISOLATION names."""
    missing = why_no_gpu()
    if missing is not None:
        pytest.skip(missing)
    with one_at_a_time(usable_gpus()[0].uuid):
        async with grader(isolation=isolation_from_environment(), lanes=(0,)) as made:
            yield made


@contextmanager
def one_at_a_time(uuid: str) -> Iterator[None]:
    """Wait until no other process runs these tests on this GPU: times and memory are of one lane alone."""
    with Path(f"{LOCKS}-{uuid}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def tell(request: pytest.FixtureRequest) -> Tell:
    """Add a row to a table of this run: tell("attacks", "id", "verdict"). A table's first row is its heading."""
    tables = request.config.stash.setdefault(_TABLES, {})

    def add(table: str, *cells: object) -> None:
        row = tuple(str(cell) for cell in cells)
        rows = tables.setdefault(table, [])
        if row not in rows:
            rows.append(row)
            _write(table, rows)  # at once: a run that is cut has shown what it has shown

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the tables."""
    for name, rows in config.stash.get(_TABLES, {}).items():
        lines = markdown(rows)
        terminalreporter.section(name)
        for line in lines:
            terminalreporter.write_line(line)


def _write(name: str, rows: list[tuple[str, ...]]) -> None:
    if directory := os.environ.get(TABLES_VARIABLE):
        Path(directory).mkdir(parents=True, exist_ok=True)
        (Path(directory) / f"{name}.md").write_text("\n".join([f"# {name}", "", *markdown(rows), ""]), "utf-8")


def markdown(rows: list[tuple[str, ...]]) -> list[str]:
    """A table; the first row is its heading."""
    heading, *rest = rows
    cells = [heading, tuple("---" for _ in heading), *rest]
    return ["| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in cells]


@pytest.fixture(scope="module")
def device_memory(grading: Grading) -> Iterator[Callable[[], int]]:
    """How many bytes of the first GPU's memory are used, by all processes."""
    with _nvml_memory() as read:
        yield read


@contextmanager
def _nvml_memory() -> Iterator[Callable[[], int]]:
    import pynvml

    gpu, *_ = usable_gpus()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
    try:
        yield lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    finally:
        pynvml.nvmlShutdown()
