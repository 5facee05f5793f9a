"""Every isolation that this host has, one after the other."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

from grader.isolation.directories import hold_slot, shared_slot_directory
from grader.isolation.select import make
from grader.isolation.settings import BoxSettings
from grader.ledger import Ledger
from tests.clock import Clock
from tests.postgres import postgres, url  # noqa: F401  # fixtures
from tests.requirements import absent

MARKS = {"docker": pytest.mark.docker, "bubblewrap": pytest.mark.bubblewrap, "process": ()}


@pytest.fixture(scope="session")
def usable_isolations():
    """Return what each isolation says of itself, asked once."""
    answers = {}
    directory = Path(tempfile.mkdtemp(prefix="grader-check-"))
    directory.chmod(0o711)

    def ask(name):
        if name not in answers:
            answers[name] = asyncio.run(check(name, directory))
        return answers[name]

    yield ask
    shutil.rmtree(directory, ignore_errors=True)


async def check(name, directory):
    isolation = make(name, BoxSettings(state_id="check", runtime_dir=directory))
    try:
        return await isolation.check()
    finally:
        await isolation.close()


@pytest.fixture(params=[pytest.param(name, marks=marks) for name, marks in MARKS.items()])
def isolation_name(request, usable_isolations):
    """Name each isolation in turn; skip one that does not work here, unless its absence is a failure."""
    usability = usable_isolations(request.param)
    if not usability.usable:
        absent(request.param, usability.detail)
    return request.param


@pytest.fixture
def place():
    """Make a short directory that another uid may pass."""
    directory = Path(tempfile.mkdtemp(prefix="grader-test-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def settings(place):
    """Return settings of a server that shares nothing with another test's."""
    return BoxSettings(state_id=place.name.replace("-", "").replace("_", ""), runtime_dir=place / "runtime")


@pytest.fixture
async def isolation(isolation_name, settings):
    """Return the isolation itself."""
    instance = make(isolation_name, settings)
    yield instance
    await instance.sweep()
    await instance.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, tmp_path):
    """Where a new ledger is, in each database in turn."""
    if request.param == "sqlite":
        yield tmp_path / "ledger.sqlite3"
    else:
        with request.getfixturevalue("postgres").lent() as url:
            yield url


@pytest.fixture
def slot():
    """Hold a slot of this host."""
    with hold_slot(shared_slot_directory()) as number:
        yield number


@pytest.fixture
def clock():
    """The time of the ledger under test."""
    return Clock()


@pytest.fixture
async def ledger(location, clock):
    """An empty ledger on each database in turn, at the clock's time."""
    async with Ledger.open(location, now=clock) as opened:
        yield opened
