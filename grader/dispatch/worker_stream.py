"""The server's half of one worker's stream: what may be said on it, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TypeVar

from grader import devices
from grader.fleet.v1 import fleet_pb2
from grader.observability.observer import LaneState

CAPACITY_LIMIT, KIND_LIMIT, LANE_LIMIT, NAME_LIMIT_CHARS = 1024, 256, 256, 100


S = TypeVar("S", bound="WorkerStream")


class ProtocolViolation(Exception):
    """A worker said what no worker of this version says; its stream is ended."""


class WorkerStream:
    """One stream. outbox: messages to the worker; None ends the stream. gone: why it is over. changed: set when its room changes."""

    def __init__(self, node: str, standing: fleet_pb2.Standing, changed: asyncio.Event) -> None:
        self.node, self.gone, self.violated = node, "", False
        self.outbox: asyncio.Queue[fleet_pb2.AttachResponse | None] = asyncio.Queue()
        self.standing = checked_standing(standing)
        self.cordoned = False
        self._changed = changed

    @property
    def open(self) -> bool:
        """Whether it is given anything."""
        return not (self.gone or self.cordoned or self.standing.leaving)

    async def hear(self, message: fleet_pb2.AttachRequest) -> None:
        """Take what the worker says; ProtocolViolation."""
        if message.WhichOneof("message") != "standing":
            raise ProtocolViolation(f"sent {message.WhichOneof('message') or 'nothing'} where that is not in order")
        self.standing = checked_standing(message.standing)
        self._changed.set()

    def cordon(self, names: Collection[str]) -> None:
        """Give nothing more to it, where its own name is among these, or its node's."""
        self.cordoned = self.node in names or self.node.partition("/")[0] in names
        self._changed.set()

    def lose(self, why: str, *, violated: bool = False) -> None:
        """It is gone, for the first reason that is given, and nobody waits for it any longer."""
        if self.gone:
            return
        self.gone, self.violated = why, violated
        self.outbox.put_nowait(None)
        self._lost()
        self._changed.set()

    def _lost(self) -> None:
        """Let nobody wait for it."""

    def _say(self, **message: object) -> None:
        self.outbox.put_nowait(fleet_pb2.AttachResponse(**message))  # type: ignore[arg-type]


def admit(streams: dict[str, S], stream: S) -> None:
    """It is in; an older stream of the same node is ended."""
    if (before := streams.get(stream.node)) is not None:
        before.lose("was replaced by a new connection of the same node")
    streams[stream.node] = stream


def dismiss(streams: dict[str, S], stream: S) -> None:
    """It is over, unless it was replaced before."""
    if streams.get(stream.node) is stream:
        del streams[stream.node]


def checked_standing(standing: fleet_pb2.Standing) -> fleet_pb2.Standing:
    """The same, if it makes sense; ProtocolViolation."""
    names = [*standing.device_kinds, *(lane.name for lane in standing.lanes)]
    if not 0 <= standing.capacity <= CAPACITY_LIMIT or len(standing.device_kinds) > KIND_LIMIT:
        raise ProtocolViolation("says that it can do more than any worker can")
    if len(standing.lanes) > LANE_LIMIT:
        raise ProtocolViolation("says that it has more lanes than any worker has")
    if not all(0 < len(name) <= NAME_LIMIT_CHARS and name.isprintable() for name in names):
        raise ProtocolViolation("has a device without a plain name")
    if not all(devices.well_formed(kind) for kind in standing.device_kinds):
        raise ProtocolViolation("has a kind of device that there is not")
    if not all(lane.state in LaneState.__members__ for lane in standing.lanes):
        raise ProtocolViolation("has a lane in a state that there is not")
    return standing
