"""What installed packages add to grader: every seam, and what it promises.

A package names its part in an entry point of the seam's group, and grader imports it when it is needed. Formats, languages and isolations
have groups of their own: `grader/formats/__init__.py`, `sandbox/protocol/languages.py`, `grader/isolations.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from aiohttp import web

    from grader.config import Settings
    from grader.ledger import Ledger
    from grader.problems.competition_store import Competitions
    from grader.problems.store import Problems
    from grader.server.grading import Grading
    from grader.v1 import submission_pb2

PAGES, REPORT_FILES, FLEETS, ADMIN_COMMANDS = "grader.pages", "grader.report_files", "grader.fleets", "grader.admin_commands"
PACKAGE = "kernel-grader-extensions"


class Pages(Protocol):
    """Group `grader.pages`: a module that adds pages to the web port."""

    def routes(self, ledger: Ledger, problems: Problems, competitions: Competitions, **parts: Any) -> Iterable[web.RouteDef]:
        """Return what is served next to metrics and health. parts: as `_pages` of `grader/server/running.py` passes them."""


class ReportFile(Protocol):
    """Group `grader.report_files`: a function that writes a submission's report as a file of the format that the entry point names."""

    def __call__(self, submission: submission_pb2.Submission) -> str:
        """Return the file's text."""


class Fleet(Protocol):
    """Group `grader.fleets`: a function that opens what `--fleet NAME` grades with."""

    def __call__(self, settings: Settings) -> AbstractAsyncContextManager[Grading]:
        """Return what grades, until the context is left. SettingsInvalid where the settings do not allow it."""


class AdminCommand(Protocol):
    """Group `grader.admin_commands`: a module with a subject of `grader-server admin`. SUMMARY: a line for its help."""

    SUMMARY: str

    def main(self, arguments: Sequence[str]) -> int:
        """Run the command; return the exit code."""


def named(group: str) -> dict[str, Any]:
    """Import the parts of a group, by name."""
    return {point.name: point.load() for point in entry_points(group=group)}


def part(group: str, name: str) -> Any:
    """Import the part of a group that has this name; None where there is none."""
    return next((point.load() for point in entry_points(group=group, name=name)), None)
