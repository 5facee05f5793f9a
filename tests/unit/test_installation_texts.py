"""No text sends anybody to a registry for this project: it is not published, and `grader` is another project there."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from grader.server import installed_version

ROOT = Path(__file__).parents[2]
PROJECT_TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DISTRIBUTION = PROJECT_TABLE["name"]
NAMES = {"grader", "sandbox", DISTRIBUTION}
# Entries of the changelog say what was. `.` and `.[server]` are a clone.
LEFT_OUT = {"CHANGELOG.md", "tests/unit/test_installation_texts.py"}
INSTALLER = re.compile(r"\b(?:pip3?|pipx|uv|uvx)(?:\s+(?:pip|tool|install|add|run))*\s([^`\n]+)")
PROJECT = re.compile(r"[\w.-]+")


def installed_by_name(text: str) -> list[str]:
    """Our names that an installer of this text would look up in a registry."""
    words = [match[1].split() for match in INSTALLER.finditer(text)]
    named = [(word.strip("'\",;.:)"), rest) for line in words for word, *rest in (line[at:] for at in range(len(line)))]
    matches = [(PROJECT.match(word), rest) for word, rest in named]
    return [name[0] for name, rest in matches if name is not None and name[0].replace("_", "-") in NAMES and rest[:1] != ["@"]]


def test_no_text_installs_the_project_by_name() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = [ROOT / name for name in listed if name and name not in LEFT_OUT]
    texts = {path: path.read_text("utf-8", "replace") for path in paths if path.is_file()}
    assert len(texts) > 1000
    assert {path: names for path, text in texts.items() if (names := installed_by_name(text))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install grader",
        "run `pip install 'grader[server,judge]'` first",
        "python -m pip install --upgrade kernel_grader==1.0",
        "uv tool install kernel-grader",
        "uvx grader",
    ],
)
def test_an_installation_by_name_is_noticed(text: str) -> None:
    assert len(installed_by_name(text)) == 1


@pytest.mark.parametrize("text", ["pip install .", "pip install '.[server,judge]'", f"pip install '{DISTRIBUTION} @ git+https://x/grader'"])
def test_a_clone_or_a_url_is_not(text: str) -> None:
    assert installed_by_name(text) == []


def test_the_distribution_has_one_name() -> None:
    """Its extras name each other by it, so that pip finds them in the same wheel."""
    extras = PROJECT_TABLE["optional-dependencies"]
    references = [extra for listed in extras.values() for extra in listed if extra.partition("[")[2].rstrip("]") in extras]
    assert metadata.version(DISTRIBUTION) == PROJECT_TABLE["version"] == installed_version()
    assert len(references) >= 5 and all(extra.startswith(f"{DISTRIBUTION}[") for extra in references)
