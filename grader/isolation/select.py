"""Chooses an isolation: the one that was named, or the strongest that works here."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from grader.isolation import Availability, Isolation, NoIsolationWorks
from grader.isolation.settings import BoxSettings
from grader.isolations import AUTO, choices, isolations


class ClosableIsolation(Isolation, Protocol):
    """An isolation that may hold a connection."""

    async def close(self) -> None:
        """Hang up; no box may be live."""


def make(name: str, settings: BoxSettings, *arguments: object, **named: object) -> ClosableIsolation:
    """Make the isolation of that name. arguments, named: more that its class takes, such as the protections of a control."""
    made: ClosableIsolation = isolations()[name].load()(settings, *arguments, **named)
    return made


async def choose(name: str, settings: BoxSettings) -> tuple[ClosableIsolation, Availability]:
    """Return the isolation called `name`, or for "auto" the strongest that works, and what it found.

    The warnings of an automatic choice say why each stronger one was passed over.  Raises NoIsolationWorks.
    """
    if name != AUTO and name not in isolations():
        raise ValueError(f"there is no isolation {name!r}; choose from {', '.join(choices())}")
    refused: list[tuple[str, str]] = []
    for candidate in isolations() if name == AUTO else (name,):
        isolation = make(candidate, settings)
        found = await isolation.check()
        if found.usable:
            passed_over = tuple(f"{other} is not usable: {reason}" for other, reason in refused)
            return isolation, replace(found, detail=f"{candidate}: {found.detail}", warnings=(*found.warnings, *passed_over))
        await isolation.close()
        refused.append((candidate, found.detail))
    raise NoIsolationWorks(tuple(refused))


async def survey(settings: BoxSettings) -> dict[str, Availability]:
    """Return what every isolation says of itself on this host."""
    found = {}
    for name in isolations():
        isolation = make(name, settings)
        found[name] = await isolation.check()
        await isolation.close()
    return found
