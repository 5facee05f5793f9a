"""The judge's hold on one runner: its link, gate and arena.  Used for the subject and, unchanged, for the trusted baseline."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sandbox import arena as link_protocol
from sandbox import wire
from sandbox.devices import Arena, Device
from sandbox.gate import GATE_BYTES, Answer, Call, Gate, Operation, Status, create_sealed

ACCEPT_POLL_S = 0.05
CLOSED_SUFFIX = ".closed"  # the server makes this file beside the link when no runner will come any more


class Silence(Enum):
    """Why there is no answer."""

    GONE = "gone"
    TIMED_OUT = "timed_out"


class NoRunner(Exception):
    """Nobody connected: the box ended first, or is not ours."""


@dataclass(slots=True)
class RunnerLink:
    """A runner that has taken its artifact; use it through `call`. Once it has not answered, it is not asked again."""

    device: Device
    arena: Arena
    gate: Gate
    link: socket.socket
    loaded: Answer | Silence
    silence: Silence | None = None

    def call(self, call: Call, limit_s: float) -> Answer | Silence:
        """Do one call. On a cuda device the answer says nothing of completion; the snapshot does."""
        if self.silence is None:
            previous = self.gate.done
            reply = _await(self.gate, self.link, self.gate.open(call), previous, limit_s)
            if isinstance(reply, Answer):
                return reply
            self.silence = reply
        return self.silence

    def alive(self) -> bool:
        """Whether the runner still holds its end of the link."""
        return _alive(self.link)


@contextmanager
def connect(device: Device, link: socket.socket, job: wire.RunnerJob, artifact: bytes, load_s: float) -> Iterator[RunnerLink]:
    """Hand memory and artifact to the runner at the other end, and wait until it has loaded them."""
    arena = device.create_arena(job.arena_bytes)
    gate_fd, artifact_fd = create_sealed("gate", GATE_BYTES), link_protocol.sealed_copy(artifact)
    gate = Gate(gate_fd)
    try:
        first = int.from_bytes(os.urandom(7), "little") | 1
        gate.expect(first)
        try:
            link_protocol.send(link, job, (gate_fd, arena.fd, artifact_fd))
            loaded = _await(gate, link, first, 0, load_s)
        except (BrokenPipeError, ConnectionResetError):
            loaded = Silence.GONE
        runner = RunnerLink(device=device, arena=arena, gate=gate, link=link, loaded=loaded)
        try:
            yield runner
        finally:  # also where the judge gives up: the baseline's runner has to be ready for the next job
            if runner.alive() and isinstance(runner.loaded, Answer) and runner.loaded.status is Status.OK:
                runner.gate.open(Call(operation=Operation.EXIT))
    finally:
        os.close(gate_fd)
        os.close(artifact_fd)
        arena.close()


@contextmanager
def accept(path: str, uid: int | None, limit_s: float) -> Iterator[socket.socket]:
    """Listen at path for the one runner that the server has boxed; refuse every other uid."""
    deadline = time.monotonic() + limit_s
    with socket.socket(socket.AF_UNIX) as listener:
        # Bound under another name first: a runner that is early must not find a socket that it may not use yet.
        listener.bind(path + ".new")
        Path(path + ".new").chmod(0o666)
        listener.listen(4)
        Path(path + ".new").rename(path)
        listener.settimeout(ACCEPT_POLL_S)
        while True:
            try:
                link, _ = listener.accept()
            except TimeoutError:
                if Path(path + CLOSED_SUFFIX).exists():
                    raise NoRunner("the box ended before its runner connected") from None
                if time.monotonic() > deadline:
                    raise NoRunner(f"no runner connected within {limit_s:g} s") from None
                continue
            if uid is None or _peer_uid(link) == uid:
                break
            link.close()
    with link:
        yield link


def _peer_uid(link: socket.socket) -> int:
    """The host uid of the process that connected (SO_PEERCRED is translated by the kernel)."""
    _, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


def _await(gate: Gate, link: socket.socket, number: int, previous: int, limit_s: float) -> Answer | Silence:
    deadline_ns = time.monotonic_ns() + int(limit_s * 1e9)
    if gate.wait(number, previous, deadline_ns, lambda: _alive(link)):
        return gate.answer()
    return Silence.TIMED_OUT if _alive(link) else Silence.GONE


def _alive(link: socket.socket) -> bool:
    """A runner never writes to the link, so anything readable is its end, or a lie that ends it."""
    return not select.select([link], [], [], 0)[0]
