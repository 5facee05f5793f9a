"""Lets tests marked `slow` take turns: of a folder's, one in so many runs with each commit, by [turns] in tests/packages.toml.

A file that is on the command line runs whole. `--all-cases` runs everything, with the tests marked `daily` and the folders that are apart.
"""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

TABLE = tomllib.loads(Path(__file__).with_name("packages.toml").read_text("utf-8"))
TURN_VARIABLE = "GRADER_TEST_TURN"  # the same for all processes of a run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs everything."""
    parser.addoption("--all-cases", action="store_true", help="run all tests that else take turns, and those marked daily")


def pytest_configure(config: pytest.Config) -> None:
    """Set the turn of this run to the number of commits, unless the caller has set it."""
    if TURN_VARIABLE not in os.environ:
        os.environ[TURN_VARIABLE] = commit_count(config.rootpath)


def pytest_report_header(config: pytest.Config) -> str:
    """Name the turn, for a later run of the same tests."""
    return "slow tests: all" if config.getoption("all_cases") else f"slow tests: {TURN_VARIABLE}={os.environ[TURN_VARIABLE]}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that wait for another turn."""
    if config.getoption("all_cases"):
        return
    arguments = arguments_below_root(config)
    places: Counter[str] = Counter()
    runs: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        folder = "/".join(item.nodeid.split("/")[:2])
        has_turn = True
        if item.get_closest_marker("slow"):
            has_turn = (places[folder] + int(os.environ[TURN_VARIABLE])) % TABLE["turns"].get(folder, TABLE["turns"]["default"]) == 0
            places[folder] += 1
        has_turn &= item.get_closest_marker("daily") is None
        has_turn &= folder not in TABLE["apart"]
        runs[has_turn or is_named(item, folder, arguments)].append(item)
    if runs[False]:
        config.hook.pytest_deselected(items=runs[False])
    items[:] = runs[True]


def is_named(item: pytest.Item, folder: str, arguments: list[str]) -> bool:
    """Test whether the command line names the test, its file, or its folder if that is apart."""
    ids = tuple(argument for argument in arguments if "::" in argument)
    if item.nodeid.startswith(tuple(f"{name}{end}" for name in ids for end in ("::", "["))) or item.nodeid in ids:
        return True
    names_file = item.nodeid.partition("::")[0] in arguments and item.get_closest_marker("daily") is None
    return names_file or (folder in TABLE["apart"] and folder in arguments)


def arguments_below_root(config: pytest.Config) -> list[str]:
    """List the paths and ids on the command line as pytest writes ids."""
    texts = [os.path.relpath(config.invocation_params.dir / argument, config.rootpath) for argument in config.args]
    return [text.replace(os.sep, "/") for text in texts]


def commit_count(root: Path) -> str:
    """Count the commits of HEAD; 0 without git."""
    try:
        result = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return "0"
    return result.stdout.strip() or "0"
