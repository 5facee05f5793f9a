"""Makes isolations, chooses the strongest that works here, and observes how long boxes take to start."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from grader.isolation import Availability, Box, BoxSpec, Isolation, NoIsolationWorks
from grader.isolation.settings import BoxSettings
from grader.isolations import AUTO, choices, isolations
from grader.observability.observer import Observer


class ObservedIsolation:
    """Another isolation, which tells an observer how long its boxes took to start."""

    def __init__(self, isolation: Isolation) -> None:
        self.NAME, self.SAFE = isolation.NAME, isolation.SAFE
        self.check, self.fingerprint, self.sweep = isolation.check, isolation.fingerprint, isolation.sweep
        self._observer, self._isolation = Observer(), isolation

    def observe(self, observer: Observer) -> None:
        """Tell this observer from now on."""
        self._observer = observer

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        """Start a box; a box that nobody waits for any more while it starts is not counted."""
        begun, counted = time.monotonic(), False
        try:
            async with self._isolation.start(spec) as box:
                counted = True
                self._observer.box_started(spec.purpose, time.monotonic() - begun, failed=False)
                yield box
        except Exception:
            if not counted:
                self._observer.box_started(spec.purpose, time.monotonic() - begun, failed=True)
            raise


class ClosableIsolation(Isolation, Protocol):
    """An isolation that may hold a connection."""

    async def adopt(self, memory_toolchain_dir: Path, fingerprint: str) -> None:
        """Have boxes that start from now on see the toolchain's copy there. fingerprint: of the files that were copied."""

    async def close(self) -> None:
        """Hang up; no box may be live."""


def make(name: str, settings: BoxSettings, *arguments: object, **named: object) -> ClosableIsolation:
    """Make the isolation of that name. arguments, named: more that its class takes, such as the protections of a control."""
    isolation: ClosableIsolation = isolations()[name].load()(settings, *arguments, **named)
    return isolation


async def choose(name: str, settings: BoxSettings) -> tuple[ClosableIsolation, Availability]:
    """Return the isolation called `name`, or for "auto" the strongest that works, and what it found.

    The warnings of an automatic choice say why each stronger one was passed over.  Raises NoIsolationWorks.
    """
    if name != AUTO and name not in isolations():
        raise ValueError(f"there is no isolation {name!r}; choose from {', '.join(choices())}")
    refused: list[tuple[str, str]] = []
    for candidate in isolations() if name == AUTO else (name,):
        isolation = make(candidate, settings)
        availability = await isolation.check()
        if availability.usable:
            passed_over = tuple(f"{passed} is not usable: {reason}" for passed, reason in refused)
            return isolation, replace(
                availability, detail=f"{candidate}: {availability.detail}", warnings=(*availability.warnings, *passed_over)
            )
        await isolation.close()
        refused.append((candidate, availability.detail))
    raise NoIsolationWorks("no isolation works here; " + "; ".join(f"{refusing}: {reason}" for refusing, reason in refused))


async def survey(settings: BoxSettings) -> dict[str, Availability]:
    """Return the availability of every isolation on this host."""
    answers = {}
    for name in isolations():
        isolation = make(name, settings)
        answers[name] = await isolation.check()
        await isolation.close()
    return answers
