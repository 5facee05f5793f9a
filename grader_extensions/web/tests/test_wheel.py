"""The wheel of the extensions has what their modules read, and names their parts."""

import shutil
import sys
import zipfile

import pytest

from tests.e2e.test_installation import ROOT, run


@pytest.mark.slow
def test_the_wheel_of_the_extensions_has_pages_and_entry_points(tmp_path):
    """Built twice in one tree, as where somebody installs again; neither tests nor the build before are in it."""
    shutil.copytree(
        ROOT / "grader_extensions", tmp_path / "grader_extensions", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    )
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    for _ in range(2):
        run(*pip, "--wheel-dir", tmp_path, tmp_path / "grader_extensions")
    (wheel,) = tmp_path.glob("kernel_grader_extensions-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (points,) = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
    assert {
        "grader_extensions/agents/skill.md",
        "grader_extensions/authoring/recipes.toml",
        "grader_extensions/web/templates/home.html",
        "grader_extensions/web/templates/feed.atom",
        "grader_extensions/web/static/editor.js",
        "grader_extensions/web/report/static/style.css",
        "grader_extensions/problem_check/judge/check.py",
    } <= set(names)
    assert not [name for name in names if "/tests/" in name or "/build/" in name]
    assert all(f"[grader.{group}]" in points for group in ("commands", "fleets", "formats", "modes", "references", "server_parts"))
