"""Ends of a call that say nothing about the kernel: exceptions, never results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grader.cli.exits import CommandFailed, Exit, exit_of_error, refused_as
from grader.errors import GraderError, InvalidSubmission
from sandbox.protocol.entry_points import EntryPointInvalid

_OF_THE_KERNEL = ("sources", "language", "entry")


class Unscored(Exception):
    """The kernel was not judged. reason, code: of the API's errors, such as SERVER_UNREACHABLE. name: of the submission; "": none is known.

    Another try may end otherwise, unless it is a `CallInvalid`.
    """

    def __init__(self, message: str, *, reason: str = "GRADER_FAILED", code: str = "INTERNAL", name: str = "") -> None:
        super().__init__(message)
        self.reason, self.code, self.name = reason, code, name

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), str(self), self.reason, self.code, self.name)


class CallInvalid(Unscored):
    """The call is wrong: its key, its problem or an argument. Another try ends the same way."""


class KernelInvalid(CallInvalid):
    """The kernel can't be handed in: it is empty, too large, or no text, or has no source or no entry."""


def _rebuilt(kind: type[Unscored], message: str, reason: str, code: str, name: str) -> Unscored:
    return kind(message, reason=reason, code=code, name=name)


@contextmanager
def unscored() -> Iterator[None]:
    """Raise what the client, the command line and the formats raise as `Unscored`, or one below it."""
    try:
        yield
    except (GraderError, CommandFailed, EntryPointInvalid) as error:
        kind = CallInvalid if exit_of_error(error) is Exit.MISUSE else Unscored
        if isinstance(error, InvalidSubmission) and all(item.field.startswith(_OF_THE_KERNEL) for item in error.violations):
            kind = KernelInvalid
        reason, code = (getattr(error, key, "") or getattr(refused_as(error), key) for key in ("reason", "code"))
        raise kind(str(error), reason=reason, code=code) from error
