"""Fleets whose boxes and judges are fakes, for tests of what follows a verdict."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from grader.artifacts.files import SubmissionFiles
from grader.dispatch.local_fleet import LocalFleet
from grader.isolation.settings import BoxSettings
from tests import fakes


@asynccontextmanager
async def fleets(place: Path, judges: fakes.Judges, boxes: fakes.FakeBoxes) -> AsyncIterator[Callable[..., LocalFleet]]:
    """Makes fleets that keep files, and ends them."""
    made: list[LocalFleet] = []

    def make_fleet(**settings: object) -> LocalFleet:
        where = BoxSettings(state_id="fleet", runtime_dir=place)
        files = SubmissionFiles(place / "files", 1 << 20)
        made.append(LocalFleet(isolation=boxes, settings=where, make_judge=judges, files=files, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make_fleet
    for fleet in made:
        await fleet.__aexit__()
