"""The mode and the page of examples/extension: a file each, which a server finds by its entry point."""

from importlib.metadata import EntryPoint
from pathlib import Path
from urllib.request import urlopen

import pytest

from grader import extensions
from grader.config import Settings
from grader.server.running import serving
from grader.verdict.fold import fold
from sandbox.protocol import wire
from tests import fakes
from tests.threaded_server import in_thread
from tests.unit.pipeline_fleets import graded, lease

EXAMPLE = Path(__file__).parents[2] / "examples" / "extension"
POINTS = (
    EntryPoint(name="profile", value="formula_mode", group=extensions.MODES),
    EntryPoint(name="formula", value="formula_page:server_part", group=extensions.SERVER_PARTS),
)


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The package's files and entry points, in place of those that are installed here."""

    def entry_points(group):
        return {point.name: point for point in POINTS if point.group == group}

    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setattr(extensions, "entry_points", entry_points)
    extensions.modes.cache_clear()
    yield
    extensions.modes.cache_clear()


async def test_the_mode_adds_to_the_report(make):
    facts = await graded(make(), lease(mode=wire.Mode.PROFILE))
    assert fold(facts).profile == wire.KernelProfile(remarks=("1 lines",))


def test_the_page_is_served(tmp_path):
    settings = Settings(listen=f"unix:{tmp_path}/s", web="127.0.0.1:0", state_dir=tmp_path / "state", drain_s=0)
    with in_thread(serving(settings, fakes.wiring())) as running:
        assert "cuda" in urlopen(f"http://{running.web_address}/languages").read().decode().split()
