"""Parts of installed packages: one that can't be imported, or is missing, is named with what to do."""

import contextlib
import re
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints

import pytest
import structlog
from typer.testing import CliRunner

from grader import extensions, formats
from grader.cli import commands
from grader.cli.main import app
from grader.config import Settings
from grader.errors import NotInstalled, ProblemInvalid, SettingsInvalid
from grader.intake.gate import SubmissionGate, submit_policy
from grader.isolations import IsolationInfo, isolations
from grader.model import SourceFile
from grader.problems import store
from grader.problems.store import Problems
from grader.server import admin, main, running
from grader.server.service import GraderServicer
from grader.v1 import competition_pb2, grader_service_pb2
from sandbox.protocol import entry_points
from sandbox.protocol.box_modules import box_modules
from sandbox.protocol.entry_points import EntryPointInvalid
from sandbox.protocol.languages import BUILT_IN, languages
from tests import fakes
from tests.requests import new_submission

POINTS = [
    EntryPoint(name="good", value="json:dumps", group="grader.any"),
    EntryPoint(name="broken", value="no_such_module:part", group="grader.any"),
]

ISOLATION = IsolationInfo(name="docker", implementation="json:dumps", description="one more")
ISOLATION_AUTO = replace(ISOLATION, name="auto")
PYTHON = BUILT_IN[-1]


class Words(extensions.CommandLine):
    """A package with a command word of grader's own, one that it alone brings, and a group that others add to, too."""

    def commands(self):
        return {
            "list": extensions.CliCommand("json:dumps"),
            "dump": extensions.CliCommand("json:dump"),
            "boards": extensions.CliGroup("Boards.", "Results"),
        }


class Admin(extensions.CommandLine):
    """A package with a subject of `grader-server admin`."""

    module = "json"

    def admin_commands(self):
        return {"boards": extensions.AdminCommand(module=self.module, summary="boards")}


class Rival(Admin):
    """Another package with the same subject."""

    module = "csv"


def command(*words):
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture(autouse=True)
def points(monkeypatch):
    """Two packages, of which one lost a module; a test may append another. What is read of them is forgotten with the test."""
    points = [*POINTS]
    monkeypatch.setattr(entry_points, "scan", lambda: EntryPoints(points))
    fakes.forget_installed_parts()
    yield points
    fakes.forget_installed_parts()


def test_a_part_that_cannot_be_imported_is_named():
    """The others are not kept from being used by name."""
    with pytest.raises(EntryPointInvalid, match=r"no_such_module:part.*install it again, or uninstall it"):
        extensions.named("grader.any")
    assert extensions.part("grader.any", "good")({}) == "{}" and extensions.part("grader.any", "none") is None


def test_the_packages_that_boxes_see_are_those_that_are_installed_now(points):
    """Nothing of an earlier look is remembered: a box of a later test would see the wrong packages."""
    assert entry_points.package_names() == {"json", "no_such_module"}
    points.append(EntryPoint(name="later", value="csv:reader", group="grader.any"))
    assert entry_points.package_names() == {"json", "no_such_module", "csv"}


@pytest.mark.parametrize(
    ("entry", "look", "fault"),
    [
        ("grader.modes profile=json", lambda: extensions.named(extensions.MODES), "is not a GradingMode"),
        ("grader.formats profile=json", formats.formats.__wrapped__, "is not a ProblemFormat"),
        ("grader.languages mine=json:dumps", languages.__wrapped__, "is not a LanguageInfo"),
        ("grader.languages other=tests.unit.test_installed_parts:PYTHON", languages.__wrapped__, "'python', and its entry point 'other'"),
        ("grader.isolations docker=tests.unit.test_installed_parts:ISOLATION", isolations.__wrapped__, "'docker', as one of grader itself"),
        ("grader.isolations auto=tests.unit.test_installed_parts:ISOLATION_AUTO", isolations.__wrapped__, "'auto', by which users ask"),
        ("grader.box_modules emulated=json", box_modules.__wrapped__, "no module inside a package"),
    ],
)
def test_a_part_of_another_kind_or_under_a_wrong_name_is_refused(points, entry, look, fault):
    """In every group with the package, the value and what to do."""
    group, name, value = re.split("[ =]", entry)
    points.append(EntryPoint(name=name, value=value, group=group))
    with pytest.raises(EntryPointInvalid, match=f"{group}: .* of an installed package .*{fault}.*; "):
        look()


def test_two_packages_do_not_bring_the_same_mode(points):
    """None of the two silently goes before the other."""
    points += [EntryPoint(name="profile", value=value, group=extensions.MODES) for value in ("json", "csv")]
    with pytest.raises(EntryPointInvalid, match=r"'json' of an installed package is named 'profile', and so is 'csv' .*; uninstall one"):
        extensions.named(extensions.MODES)


async def test_a_server_part_that_raises_is_logged_and_not_the_servers_end():
    """When its files are read again, and in its task."""

    async def fails():
        raise RuntimeError("of another package")

    with structlog.testing.capture_logs() as logs:
        await running.logged("reload", fails)
    assert [(entry["event"], entry["action"], str(entry["exc_info"])) for entry in logs] == [
        ("server_part_failed", "reload", "of another package")
    ]


def test_a_kept_problem_of_a_format_that_is_not_installed_is_refused(tmp_path):
    """When it is read: a submission to it would be built, and fail in the judge. The control: with its format it is read."""
    problem = fakes.problem()
    store.keep(problem, tmp_path)
    (path,) = tmp_path.iterdir()
    assert store.read_kept(path) == problem
    store.keep(replace(problem, spec=replace(problem.spec, format="elsewhere")), tmp_path)
    with pytest.raises(ProblemInvalid, match="'elsewhere', which no installed package brings; install kernel-grader-extensions"):
        store.read_kept(path)


def test_a_command_word_that_is_taken_is_named(points, capsys):
    """The first stays, which is grader's own. The controls: another word, and a group that two packages describe alike."""
    points += [EntryPoint(name=name, value="tests.unit.test_installed_parts:Words", group=extensions.COMMANDS) for name in ("one", "two")]
    table = commands.commands()
    assert table["list"] == commands.OWN["list"] and table["dump"].function == "json:dump" and "boards" in table
    note = "the command 'list' of 'tests' is left out: there is one already; uninstall one package"
    assert " ".join(capsys.readouterr().err.split()).count(note) == 2


def test_two_packages_do_not_bring_the_same_subject_of_an_administrator(points):
    """A server does not start, and the subject is nobody's. The controls: one package, and one that describes it alike."""
    points += [EntryPoint(name=name, value="tests.unit.test_installed_parts:Admin", group=extensions.COMMANDS) for name in ("one", "two")]
    assert extensions.admin_commands()["boards"].module == "json"
    points.append(EntryPoint(name="three", value="tests.unit.test_installed_parts:Rival", group=extensions.COMMANDS))
    for look in (extensions.check_installed, lambda: admin.main(["boards"])):
        with pytest.raises(EntryPointInvalid, match=r"adds the subject 'boards' .*, and so does another package; uninstall one"):
            look()


def test_an_unknown_command_may_be_one_of_a_package_that_is_not_installed(points):
    """The control: with a package that adds commands nothing is said of packages."""
    unknown = command("shwo")
    assert unknown.exit_code == 2 and "Did you mean 'show'?" in unknown.stderr
    assert "kernel-grader-extensions adds commands, and is not installed here" in " ".join(unknown.stderr.split())
    points.append(EntryPoint(name="made_up", value="tests.unit.test_installed_parts:Words", group=extensions.COMMANDS))
    assert "kernel-grader-extensions" not in command("shwo").stderr


def test_help_has_examples_of_commands_that_there_are(points):
    """Without a package that adds `problems`, none is of it, and help says what to install."""
    assert "grader-cli problems list" not in commands.epilog(commands.OWN) and "install kernel-grader" in commands.epilog(commands.OWN)
    points.append(EntryPoint(name="made_up", value="tests.unit.test_installed_parts:Words", group=extensions.COMMANDS))
    shown = commands.epilog({**commands.OWN, "problems": commands.OWN["show"]})
    assert "grader-cli problems list" in shown and "install" not in shown


@pytest.mark.parametrize("words", [["doctor"], ["admin", "keys", "import"], ["admin", "queue", "list"]], ids=" ".join)
def test_an_unknown_command_of_the_server_may_be_one_of_a_package_too(points, capsys, words):
    """Without a package that adds it, the last lines say where it comes from."""
    try:
        code = main.main(words)
    except SystemExit as end:
        code = end.code
    assert code == 2 and "kernel-grader-extensions adds" in capsys.readouterr().err


async def test_a_method_of_the_api_that_no_installed_package_answers_says_what_to_install():
    """The control: a package answers its own."""

    async def answer(request):
        return competition_pb2.Competition(name=request.name)

    service = GraderServicer(None, None, worker=None)
    service.add({"GetCompetition": answer})
    request = grader_service_pb2.GetCompetitionRequest(name="competitions/one")
    assert (await service.GetCompetition(request, None)).name == request.name
    with pytest.raises(AssertionError, match="Submit"):
        service.add({"Submit": answer})
    with pytest.raises(NotInstalled, match="the package for GetLeaderboard; its administrator can install kernel-grader-extensions"):
        await service.GetLeaderboard(grader_service_pb2.GetLeaderboardRequest(), None)


def test_competitions_without_their_package_are_refused(tmp_path):
    """In the settings of a server, and in a submission. The control: without them it is accepted."""
    problems = Problems(imported=tmp_path)
    store.keep(fakes.problem(), tmp_path)
    with pytest.raises(SettingsInvalid, match="no installed package reads them; install kernel-grader-extensions"):
        submit_policy(Settings(competitions=(tmp_path,)), problems)
    gate = SubmissionGate(problems=problems, policy=submit_policy(Settings(), problems))
    request = grader_service_pb2.SubmitRequest(
        submission=new_submission(fakes.problem().problem_id, [SourceFile(path="kernel.cu", content=fakes.source("accept"))])
    )
    assert gate.check(request, ("emulated",)).policy.admit is None
    request.submission.competition = "competitions/one"
    with pytest.raises(NotInstalled, match="the package for competitions"):
        gate.check(request, ("emulated",))


def keep_for_a_week(server):
    """Return a part that removes old sources."""
    return extensions.ServerAdditions(settings=["retain_sources_days"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [("retain_sources_days", 7), ("retain_events_days", 7), ("oidc_issuer", "https://login.example.org"), ("http_allow_origin", ("*",))],
)
def test_a_setting_that_no_installed_part_acts_upon_is_refused(points, setting, value):
    """The setting would be ignored. The controls: its default, and a part that declares that it acts upon the first of these."""
    context = {"service": GraderServicer(None, None, worker=None), "gate": None, "interceptor": None}
    context |= {"settings": Settings(**{setting: value})}
    remedy = f"--{setting.replace('_', '-')}: needs a package that is not installed; install kernel-grader-extensions: pip install"
    with pytest.raises(SettingsInvalid, match=remedy):
        running._parts(extensions.ServerContext(**context))
    assert setting in Settings.EXTENSION_SETTINGS and running._parts(extensions.ServerContext(**context | {"settings": Settings()})) == []
    points.append(EntryPoint(name="week", value="tests.unit.test_installed_parts:keep_for_a_week", group=extensions.SERVER_PARTS))
    declared = setting == "retain_sources_days"
    with contextlib.nullcontext() if declared else pytest.raises(SettingsInvalid, match=remedy):
        assert len(running._parts(extensions.ServerContext(**context))) == 1


@pytest.mark.parametrize(
    ("setting", "shown"),
    [("public_url", "--public-url"), ("state_dir", "--state-dir (or $GRADER_STATE_DIR)"), ("--ca", "--ca"), ("/etc/key", "/etc/key")],
)
def test_a_wrong_setting_is_named_as_it_is_typed(setting, shown):
    """By its option, and the variable that may have been set instead; what is no setting's name stays."""
    assert str(SettingsInvalid(setting, "is wrong")) == f"{shown}: is wrong"


KERNELBENCH_FILE = "class Model:\n    def forward(self, x):\n        return x\n\ndef get_inputs():\n    return []\n"


def test_a_problem_of_a_format_that_is_not_installed_says_what_to_install(tmp_path):
    """For a file, and a directory of such."""
    (tmp_path / "1_x.py").write_text(KERNELBENCH_FILE)
    hint = "for kernelbench, reference_kernels, flashinfer and robust_kbench install kernel-grader-extensions"
    assert hint in formats.expected_layouts(formats.formats())
    with pytest.raises(ProblemInvalid, match=hint):
        Problems().add(tmp_path / "1_x.py")
    with pytest.raises(ProblemInvalid, match=hint):
        Problems.load([tmp_path])
