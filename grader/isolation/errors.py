"""Our own faults around boxes: what a box's user never causes."""

from __future__ import annotations


class IsolationBroken(Exception):
    """The isolation could not do its work; the message says what to do."""


class NoIsolationWorks(IsolationBroken):
    """None of the wanted isolations is usable on this host."""

    def __init__(self, reasons: tuple[tuple[str, str], ...]) -> None:
        self.reasons = reasons
        super().__init__("no isolation works here; " + "; ".join(f"{name}: {reason}" for name, reason in reasons))
