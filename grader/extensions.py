"""What installed packages add to grader: every seam, and what it promises.

A package names its part in an entry point of the seam's group, and grader imports it when it is needed. Formats, languages and isolations
have groups of their own: `grader/formats/__init__.py`, `sandbox/protocol/languages.py`, `grader/isolations.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from aiohttp import web

    from grader.ledger import Ledger
    from grader.problems.competition_store import Competitions
    from grader.problems.store import Problems
    from grader.v1 import submission_pb2

PAGES, REPORT_FILES = "grader.pages", "grader.report_files"
PACKAGE = "kernel-grader-extensions"


class Pages(Protocol):
    """Group `grader.pages`: a module that adds pages to the web port."""

    def routes(self, ledger: Ledger, problems: Problems, competitions: Competitions, **parts: Any) -> Iterable[web.RouteDef]:
        """Return what is served next to metrics and health. parts: as `_pages` of `grader/server/running.py` passes them."""


class ReportFile(Protocol):
    """Group `grader.report_files`: a function that writes a submission's report as a file of the format that the entry point names."""

    def __call__(self, submission: submission_pb2.Submission) -> str:
        """Return the file's text."""


def installed(group: str, name: str | None = None) -> Iterator[Any]:
    """Import the parts of a group, or the one of that name."""
    for point in entry_points(group=group) if name is None else entry_points(group=group, name=name):
        yield point.load()
