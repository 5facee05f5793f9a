"""Seams: what installed packages add to grader, and what each promises.

A package names its part in an entry point of the seam's group, and grader imports it when it is needed. Three more groups hold data, of
which the core has its own: `grader.languages` (`sandbox/protocol/languages.py`), `grader.isolations` (`grader/isolations.py`) and
`grader.box_modules` (`sandbox/protocol/box_modules.py`). `sandbox/protocol/entry_points.py` reads all of them.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from grader.errors import ModeNotInstalled, NotInstalled
from sandbox.protocol.box_modules import box_modules
from sandbox.protocol.entry_points import EntryPointInvalid, entry_points, load
from sandbox.protocol.languages import languages
from sandbox.protocol.modes import Mode

if TYPE_CHECKING:
    from aiohttp import web

    from grader.cli.sources import SubmittedFiles
    from grader.config import Settings
    from grader.grading.attempt import Attempt, OpenRunBox
    from grader.model import NewSubmission, Problem, Report
    from grader.rules.quotas import AdmissionCheck, Quota
    from grader.server.auth import Authenticator
    from grader.server.interceptors import CallInterceptor
    from grader.server.service import GraderServicer
    from grader.server.wiring import Grading
    from grader.v1 import submission_pb2
    from grader.v1.grader_service_pb2 import SubmitRequest
    from sandbox.protocol import wire

SERVER_PARTS, SUBMIT_POLICIES, FLEETS = "grader.server_parts", "grader.submit_policies", "grader.fleets"
MODES, FORMATS, COMMANDS, SOLUTION_FILES = "grader.modes", "grader.formats", "grader.commands", "grader.solution_files"
CORE_MODES = (Mode.TEST, Mode.BENCHMARK, Mode.RANKED)
PACKAGE = "kernel-grader-extensions"
HOW_TO_INSTALL = f"install {PACKAGE}: pip install ./grader_extensions in a clone"


Call = Callable[[Any], Awaitable[Any]]  # answers a request message


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """A server, as its parts see it. gate: knows keys; None: callers need none. interceptor: what every call of the API goes through; a
    part that takes calls another way sends them through it, too, for it checks keys, scopes and sizes."""

    settings: Settings
    service: GraderServicer
    gate: Authenticator | None
    interceptor: CallInterceptor


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAdditions:
    """Additions of a part to a server: what a callable of the group `grader.server_parts` makes of a ServerContext."""

    settings: Collection[str] = ()  # of `Settings.EXTENSION_SETTINGS`: those that the part acts upon; without it a server refuses them
    calls: Mapping[str, Call] = field(default_factory=dict)  # by the names of the API's methods; the server checks keys and scopes
    routes: Callable[[], Iterable[web.RouteDef]] = tuple  # served next to metrics and health; asked for where there is a web port
    run: Callable[[], Coroutine[Any, Any, None]] = _nothing  # a task of a server that grades, cancelled when it drains
    reload: Callable[[], Awaitable[None]] = _nothing  # reads files again at SIGHUP; logs what is wrong with them


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


# Group `grader.fleets`: opens what `--fleet NAME` grades with. SettingsInvalid where the settings do not allow it. While the context is
# open, `grade` may be called. When it is entered, nothing that an earlier server of the same state directory ran is left; when it is left,
# nothing is running.
Fleet = Callable[["Settings"], AbstractAsyncContextManager["Grading"]]


@dataclass(frozen=True, slots=True)
class CliCommand:
    """A command of `grader-cli`. function: MODULE:NAME, imported when the command is used or listed. panel: of the help that it is in."""

    function: str
    panel: str | None = None
    epilog: str | None = None


@dataclass(frozen=True, slots=True)
class CliGroup:
    """A word of `grader-cli` that has commands below it. panel: of the help that it is in."""

    help: str
    panel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCommand:
    """A subject of `grader-server admin`, an action of one, or a command of `grader-server`. module: the name of one with a
    `main(arguments) -> exit code`. summary: a line for the help."""

    module: str
    summary: str


class CommandLine(Protocol):
    """Group `grader.commands`: a class of it, without arguments. Its module is imported by every command of `grader-cli`, and so imports
    little."""

    def commands(self) -> Mapping[str, CliCommand | CliGroup]:
        """Return commands of `grader-cli` by their words, such as `problems check`, and new groups."""
        return {}

    def server_commands(self) -> Mapping[str, AdminCommand]:
        """Return commands of `grader-server` by their words."""
        return {}

    def admin_commands(self) -> Mapping[str, AdminCommand]:
        """Return subjects of `grader-server admin` by name, and actions of subjects, such as `keys import`."""
        return {}

    def checkups(self, settings: Settings) -> Iterable[tuple[str, str, bool]]:
        """Say what `grader-server doctor` tells of settings that only the package reads: a name, what there is to say, and whether a
        server would not start."""
        return ()

    def report_files(self) -> Mapping[str, Callable[[submission_pb2.Submission], str]]:
        """Return what writes a submission's report as the text of a file, by the file's format: `html`."""
        return {}


class SolutionReader(Protocol):
    """Group `grader.solution_files`: a function that reads files of `grader-cli submit` which end as its entry point is named: `json`."""

    def __call__(self, path: Path, text: str, *, find_problem: bool) -> SubmittedFiles:
        """Return the sources in a file's text. UsageError, which names the file, the key and the remedy. find_problem: name the directory
        of the files that holds their problem, too; else a caller has one."""


@runtime_checkable
class ProblemFormat(Protocol):
    """Group `grader.formats`: a module that reads problems of its format, and executes nothing. Its judge's half is in the group
    `grader.references`. `grader/formats/__init__.py` lists what else a format may have."""

    NAME: str  # of the entry point, too

    def matches(self, path: Path) -> bool:
        """Return whether a problem of this format is there."""

    def load(self, path: Path, *, root: Path | None = None) -> Problem:
        """Read it. ProblemInvalid, which names the file, the key and the remedy."""


@runtime_checkable
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


_KINDS: Mapping[str, Any] = {MODES: GradingMode, FORMATS: ProblemFormat}  # of the other groups: something that is called


def part(group: str, name: str) -> Any:
    """Import the part of a group that has this name; None where there is none. EntryPointInvalid where it can't be used."""
    point = entry_points(group).get(name)
    return None if point is None else load(point, _KINDS.get(group, Callable))


def named(group: str) -> dict[str, Any]:
    """Import the parts of a group, by name, in the order of their names. EntryPointInvalid where one can't be used."""
    return {name: part(group, name) for name in entry_points(group)}


def command_lines(report: Callable[[EntryPointInvalid], None] = lambda error: None) -> Iterator[CommandLine]:
    """Yield what installed packages add to the command lines. report: is told of what can't be used, and is left out."""
    for name in entry_points(COMMANDS):
        try:
            yield part(COMMANDS, name)()
        except EntryPointInvalid as error:
            report(error)


def admin_commands() -> dict[str, AdminCommand]:
    """Return the subjects that packages add to `grader-server admin`. EntryPointInvalid where two add the same."""
    subjects = dict[str, AdminCommand]()
    for name, line in named(COMMANDS).items():
        for subject, command in line().admin_commands().items():
            if subjects.setdefault(subject, command) != command:
                fault = f"adds the subject {subject!r} of `grader-server admin`, and so does another package"
                raise EntryPointInvalid(entry_points(COMMANDS)[name], fault, "uninstall one of the two")
    return subjects


def report_files() -> dict[str, Callable[[submission_pb2.Submission], str]]:
    """Return what writes reports as files, by the files' format."""
    return {name: write for line in command_lines() for name, write in line.report_files().items()}


@functools.cache
def modes() -> Mapping[str, GradingMode]:
    """Import the modes of installed packages, once."""
    return named(MODES)


def check_installed() -> None:
    """Look at what no server reads as it starts, so that a wrong entry point is known then. EntryPointInvalid."""
    modes(), languages(), box_modules(), admin_commands()


def mode_of(mode: Mode) -> GradingMode | None:
    """Return what an installed package does in a mode; None where the core does all of it. ModeNotInstalled where nobody does."""
    if mode in (Mode.BENCHMARK, Mode.RANKED):
        return None
    if mode not in modes() and mode is not Mode.TEST:
        choices = ", ".join(f"MODE_{choice.name}" for choice in Mode if choice in (*CORE_MODES, *modes()))
        raise ModeNotInstalled(f"MODE_{mode.name} is not installed here; install {PACKAGE}, or take one of: {choices}")
    return modes().get(mode)
