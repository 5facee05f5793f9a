"""The list of what is cordoned: the command that writes it, and the server that follows it."""

import asyncio
import json

import pytest

from grader.observability.observer import LaneNow, LaneState
from grader.server import operation
from grader.server.admin import main
from grader.server.running import serving
from grader.server.server_state import CORDONS_NAME, SNAPSHOT_NAME, Cordons
from tests import fakes
from tests.waiting import until


@pytest.fixture
def command(settings, capsys):
    """Run the command on the state directory; its code, and what it says."""

    def run(*words):
        code = main(["lanes", "--state-dir", str(settings.state_dir), *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


@pytest.fixture
def path(settings):
    return settings.state_dir / CORDONS_NAME


def test_a_lane_is_cordoned_listed_and_uncordoned(command, path) -> None:
    none = f"no server runs on {path.parent}\n"
    assert command("list") == (0, f"{none}nothing is cordoned\n")
    for name in ("gpu-1/cuda:0", "gpu-2"):
        assert command("cordon", name)[0] == 0
    assert command("cordon", "gpu-2")[0] == 0 and command("list") == (0, f"{none}cordoned: gpu-1/cuda:0, gpu-2\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert command("uncordon", "gpu-2") == (0, "gpu-2 gets work again\n")
    assert command("list") == (0, f"{none}cordoned: gpu-1/cuda:0\n")
    assert json.loads(command("list", "--json")[1]) == {"running": False, "lanes": [], "cordoned": ["gpu-1/cuda:0"]}


def test_the_state_directory_is_named_before_or_behind_the_word(settings, command, capsys) -> None:
    assert command("cordon", "gpu-2")[0] == 0
    assert main(["lanes", "list", "--state-dir", str(settings.state_dir)]) == 0 and "cordoned: gpu-2" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", "../x y", "GPU", "a" * 201, "/cuda:0"])
def test_what_can_be_no_name_is_refused(command, path, name) -> None:
    code, output = command("cordon", name)
    assert code == 2 and "such as gpu-1/cuda:0" in output and not path.exists()


def test_what_is_not_cordoned_can_not_be_uncordoned(command) -> None:
    code, output = command("uncordon", "gpu-9")
    assert code == 2 and "admin lanes list" in output


def test_a_file_that_makes_no_sense_changes_nothing(path, command) -> None:
    """The server goes on with the list that it has, and the command does not overwrite it."""
    cordons = Cordons(path.parent)
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
    Cordons(settings.state_dir).add("cuda:0")
    followed: list[frozenset[str]] = []
    async with serving(settings, fakes.wiring(None, cordon=followed.append)):
        assert followed == [{"cuda:0"}]
        Cordons(settings.state_dir).add("gpu-1")
        await until(lambda: len(followed) == 2)
    assert followed == [{"cuda:0"}, {"cuda:0", "gpu-1"}]


async def test_every_lane_of_a_running_server_is_listed_with_its_state(settings, command, monkeypatch) -> None:
    """As /metrics has it, also without the web port, and as it changes; nothing is shown once the server has ended."""
    monkeypatch.setattr(operation, "LOOK_S", 0.02)
    lanes = [LaneNow(name="cuda:0", state=LaneState.TAKEN), LaneNow(name="gpu-1/cuda:0", state=LaneState.QUARANTINED)]
    async with serving(settings, fakes.wiring(None, lanes=lambda: tuple(lanes))):
        expected = "lane          state\ncuda:0        taken\ngpu-1/cuda:0  quarantined\nnothing is cordoned\n"
        assert await asyncio.to_thread(command, "list") == (0, expected)
        lanes[:] = [LaneNow(name="cuda:0", state=LaneState.FREE)]
        while json.loads((await asyncio.to_thread(command, "list", "--json"))[1])["lanes"] != [{"name": "cuda:0", "state": "free"}]:
            pass
        (settings.state_dir / SNAPSHOT_NAME).write_text('{"host": 1}')  # what makes no sense is no server
        assert (await asyncio.to_thread(command, "list"))[1].startswith("no server runs on")
    assert command("list")[1].startswith("no server runs on")


async def test_a_name_that_no_lane_has_is_cordoned_with_a_warning(settings, command) -> None:
    """The name may be of a worker that joins later, or a typing error."""
    lanes = (LaneNow(name="local/gpu-0/cuda:0", state=LaneState.FREE),)
    async with serving(settings, fakes.wiring(None, lanes=lambda: lanes)):
        for name, unknown in (("local/gpu-0/cuda:0", False), ("local/gpu-0", False), ("local/gpu-1", True), ("local/gpu", True)):
            code, output = await asyncio.to_thread(command, "cordon", name)
            assert code == 0 and ("No lane has this name now" in output) is unknown
