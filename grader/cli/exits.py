"""How a command ends: its exit code, and the errors that are its own."""

from __future__ import annotations

from enum import IntEnum

from grader import errors
from sandbox.protocol.entry_points import EntryPointInvalid


class Exit(IntEnum):
    """Exit codes."""

    ACCEPTED = 0
    DONE = 0
    OTHER_VERDICT = 1
    MISUSE = 2
    GRADER_FAILED = 3
    # As a shell says it of what a signal ended: 128 and the signal's number.
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class CommandFailed(Exception):
    """The command ends here. reason, code: as those of a `GraderError`."""

    reason, code = "GRADER_FAILED", "INTERNAL"
    exit_code = Exit.GRADER_FAILED


class UsageError(CommandFailed):
    """A request that can't be done as it was written; the message names the field and the remedy."""

    reason, code = "INVALID_REQUEST", "INVALID_ARGUMENT"
    exit_code = Exit.MISUSE


class GraderFailed(CommandFailed):
    """The grader could not do what it should have."""


class Unreachable(GraderFailed):
    """No server answers; another try may do."""

    reason, code = "SERVER_UNREACHABLE", "UNAVAILABLE"


# Refusals that say nothing of what was asked, only of the moment.
_NOT_NOW = (errors.QuotaExceeded, errors.QueueFull, errors.QueueShareUsed, errors.ShuttingDown)
_MISUSE = (errors.CallRefused, errors.ProblemInvalid, errors.SettingsInvalid, EntryPointInvalid)


def refused_as(error: Exception) -> type[CommandFailed]:
    """Return whose code and reason an error without its own has."""
    if isinstance(error, errors.ServerUnreachable):
        return Unreachable
    return UsageError if exit_of_error(error) is Exit.MISUSE else GraderFailed


def exit_of_error(error: Exception) -> Exit:
    """The exit code for an error."""
    if isinstance(error, CommandFailed):
        return error.exit_code
    return Exit.MISUSE if isinstance(error, _MISUSE) and not isinstance(error, _NOT_NOW) else Exit.GRADER_FAILED
