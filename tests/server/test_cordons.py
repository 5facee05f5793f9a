"""The list of what is cordoned: the command that writes it, and the server that follows it."""

import asyncio

import pytest

from grader.config import Settings
from grader.server import operation
from grader.server.commands import admin_lanes
from grader.server.cordons import Cordons
from grader.server.running import serving
from tests import fakes


@pytest.fixture
def command(place, capsys):
    """Run the command on the state directory; its code, and what it says."""

    def run(*words):
        code = admin_lanes.main(["--state-dir", str(place), *words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


@pytest.fixture
def path(place):
    return Settings(state_dir=place).cordons_path


def test_a_lane_is_cordoned_listed_and_uncordoned(command, path) -> None:
    assert command("list") == (0, "nothing is cordoned\n")
    for name in ("gpu-1/cuda:0", "gpu-2"):
        assert command("cordon", name)[0] == 0
    assert command("cordon", "gpu-2")[0] == 0 and command("list") == (0, "gpu-1/cuda:0\ngpu-2\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert command("uncordon", "gpu-2") == (0, "gpu-2 gets work again\n")
    assert command("list") == (0, "gpu-1/cuda:0\n")


@pytest.mark.parametrize("name", ["", "../x y", "GPU", "a" * 201, "/cuda:0"])
def test_what_can_be_no_name_is_refused(command, path, name) -> None:
    code, said = command("cordon", name)
    assert code == 2 and "such as gpu-1/cuda:0" in said and not path.exists()


def test_what_is_not_cordoned_can_not_be_uncordoned(command) -> None:
    code, said = command("uncordon", "gpu-9")
    assert code == 2 and "admin lanes list" in said


def test_a_file_that_makes_no_sense_changes_nothing(path, command) -> None:
    """The server goes on with the list that it has, and the command does not overwrite it."""
    cordons = Cordons(path)
    assert not cordons.look()
    cordons.add("gpu-1")
    assert cordons.look() and cordons.names == {"gpu-1"} and not cordons.look()
    for wrong in ("{", '{"gpu-1": 1}', '["gpu-1", 2]', '["A B"]'):
        path.write_text(wrong)
        assert not cordons.look() and cordons.names == {"gpu-1"}
        assert command("cordon", "gpu-2")[0] == 2 and path.read_text() == wrong
    path.unlink()
    assert cordons.look() and cordons.names == frozenset()


async def test_a_running_server_follows_and_a_new_one_begins_with_it(settings, place, monkeypatch) -> None:
    """Within a look; also what was cordoned before it started."""
    monkeypatch.setattr(operation, "LOOK_S", 0.02)
    Cordons(settings.cordons_path).add("cuda:0")
    followed: list[frozenset[str]] = []
    async with serving(settings, fakes.wiring(None, cordon=followed.append)):
        assert followed == [{"cuda:0"}]
        Cordons(settings.cordons_path).add("gpu-1")
        async with asyncio.timeout(30):
            while len(followed) < 2:
                await asyncio.sleep(0.01)
    assert followed == [{"cuda:0"}, {"cuda:0", "gpu-1"}]
