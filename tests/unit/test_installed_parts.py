"""Parts of installed packages: one that can't be imported, or is missing, is named with what to do."""

import json
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from grader import extensions, formats
from grader.cli import server_choice
from grader.cli.main import app
from grader.config import Settings
from grader.errors import NotInstalled, ProblemInvalid, SettingsInvalid
from grader.intake.gate import SubmissionGate, submit_policy
from grader.model import SourceFile
from grader.problems import kept, store
from grader.problems.store import Problems
from grader.server.service import GraderServicer
from grader.v1 import competition_pb2, grader_service_pb2
from tests import fakes
from tests.requests import new_submission

CHECK = EntryPoint(name="made_up", value="tests.unit.test_installed_parts:examine", group=extensions.PROBLEM_CHECKS)
POINTS = [
    EntryPoint(name="good", value="json:dumps", group="grader.any"),
    EntryPoint(name="broken", value="no_such_module:part", group="grader.any"),
]


async def examine(imports, **options):
    """A check of problems, which warns of the options that it gets."""
    for entry in imports:
        yield replace(entry, warnings=(json.dumps(options),))


def command(*words):
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture(autouse=True)
def points(monkeypatch):
    """Two packages, of which one lost a module; a test may append another."""
    points = [*POINTS]

    def entry_points(group, name=None):
        return [point for point in points if point.group == group and name in (None, point.name)]

    monkeypatch.setattr(extensions, "entry_points", entry_points)
    monkeypatch.setattr(server_choice, "entry_points", entry_points)
    return points


def test_a_part_that_cannot_be_imported_is_named():
    """The others are not kept from being used by name."""
    with pytest.raises(SettingsInvalid, match=r"no_such_module:part.*install it again, or uninstall it"):
        extensions.named("grader.any")
    assert extensions.part("grader.any", "good")({}) == "{}" and extensions.part("grader.any", "none") is None


def test_a_kept_problem_of_a_format_that_is_not_installed_is_refused(tmp_path):
    """When it is read: a submission to it would be built, and fail in the judge. The control: with its format it is read."""
    problem = fakes.problem()
    kept.keep(problem, tmp_path)
    (path,) = tmp_path.iterdir()
    assert kept.read_kept(path) == problem
    kept.keep(replace(problem, spec=replace(problem.spec, format="elsewhere")), tmp_path)
    with pytest.raises(ProblemInvalid, match="'elsewhere', which no installed package brings; install kernel-grader-extensions"):
        kept.read_kept(path)


def test_an_installed_check_examines_what_is_imported(points, tmp_path):
    """A single problem without a request, and none with --no-check."""
    points.append(CHECK)
    where = ("problems", "import", fakes.write_problem(tmp_path), "--state-dir", tmp_path / "state", "--json")
    options = {"sandbox": "auto", "trusted": False, "force": False, "json": True}
    for words, warnings in (((), [options | {"check": True}]), (("--no-check",), [])):
        (imported,) = json.loads(command(*where, *words).stdout)["imported"]
        assert [*map(json.loads, imported["warnings"])] == warnings


def test_without_a_check_problems_are_imported_unchecked(tmp_path):
    """The command says so, and what to install; a check that was requested is not left out in silence."""
    where = ("problems", "import", fakes.write_problem(tmp_path), "--state-dir", tmp_path / "state")
    missing = "no installed package checks problems; install kernel-grader-extensions"
    refused = command(*where, "--check")
    assert refused.exit_code == 2 and f"--check: {missing}" in refused.stderr and not (tmp_path / "state" / "problems").exists()
    imported = command(*where)
    assert imported.exit_code == 0 and "1 imported" in imported.stdout and missing in imported.stdout


def test_an_unknown_command_may_be_one_of_a_package_that_is_not_installed(points):
    """The control: with a package that adds commands nothing is said of packages."""
    unknown = command("problems", "lst")
    assert unknown.exit_code == 2 and "Did you mean 'list'?" in unknown.stderr
    assert "kernel-grader-extensions adds commands, and is not installed here" in " ".join(unknown.stderr.split())
    points.append(EntryPoint(name="some", value="json", group=extensions.COMMANDS))
    assert "kernel-grader-extensions" not in command("problems", "lst").stderr


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
    kept.keep(fakes.problem(), tmp_path)
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


KERNELBENCH_FILE = "class Model:\n    def forward(self, x):\n        return x\n\ndef get_inputs():\n    return []\n"


def test_an_import_of_a_format_that_is_not_installed_says_what_to_install(tmp_path):
    """For a file, a directory of such, and the format by its name."""
    formats.formats.cache_clear()
    try:
        (tmp_path / "1_x.py").write_text(KERNELBENCH_FILE)
        (entry,) = store.import_all(tmp_path / "1_x.py")
        hint = "for kernelbench, reference_kernels, flashinfer and robust_kbench install kernel-grader-extensions"
        assert entry.problem is None and hint in entry.reason and hint in formats.expected_layouts(formats.formats())
        assert not list(store.import_all(tmp_path))
        with pytest.raises(ProblemInvalid, match=hint):
            list(store.import_all(tmp_path, format_name="kernelbench"))
    finally:
        formats.formats.cache_clear()
