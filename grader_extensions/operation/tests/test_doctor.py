"""`grader-cli doctor`, and what both doctors say of a package that is broken."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest
from click.testing import CliRunner

from grader import extensions
from grader.cli import commands
from grader.server import main as server_main
from grader_extensions.command_line import ExtensionCommands
from grader_extensions.operation.host_findings import HostFinding, can_grade
from sandbox.protocol import entry_points
from sandbox.protocol.box_modules import VARIABLE
from tests import fakes


def finding(kind, usable, required=False):
    return HostFinding(kind=kind, name="x", usable=usable, detail="", required=required)


@pytest.mark.parametrize("missing", [0, 1, 2, 3])
def test_kernels_can_be_graded_where_none_is_missing(missing):
    """A device, an isolation, and the compiler that must be; the last case is the control."""
    here = [finding("device", missing != 0), finding("isolation", missing != 1), finding("compiler", missing != 2, True)]
    assert can_grade(here) is (missing == 3)


@pytest.fixture
def broken_package(monkeypatch):
    """This package, and one whose box module is none. What is read of them is forgotten with the test."""
    points = [
        EntryPoint(name="extensions", value=f"{ExtensionCommands.__module__}:ExtensionCommands", group=extensions.COMMANDS),
        EntryPoint(name="emulated", value="json", group="grader.box_modules"),
    ]
    monkeypatch.setattr(entry_points, "scan", lambda: EntryPoints(points))
    monkeypatch.delenv(VARIABLE, raising=False)
    fakes.forget_installed_parts()
    yield
    fakes.forget_installed_parts()


FAULT = "grader.box_modules: 'json' of an installed package is no module inside a package"


def test_a_wrong_entry_point_is_a_sentence_of_the_servers_doctor(broken_package, capsys):
    """For a box module, which no program imports itself."""
    assert server_main.main(["doctor"]) == 1
    assert FAULT in " ".join(capsys.readouterr().out.split())


def test_a_wrong_entry_point_ends_the_doctor_of_this_machine(broken_package):
    """As it ends every command that needs it."""
    result = CliRunner().invoke(commands.Commands(commands.commands())["doctor"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 2 and FAULT in " ".join(result.stderr.split())


def test_doctor_says_what_works(cli):
    """A remedy comes with everything that does not work."""
    ended = cli("doctor", "--json")
    assert ended.code == 0, ended.stdout
    findings = {entry["name"]: entry for entry in ended.json["findings"]}
    assert findings["emulated"]["usable"]
    assert findings["g++"]["usable"]
    assert {"docker", "bubblewrap", "process"} <= set(findings)
    assert all(entry["remedy"] for entry in findings.values() if not entry["usable"])
