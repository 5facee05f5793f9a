"""Tests that need a program, an isolation or an extension that not every host has.

A plugin, which conftest.py loads: where no extension is installed, a test that fails for want of one is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from importlib.metadata import entry_points
from typing import NoReturn

import pytest

from grader.extensions import PACKAGE
from sandbox.protocol.box_modules import GROUP


def absent(name: str, detail: str) -> NoReturn:
    """Skip a test that lacks this; fail it where GRADER_REQUIRE_<NAME> is 1."""
    if os.environ.get(f"GRADER_REQUIRE_{name.upper()}") == "1":
        pytest.fail(detail)
    pytest.skip(detail)


def has_extensions() -> bool:
    """Return whether the package with the extensions is installed, or has to be: GRADER_REQUIRE_EXTENSIONS is 1."""
    return bool(entry_points(group=GROUP)) or os.environ.get("GRADER_REQUIRE_EXTENSIONS") == "1"


def skip_without_extensions(log: str) -> None:
    """Skip a test whose submission's log names the package that is not installed."""
    if PACKAGE in log and not has_extensions():
        pytest.skip(f"needs the package {PACKAGE}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip what fails because of a package: the product names it in each such error."""
    report = yield
    if report.failed and not has_extensions() and PACKAGE in report.longreprtext:
        report.outcome = "skipped"
        report.longrepr = (*item.location[:2], f"needs the package {PACKAGE}")
    return report
