"""The cache of built artifacts, and of what compilers rejected: content-addressed, and believed only after a check.

Artifacts come out of boxes and are untrusted. A key stands for every byte and setting that went into a build, so what one submission
makes is found again only by the same submission. Entries are sealed with a secret that lies in the cache: anybody who can write an
entry's file but not read the secret can only make it a miss.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import structlog

from grader.artifacts.store import ArtifactStore, BuildResult, artifact_key, usage
from grader.isolation.cancellation import finish_despite_cancel

__all__ = ["ArtifactCache", "BuildResult", "artifact_key", "usage"]

log = structlog.get_logger()

RETRY_S = 0.05


class ArtifactCache:
    """Artifacts by key; each key is built once, however many jobs and servers ask for it at a time.

    patience_s: how long to wait for another server that builds the same, before it is built twice.
    """

    def __init__(self, directory: Path, limit_bytes: int, *, patience_s: float = 300.0) -> None:
        self.directory = directory
        self._store = ArtifactStore(directory, limit_bytes)
        self._patience_s = patience_s
        self._flights: dict[str, asyncio.Future[BuildResult | None]] = {}

    async def fetch(self, key: str, build: Callable[[], Awaitable[BuildResult]], *, limit_bytes: int) -> BuildResult:
        """Return the build of this key: from the cache, or built by one of those who ask for it meanwhile, for all of them.

        build: where it raises or is cancelled, the next who waits calls its own.
        limit_bytes: how large an artifact may be.
        """
        if (cached := await self._look_up(key, limit_bytes)) is not None:
            return cached
        while (flight := self._flights.get(key)) is not None:
            shared = await asyncio.shield(flight)  # who stops waiting does not end it for the others
            if shared is not None:
                return _as_cached(shared)
        self._flights[key] = flight = asyncio.get_running_loop().create_future()
        result = None
        try:
            async with self._locked(key) as alone:
                result = await self._look_up(key, limit_bytes)  # another server may have built it while we waited
                if result is None:
                    result = await build()
                    # Who does not hold the key stores nothing, so there are never two entries of different bytes.
                    if alone and result.cacheable:
                        try:
                            await finish_despite_cancel(asyncio.to_thread(self._store.store, key, result))
                        except OSError as error:
                            _complain("store", error)
            return result
        finally:
            del self._flights[key]
            flight.set_result(result if result is not None and result.cacheable else None)

    async def _look_up(self, key: str, limit_bytes: int) -> BuildResult | None:
        try:
            result = await asyncio.to_thread(self._store.look_up, key, artifact_limit_bytes=limit_bytes)
        except OSError as error:
            _complain("look up", error)
            return None
        return None if result is None else _as_cached(result)

    @asynccontextmanager
    async def _locked(self, key: str) -> AsyncIterator[bool]:
        """Hold a key against other servers; False where that can't be had, or not in time."""
        deadline_s, descriptor = time.monotonic() + self._patience_s, None
        try:
            while (descriptor := self._store.try_lock(key)) is None and time.monotonic() < deadline_s:
                await asyncio.sleep(RETRY_S)
        except OSError as error:
            _complain("lock", error)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                self._store.unlock(key, descriptor)


def _as_cached(result: BuildResult) -> BuildResult:
    return replace(result, build=replace(result.build, cached=True))


def _complain(doing: str, error: OSError) -> None:
    """A cache that fails costs time and nothing else."""
    log.warning("artifact_cache_failed", doing=doing, error=str(error))
