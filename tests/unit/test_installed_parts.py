"""Parts of installed packages: one that can't be imported, or is missing, is named with what to do."""

from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from grader import extensions, formats
from grader.errors import ProblemInvalid, SettingsInvalid
from grader.problems import kept, store
from tests import fakes

POINTS = (
    EntryPoint(name="good", value="json:dumps", group="grader.any"),
    EntryPoint(name="broken", value="no_such_module:part", group="grader.any"),
)


@pytest.fixture(autouse=True)
def points(monkeypatch):
    """Two packages, of which one lost a module."""

    def entry_points(group, name=None):
        return [point for point in POINTS if point.group == group and name in (None, point.name)]

    monkeypatch.setattr(extensions, "entry_points", entry_points)


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
