"""Seams: what installed packages add to grader, and what each promises.

A package names its part in an entry point of the seam's group, and grader imports it when it is needed. Formats, languages and isolations
have groups of their own: `grader/formats/__init__.py`, `sandbox/protocol/languages.py`, `grader/isolations.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol

from grader.errors import NotInstalled, SettingsInvalid

if TYPE_CHECKING:
    import typer
    from aiohttp import web

    from grader.config import Settings
    from grader.model import NewSubmission, Problem
    from grader.rules.identities import IdentityProvider
    from grader.rules.quotas import AdmissionCheck, Quota
    from grader.server.auth import Authenticator
    from grader.server.grading import Grading
    from grader.server.service import GraderServicer
    from grader.v1 import submission_pb2
    from grader.v1.grader_service_pb2 import SubmitRequest

SERVER_PARTS, REPORT_FILES, FLEETS = "grader.server_parts", "grader.report_files", "grader.fleets"
COMMANDS, ADMIN_COMMANDS, SUBMIT_POLICIES = "grader.commands", "grader.admin_commands", "grader.submit_policies"
# Groups that no box needs.
SERVER_SIDE = ("grader.formats", "grader.references", SERVER_PARTS, REPORT_FILES, FLEETS, COMMANDS, ADMIN_COMMANDS, SUBMIT_POLICIES)
PACKAGE = "kernel-grader-extensions"


Call = Callable[[Any], Awaitable[Any]]  # answers a request message


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """A server, as its parts see it. gate: knows keys; None: callers need none. provider: that users may sign in with."""

    settings: Settings
    service: GraderServicer
    gate: Authenticator | None
    provider: IdentityProvider | None = None


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAdditions:
    """Additions of a part to a server."""

    calls: Mapping[str, Call] = field(default_factory=dict)  # by the names of the API's methods; the server checks keys and scopes
    routes: Callable[[], Iterable[web.RouteDef]] = tuple  # served next to metrics and health; asked for where there is a web port
    run: Callable[[], Coroutine[Any, Any, None]] = _nothing  # a task of a server that grades, cancelled when it drains
    reload: Callable[[], Awaitable[None]] = _nothing  # reads files again at SIGHUP; logs what is wrong with them


class ServerPart(Protocol):
    """Group `grader.server_parts`: a function that adds to a server."""

    def __call__(self, server: ServerContext) -> ServerAdditions:
        """Return what the server gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTerms:
    """Terms for a submission to a competition. problem: as it is graded by there, by its id."""

    competition_id: str
    device_kind: str
    problem: Callable[[str], Problem]
    check: Callable[[NewSubmission, Problem], None]  # CallRefused where a submission is not within the rules
    admit: AdmissionCheck
    quotas: tuple[Quota, ...]


class SubmitPolicy(Protocol):
    """Group `grader.submit_policies`, name `competitions`: a function of settings, problems and `report(detail, remedy)` returns it."""

    def terms(self, request: SubmitRequest, device_kinds: Sequence[str]) -> SubmitTerms:
        """Return the terms of the competition that a request names; CallRefused where there are none."""
        raise NotInstalled("competitions")

    def quotas(self, now: datetime) -> Sequence[Quota]:
        """Return what limits each user now, besides the server's own quotas."""
        return ()

    def readable(self, now: datetime) -> frozenset[str]:
        """Return the competitions whose submissions everybody may see by now."""
        return frozenset()

    def ended(self, before: datetime) -> Sequence[str]:
        """Return the competitions that ended before a time, and whose submissions need no more be kept for them."""
        return ()


class NoCompetitions(SubmitPolicy):
    """Policy of a server that has none."""


class ReportFile(Protocol):
    """Group `grader.report_files`: a function that writes a submission's report as a file of the format that the entry point names."""

    def __call__(self, submission: submission_pb2.Submission) -> str:
        """Return the file's text."""


class Fleet(Protocol):
    """Group `grader.fleets`: a function that opens what `--fleet NAME` grades with."""

    def __call__(self, settings: Settings) -> AbstractAsyncContextManager[Grading]:
        """Return what grades, until the context is left. SettingsInvalid where the settings do not allow it."""


class Commands(Protocol):
    """Group `grader.commands`: a module with commands of `grader-cli`. It is imported by every command, so it imports no server."""

    def add_commands(self, app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
        """Add commands to the program, or to one of its groups: `problems`."""


class AdminCommand(Protocol):
    """Group `grader.admin_commands`: a module with a subject of `grader-server admin`. SUMMARY: a line for its help."""

    SUMMARY: str

    def main(self, arguments: Sequence[str]) -> int:
        """Run the command; return the exit code."""


def named(group: str) -> dict[str, Any]:
    """Import the parts of a group, by name, in the order of their names. SettingsInvalid where one can't be imported."""
    return {point.name: _loaded(point) for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def part(group: str, name: str) -> Any:
    """Import the part of a group that has this name; None where there is none. SettingsInvalid where it can't be imported."""
    return next((_loaded(point) for point in entry_points(group=group, name=name)), None)


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        package = point.dist.name if point.dist is not None else "an installed package"
        text = f"{point.value!r} of {package} can't be imported ({type(error).__name__}: {error}); install it again, or uninstall it"
        raise SettingsInvalid(point.group, text) from error
