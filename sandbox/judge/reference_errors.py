"""The error of a problem whose own code failed.  Not the submission's fault, and not the grader's."""

from __future__ import annotations


class ReferenceFailed(Exception):
    """The problem's own code raised, or returned something else than it declares. Its author has to fix it."""


class ReferenceTooLarge(ReferenceFailed):
    """The problem does not fit into this machine's memory. That says nothing of the problem itself."""
