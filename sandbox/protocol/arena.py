"""Passing memory between judge and runner: descriptors over a unix socket, and one length-prefixed JSON line.

The judge sends, the runner receives; nothing but the gate's fixed layout ever goes the other way.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sandbox.protocol import wire

_HEADER = struct.Struct("<I")
FD_COUNT = 4  # gate, arena, artifact, state
ADDRESS_BYTES = 107  # of a unix socket, on Linux


@contextmanager
def address(path: str) -> Iterator[str]:
    """The path of a socket, or another way to it where that is too long for an address: $TMPDIR may lie deep."""
    if len(os.fsencode(path)) <= ADDRESS_BYTES:
        yield path
        return
    directory, name = os.path.split(path)
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def send(link: socket.socket, job: wire.RunnerJob, fds: tuple[int, ...], limit_s: float) -> None:
    """Send the job and the descriptors of gate, arena, artifact and state; TimeoutError where the runner does not read them in time."""
    _send(link, wire.encode(job), fds, limit_s)


def send_templates(link: socket.socket, templates: Sequence[str], limit_s: float) -> None:
    """Send all templates, once some were kept back of a job's: in memory, for nobody reads the link until one is wanted."""
    fd = sealed_copy(json.dumps(templates).encode())
    try:
        _send(link, b"{}", (fd,), limit_s)
    finally:
        os.close(fd)


def _send(link: socket.socket, body: bytes, fds: tuple[int, ...], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    data = _HEADER.pack(len(body)) + body
    try:
        link.settimeout(limit_s)
        sent = socket.send_fds(link, [data], list(fds))
        if rest := data[sent:]:  # of nothing, too, it would be asked whether the runner is there, which may have answered and gone
            link.settimeout(max(deadline - time.monotonic(), 0.001))
            link.sendall(rest)
    finally:
        link.settimeout(None)


def receive(link: socket.socket) -> tuple[wire.RunnerJob, list[int]]:
    """Receive what `send` sent; waits for ever, for the judge ends the box."""
    data, fds = _receive(link)
    job: Any = wire.decode(data)
    if not isinstance(job, wire.RunnerJob):
        raise wire.WireError(f"a {type(job).__name__} is no job of a runner's")
    return job, fds


def _receive(link: socket.socket) -> tuple[bytes, list[int]]:
    data, fds, _, _ = socket.recv_fds(link, 1 << 16, FD_COUNT)
    while len(data) < _HEADER.size or len(data) < _HEADER.size + _HEADER.unpack_from(data)[0]:
        more = link.recv(1 << 16)
        if not more:
            raise EOFError("the judge closed the link")
        data += more
    return data[_HEADER.size :], fds


class Templates(Sequence[str]):
    """A runner's templates, of which some come when they are wanted."""

    def __init__(self, link: socket.socket, known: Sequence[str]) -> None:
        self._link, self._known = link, known

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, index: Any) -> Any:
        if not self._known[index]:
            (fd,) = _receive(self._link)[1]
            with os.fdopen(fd, "rb") as file:
                file.seek(0)  # it was written through this descriptor's file
                self._known = json.load(file)
        return self._known[index]


def sealed_copy(data: bytes) -> int:
    """A memfd that holds data and can never change: how an artifact gets into a box that has no mount for it."""
    fd = os.memfd_create("artifact", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd
