"""Chooses an isolation: the one that was named, or the strongest that works here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from grader.isolation import Availability, Isolation
from grader.isolation.bubblewrap import BubblewrapIsolation
from grader.isolation.docker import DockerIsolation
from grader.isolation.errors import NoIsolationWorks
from grader.isolation.process import ProcessIsolation
from grader.isolation.settings import BoxSettings

AUTO = "auto"


class ClosableIsolation(Isolation, Protocol):
    """An isolation that may hold a connection."""

    async def close(self) -> None:
        """Hang up; no box may be live."""


# Strongest first.
ISOLATIONS: Mapping[str, Callable[[BoxSettings], ClosableIsolation]] = {
    "docker": DockerIsolation,
    "bubblewrap": BubblewrapIsolation,
    "process": ProcessIsolation,
}


async def choose(name: str, settings: BoxSettings) -> tuple[ClosableIsolation, Availability]:
    """Return the isolation called `name`, or for "auto" the strongest that works, and what it found.

    The warnings of an automatic choice say why each stronger one was passed over.  Raises NoIsolationWorks.
    """
    if name != AUTO and name not in ISOLATIONS:
        raise ValueError(f"there is no isolation {name!r}; choose from {', '.join((AUTO, *ISOLATIONS))}")
    refused: list[tuple[str, str]] = []
    for candidate in ISOLATIONS if name == AUTO else (name,):
        isolation = ISOLATIONS[candidate](settings)
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
    for name, make in ISOLATIONS.items():
        isolation = make(settings)
        found[name] = await isolation.check()
        await isolation.close()
    return found
