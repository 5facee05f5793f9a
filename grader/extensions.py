"""Seams: what installed packages add to grader, and what each promises.

A package names its part in an entry point of the seam's group, and grader imports it when it is needed. Formats, languages and isolations
have groups of their own: `grader/formats/__init__.py`, `sandbox/protocol/languages.py`, `grader/isolations.py`.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol

from grader.errors import ModeNotInstalled, NotInstalled, SettingsInvalid
from sandbox.protocol import wire

if TYPE_CHECKING:
    import typer
    from aiohttp import web

    from grader.config import Settings
    from grader.grading.attempt import Attempt, OpenRunBox
    from grader.model import NewSubmission, Problem, Report
    from grader.problems.store import Imported
    from grader.rules.identities import IdentityProvider
    from grader.rules.quotas import AdmissionCheck, Quota
    from grader.server.auth import Authenticator
    from grader.server.grading import Grading
    from grader.server.service import GraderServicer
    from grader.v1 import submission_pb2
    from grader.v1.grader_service_pb2 import SubmitRequest

SERVER_PARTS, SUBMIT_POLICIES, MODES = "grader.server_parts", "grader.submit_policies", "grader.modes"
COMMANDS, ADMIN_COMMANDS, PROBLEM_CHECKS = "grader.commands", "grader.admin_commands", "grader.problem_checks"
REPORT_FILES, FLEETS = "grader.report_files", "grader.fleets"
GROUPS = (SERVER_PARTS, SUBMIT_POLICIES, MODES, COMMANDS, ADMIN_COMMANDS, PROBLEM_CHECKS, REPORT_FILES, FLEETS)
SERVER_SIDE = ("grader.formats", "grader.references", *GROUPS)  # groups that no box needs
CORE_MODES = (wire.Mode.TEST, wire.Mode.BENCHMARK, wire.Mode.RANKED)
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


class ProblemCheck(Protocol):
    """Group `grader.problem_checks`: a function that runs the code of problems before `grader-cli problems import` stores them."""

    def __call__(
        self, imports: Sequence[Imported], *, check: bool, sandbox: str, trusted: bool, force: bool, json: bool
    ) -> AsyncIterator[Imported]:
        """Yield each import with what its code says of its arguments. check: with warnings or a refusal, unless force, too; then it is also
        printed, unless json. Code runs in this sandbox, or trusted as our own user. GraderFailed where it can't."""


class GradingMode(Protocol):
    """Group `grader.modes`: a module that grades in the mode of `wire.Mode` that the entry point names. Under the name test it adds to
    the core's; benchmark and ranked are the core's alone. It has no part in a competition.

    DISCLOSED: of facts that no judge emits, by kind, the fields that leave the mode. Every other one is dropped.
    """

    DISCLOSED: Mapping[type, Collection[str]]

    def plan(self, submission: submission_pb2.Submission, problem: Problem, device_kinds: Sequence[str]) -> Problem:
        """Return the problem that a submission to this one is graded by. InvalidSubmission where it can't be graded in the mode."""

    def run(self, attempt: Attempt, build: wire.Build, open_run_box: OpenRunBox) -> AsyncGenerator[wire.Fact, None]:
        """Yield the facts of a kernel that was built. `judged` of `grader/grading/pipeline.py` yields those of a judge."""

    def fold(self, facts: Iterable[wire.Fact], /) -> Report:
        """Draw the report. IncompleteFacts where they end before anything was decided."""


@functools.cache
def modes() -> Mapping[str, GradingMode]:
    """Import the modes of installed packages, once."""
    return named(MODES)


def mode_of(mode: wire.Mode) -> GradingMode | None:
    """Return what an installed package does in a mode; None where the core does all of it. ModeNotInstalled where nobody does."""
    if mode in (wire.Mode.BENCHMARK, wire.Mode.RANKED):
        return None
    if mode not in modes() and mode is not wire.Mode.TEST:
        choices = ", ".join(f"MODE_{choice.name}" for choice in wire.Mode if choice in (*CORE_MODES, *modes()))
        raise ModeNotInstalled(f"MODE_{mode.name} is not installed here; install {PACKAGE}, or take one of: {choices}")
    return modes().get(mode)


def names(group: str) -> list[str]:
    """Return the names of a group's parts, in their order."""
    return sorted({point.name for point in entry_points(group=group)})


def named(group: str) -> dict[str, Any]:
    """Import the parts of a group, by name, in the order of their names. SettingsInvalid where one can't be imported."""
    return {name: part(group, name) for name in names(group)}


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
