"""Submissions of Python files: what the server refuses at once, which file is the main file, and how they find each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader.errors import InvalidSubmission
from grader.formats import native
from grader.intake import gate
from grader.model import SourceFile
from grader.v1 import grader_service_pb2, submission_pb2
from sandbox.languages.python_module import ModuleDirectory, NoMainFile, choose_main, defined_names, own_modules
from sandbox.protocol import python_archive
from tests.python_builds import PLAIN

ROOT = Path(__file__).parents[2]
ENTRIES = ("solve", "ModelNew", "custom_kernel", "run", "solution")
ENTRY, HELPER = "def custom_kernel(data): ...\n", "def add(a, b): ...\n"


@pytest.mark.parametrize(
    ("files", "main"),
    [
        ({"b.py": ENTRY, "a.py": ENTRY}, "b.py"),
        ({"b.py": HELPER, "a.py": ENTRY}, "a.py"),
        ({"b.py": HELPER, "a.py": HELPER}, "b.py"),
        ({"c.py": HELPER, "b.py": ENTRY, "a.py": ENTRY}, "c.py"),
        ({"kernel.cu": "int run;", "b.py": ENTRY}, "b.py"),
        ({"b.py": "from a import run\n", "a.py": "def run(): ...\n"}, "b.py"),
        ({"b.py": "not python (", "a.py": ENTRY}, "a.py"),
        ({"pkg/__init__.py": "", "pkg/main.py": ENTRY}, "pkg/main.py"),
    ],
)
def test_the_main_file_is_the_first_or_the_only_other_one_with_an_entry(files: dict[str, str], main: str) -> None:
    """By the order in which they were submitted, not by their names."""
    assert choose_main(tuple(files), files, ENTRIES) == main


def test_the_names_that_a_module_defines_are_those_of_its_top_level() -> None:
    text = "import a.b as c\nfrom d import e\nif True:\n    f = g[h] = 1\nelse:\n    class I:\n        j = 1\ndef k():\n    l = 1\n"
    assert defined_names(text) == {"c", "e", "f", "I", "k"}
    assert defined_names("def (") == set()


@pytest.mark.parametrize("named", ["../outside.py", "/etc/passwd", "nothing.py", "\0"])
def test_a_main_file_outside_of_the_sources_is_not_taken(tmp_path: Path, named: str) -> None:
    """A stranger may have written the artifact. Control: one inside is."""
    (tmp_path / "outside.py").write_text("")
    place = tmp_path / "place"
    place.mkdir()
    python_archive.unpack(python_archive.pack({"a.py": b"", "b.py": b""}, tmp_path, main=named), place)
    with pytest.raises(NoMainFile):
        ModuleDirectory(directory=place).main()
    inside = tmp_path / "other"
    inside.mkdir()
    python_archive.unpack(python_archive.pack({"a.py": b"", "b.py": b""}, tmp_path, main="b.py"), inside)
    assert ModuleDirectory(directory=inside).main() == inside / "sources/b.py"


def imported(tmp_path: Path, files: dict[str, str], modules: dict[str, str], main: str) -> str:
    """Return what the files print when the main file is imported in a process of its own."""
    for part, texts in (("sources", files), ("modules", modules)):
        for name, text in texts.items():
            (tmp_path / part / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / part / name).write_text(text)
    script = (
        "import sys\nfrom pathlib import Path\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from sandbox.languages.python_module import import_main\n"
        f"place = Path({str(tmp_path)!r})\nimport_main(place / 'sources' / {main!r}, place / 'sources', place / 'modules')\n"
    )
    process = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False)
    return (process.stdout + process.stderr).strip()


def test_files_import_each_other_in_each_way(tmp_path: Path) -> None:
    files = {
        "main.py": "from one import x\nfrom .two import y\nfrom pkg import z\nfrom pkg.inner import w\n"
        "from bare.deep import v\nprint(x, y, z, w, v)",
        "one.py": "x = 1",
        "two.py": "y = 2",
        "pkg/__init__.py": "from .inner import w\nz = w + 1",
        "pkg/inner.py": "w = 3",
        "bare/deep.py": "v = 5",
        "pkg/main.py": "from ..two import y\nfrom .inner import w\nfrom one import x\nfrom inner import w as again\nprint(x, y, w, again)",
    }
    assert imported(tmp_path, files, {}, "main.py") == "1 2 4 3 5"
    assert imported(tmp_path, files, {}, "pkg/main.py") == "1 2 3 3"


def test_a_submitted_file_comes_before_the_problems_and_both_before_an_installed_one(tmp_path: Path) -> None:
    """`colorsys` stands for an installed module; the main file hides none."""
    files = {
        "json.py": "import json, task, utils, colorsys\nprint(task.WHO, utils.WHO, colorsys.WHO, hasattr(json, 'loads'))",
        "task.py": "WHO = 'own'",
    }
    modules = {"task.py": "WHO = 'problem'", "utils.py": "import task\nWHO = f'problem with {task.WHO}'", "colorsys.py": "WHO = 'problem'"}
    assert imported(tmp_path, files, modules, "json.py") == "own problem with own problem True"


def test_own_modules_are_named_as_they_are_imported(tmp_path: Path) -> None:
    imported(tmp_path, {"a.py": "", "pkg/__init__.py": "", "pkg/b.py": "", "k.cu": ""}, {"task.py": ""}, "a.py")
    assert own_modules(tmp_path / "sources", tmp_path / "modules") == ["a", "pkg", "pkg.b", "task"]


@pytest.mark.parametrize(("text", "sure"), [("# nothing\n", True), ("'a text'\n", True), (PLAIN, False), ("run = 3", False), ("(", True)])
def test_a_module_that_can_have_no_entry_is_refused_at_once(text, sure):
    message = gate.missing_entry("python", (SourceFile(path="k.py", content=text),), "solve")
    assert (message is not None) is sure and (message is None or "define a function `solve`" in message)


def test_a_submission_in_python_may_have_several_files():
    """Python, data, and an empty __init__.py; their order is kept. Control: another empty file is refused."""

    def checked(*files):
        request = grader_service_pb2.SubmitRequest(submission=submission_pb2.Submission(problem="problems/vector_add"))
        for path, content in files:
            request.submission.sources.add(path=path, content=content)
        return gate.check_submission(request, lambda name: native.load(ROOT / "kernels_examples" / name), ["emulated"]).submission

    files = [("z.py", PLAIN), ("kernels/__init__.py", ""), ("kernels/add.py", PLAIN), ("kernel.cu", "int x;")]
    submission = checked(*files)
    assert (submission.language, [source.path for source in submission.sources]) == ("python", [path for path, _ in files])
    with pytest.raises(InvalidSubmission, match="is empty"):
        checked(*files, ("other.py", ""))
