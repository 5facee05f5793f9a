"""`grader-worker place --follow`: keeps as many lanes placed as a server's queue asks for.

Each step reads the server's metrics. Ray is asked in processes of their own, `grader-worker place`, because a program that is connected to
Ray is ended when Ray's head is lost. Where the server or Ray does not answer, the lanes stay as they are.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog
from prometheus_client.parser import text_string_to_metric_families

from grader.errors import SettingsInvalid
from grader.model import DeviceDemand
from grader.observability.observer import LaneState
from grader.worker.lane_demand import KindDemand, LaneRange, LaneTarget, demand_of_kinds, lane_target
from grader.worker.ray_placement import CALL_S, PREFIX

DEMAND, LANES = "grader_device_submissions", "grader_lane_state"
READ_S, METRICS_LIMIT_BYTES = 10.0, 8 * 1024 * 1024
LIST_S = 60.0  # how often Ray is asked which lanes there are, where nothing has changed
COMMAND_S, REMOVE_S = 60.0, CALL_S + 60.0  # without an answer, Ray itself tries for minutes

log = structlog.get_logger()


class FollowerBlocked(Exception):
    """The server or Ray did not answer; nothing is changed until it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReading:
    """What a server's metrics say. idle: names of lanes that have nothing to do."""

    demands: Sequence[DeviceDemand]
    idle: Collection[str]


class LanePlacement(Protocol):
    """Where lanes are placed. FollowerBlocked where that can't be asked."""

    async def running(self) -> dict[str, bool]:
        """The lanes that are placed, and whether each has a worker that runs."""

    async def place(self, kind: str, count: int) -> None:
        """See that there are so many lanes of a kind."""

    async def remove(self, name: str) -> None:
        """Drain a lane, and end it."""


class LaneFollower:
    """Takes one step after another; each reads the queue, and changes what has to be changed."""

    def __init__(
        self,
        ranges: Sequence[LaneRange],
        read: Callable[[], Awaitable[str]],
        placement: LanePlacement,
        *,
        quiet_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._ranges, self._read, self._placement, self._quiet_s, self._clock = ranges, read, placement, quiet_s, clock
        self._targets: dict[str, LaneTarget] = {}
        self._lanes: dict[str, bool] | None = None
        self._listed_s = 0.0
        self._leaving = ""  # a lane that is to be removed, until it is: it may have drained already
        self._blocked = ""

    async def step(self) -> None:
        """Look once. What does not answer is logged when that begins and when it ends."""
        try:
            await self._step()
        except FollowerBlocked as error:
            self._lanes = None
            self._targets.clear()  # what was not seen was not quiet
            if str(error) != self._blocked:
                log.warning("follower_blocked", detail=str(error))
            self._blocked = str(error)
        else:
            if self._blocked:
                log.info("follower_goes_on")
            self._blocked = ""

    async def _step(self) -> None:
        if self._leaving:
            await self._remove(self._leaving)
        reading = queue_reading(await self._read())
        demands = demand_of_kinds(self._ranges, reading.demands)
        if self._lanes is None or self._clock() - self._listed_s >= LIST_S:
            await self._list()
        for one in self._ranges:
            await self._follow(one, demands[one.kind], reading.idle)

    async def _follow(self, lane_range: LaneRange, demand: KindDemand, idle: Collection[str]) -> None:
        kind, placed = lane_range.kind, self._of_kind(lane_range.kind)
        target = lane_target(lane_range, len(placed), demand, self._targets.get(kind), self._clock(), self._quiet_s)
        if target.count > len(placed):
            await self._placement.place(kind, target.count)
            log.info("lanes_placed", kind=kind, before=len(placed), count=target.count, waiting=demand.waiting)
            await self._list()
        elif target.count < len(placed):
            await self._list()  # which of them have a worker
            if len(placed := self._of_kind(kind)) > target.count:
                await self._remove(chosen_to_leave(placed, idle))
                log.info("lane_removed", kind=kind, before=len(placed), count=len(placed) - 1)
        self._targets[kind] = target

    async def _remove(self, name: str) -> None:
        self._leaving = name
        await self._placement.remove(name)
        self._leaving = ""
        if self._lanes is not None:
            self._lanes.pop(name, None)

    async def _list(self) -> None:
        self._lanes, self._listed_s = await self._placement.running(), self._clock()

    def _of_kind(self, kind: str) -> dict[str, bool]:
        start = f"{PREFIX}{kind}-"
        lanes = (self._lanes or {}).items()
        return {name: runs for name, runs in lanes if name.startswith(start) and name.removeprefix(start).isdecimal()}


def chosen_to_leave(placed: Mapping[str, bool], idle: Collection[str]) -> str:
    """One that waits for a node, else one that has nothing to do, else any; of several the one with the highest number."""

    def order(name: str) -> tuple[bool, bool, int]:
        instance = name.removeprefix(PREFIX).lower()
        return not placed[name], any(f"/{instance}/" in lane for lane in idle), int(name.rpartition("-")[2])

    return max(placed, key=order)


def queue_reading(text: str) -> QueueReading:
    """Read a server's metrics; FollowerBlocked where they are none, or of a server that does not have these."""
    counts: dict[str, dict[str, int]] = {}
    idle = set()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples if family.name in (DEMAND, LANES) else ():
                if family.name == DEMAND:
                    counts.setdefault(sample.labels["device"], {})[sample.labels["state"]] = int(sample.value)
                elif sample.value and sample.labels["state"] == LaneState.FREE:
                    idle.add(sample.labels["lane"])
        demands = [DeviceDemand(device_kind=name, queued_count=one["queued"], running_count=one["running"]) for name, one in counts.items()]
    except (ValueError, KeyError, OverflowError) as error:
        raise FollowerBlocked(f"the metrics can't be read: {type(error).__name__}") from None
    if not demands:
        raise FollowerBlocked(f"the metrics have no {DEMAND}: the server is older, or its ledger does not answer")
    return QueueReading(demands=demands, idle=idle)


class MetricsReader:
    """Reads a server's metrics over HTTP."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsInvalid("follow", f"{url!r} is not the address of metrics; write it as http://SERVER:8080/metrics")
        self._url = url

    async def __call__(self) -> str:
        """The text now; FollowerBlocked."""
        try:
            return await asyncio.to_thread(self._text)
        except (OSError, HTTPException, ValueError) as error:
            raise FollowerBlocked(f"{self._url} does not answer: {error}") from None

    def _text(self) -> str:
        with urllib.request.urlopen(self._url, timeout=READ_S) as answer:
            return str(answer.read(METRICS_LIMIT_BYTES).decode())


class PlaceCommands:
    """Has Ray place lanes, by the command that an operator would give."""

    def __init__(self, ray: str, joining: Sequence[str], options: Sequence[str]) -> None:
        self._ray, self._joining, self._options = ray, joining, options

    async def running(self) -> dict[str, bool]:
        """As `LanePlacement` says."""
        found = await self._run("--list")
        return {name: bool(facts.get("pid")) for name, facts in found.items()}

    async def place(self, kind: str, count: int) -> None:
        """As `LanePlacement` says."""
        await self._run("--lanes", f"{kind}={count}", *self._joining, "--", *self._options)

    async def remove(self, name: str) -> None:
        """As `LanePlacement` says; one that has gone by itself is gone."""
        await self._run("--remove", name, codes=(0, 2), timeout_s=REMOVE_S)

    async def _run(self, *words: str, codes: Collection[int] = (0,), timeout_s: float = COMMAND_S) -> dict[str, Any]:
        command = [sys.executable, "-m", "grader.worker.main", "place", "--ray", self._ray, "--json", *words]
        pipe = asyncio.subprocess.PIPE
        # A session of its own: what ends this program does not leave a lane half removed.
        child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, start_new_session=True)
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await child.communicate()
        except TimeoutError:
            raise FollowerBlocked(f"`place {words[0]}` did not end within {timeout_s:g} s") from None
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        try:
            found: dict[str, Any] = json.loads(out.splitlines()[-1])
        except (IndexError, ValueError):
            found = {}
        if child.returncode not in codes or (child.returncode and not found):
            lines = err.decode(errors="replace").strip().splitlines() or ["no message"]
            raise FollowerBlocked(f"`place {words[0]}` ended with {child.returncode}: {lines[-1]}")
        return found


async def follow(follower: LaneFollower, poll_s: float) -> None:
    """Step until SIGTERM or SIGINT. The lanes stay."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    log.info("following")
    while not stopping.is_set():
        await follower.step()
        with suppress(TimeoutError):
            async with asyncio.timeout(poll_s):
                await stopping.wait()
    log.info("stopped")
