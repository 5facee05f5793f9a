"""What all tests share: the directory of a test run, and the log as it was before a module's tests."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import structlog

pytest_plugins = ["tests.collection", "tests.requirements", "tests.turns", "tests.gpu.report"]

RUN_DIR_VARIABLE, CACHE_DIR_VARIABLE, OWNER_VARIABLE = "GRADER_TEST_RUN_DIR", "GRADER_TEST_CACHE_DIR", "GRADER_TEST_OWNER_PID"
RUN_DIR = pytest.StashKey[Path]()
# The tests of these take long and share nothing that is expensive to make.
SPREAD = (
    "tests/builds/test_build",
    "grader_extensions/fast_torch_build/tests/test_corpus",
    "grader_extensions/emulated_cuda/tests/conformance/",
    "tests/exploits/test_controls_meaning",
    "tests/exploits/test_exploits",
    "grader_extensions/fast_torch_build/tests/torch_extensions/",
    "tests/honest/",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the directory that the processes of this run share: short, for sockets, and other uids may pass it."""
    if hasattr(config, "workerinput"):
        return  # xdist's workers inherit the variables
    directory = Path(tempfile.mkdtemp(prefix="grader-tests-", dir="/tmp"))
    directory.chmod(0o711)
    config.stash[RUN_DIR] = directory
    os.environ[RUN_DIR_VARIABLE] = str(directory)
    os.environ.setdefault(CACHE_DIR_VARIABLE, str(directory / "artifacts"))
    os.environ[OWNER_VARIABLE] = str(os.getpid())
    os.environ.setdefault("GRADER_RESIDENT_TOOLCHAIN", "0")  # seconds and gigabytes for each server; its own tests turn it on


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what serves this run, and remove its directory."""
    directory = config.stash.get(RUN_DIR, None)
    if directory is None:
        return
    if (directory / "grading.pid").exists():
        from tests.harness import client

        client.stop(directory)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hand out files, and single tests of the folders in SPREAD, in the order of the collection; None leaves it to xdist."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling  # xdist is not everywhere where these tests run

    class FileOrTestScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return nodeid if nodeid.startswith(SPREAD) else nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return FileOrTestScheduling(config, log)


@pytest.fixture(scope="module", autouse=True)
def log_as_before():
    """Servers in tests are silenced, or write to files; a test of another module in the same process may want to hear."""
    yield
    structlog.reset_defaults()
