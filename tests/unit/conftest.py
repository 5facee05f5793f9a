"""Setup of the unit tests: fleets of fakes, without the API keys and the default server of the user who runs them."""

from collections.abc import AsyncIterator, Callable, Iterator
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest
import pytest_asyncio

from grader.artifacts import SubmissionFiles
from grader.dispatch.local_fleet import LocalFleet
from grader.isolation.settings import BoxSettings
from tests import fakes


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A directory that is empty, in place of the user's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        for name in ("GRADER_SERVER", "GRADER_KEY"):
            patched.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def baseline() -> Iterator[object]:
    """The real trusted runner, kept from job to job as a judge keeps it."""
    from sandbox.judge.baseline import Baseline

    runner = Baseline("emulated", SpawnProcess)  # threads of this process may hold what a fork would wait for
    yield runner
    runner.close()


@pytest.fixture
def judges(tmp_path: Path) -> fakes.Judges:
    """Judges that do as told."""
    return fakes.Judges(tmp_path, check_s=60.0)


@pytest.fixture
def boxes() -> fakes.FakeBoxes:
    """Boxes that do as told."""
    return fakes.FakeBoxes()


@pytest_asyncio.fixture
async def make(tmp_path: Path, judges: fakes.Judges, boxes: fakes.FakeBoxes) -> AsyncIterator[Callable[..., LocalFleet]]:
    """Make fleets that keep files, and end them after the test."""
    fleets: list[LocalFleet] = []

    def make_fleet(**settings: object) -> LocalFleet:
        place = BoxSettings(state_id="fleet", runtime_dir=tmp_path)
        files = SubmissionFiles(tmp_path / "files", 1 << 20)
        fleets.append(LocalFleet(isolation=boxes, settings=place, make_judge=judges, files=files, **settings))  # type: ignore[arg-type]
        return fleets[-1]

    yield make_fleet
    for fleet in fleets:
        await fleet.__aexit__()
