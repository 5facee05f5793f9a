"""Who makes the call that is being answered.  Set before each method by `grader/server/interceptors.py`, read by the methods."""

from __future__ import annotations

from contextvars import ContextVar

from grader.model import Caller

# Each call is answered in a task of its own, and so has a value of its own. Without keys nobody sets it: everything is allowed.
_current = ContextVar("caller", default=Caller())  # noqa: B039  # frozen


def current() -> Caller:
    """Who calls; anybody who can reach the server, if it requires no keys."""
    return _current.get()


def enter(caller: Caller) -> None:
    """From here on this call is of caller."""
    _current.set(caller)
