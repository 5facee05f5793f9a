"""Parents of run boxes: each imports once what a kind of box needs, and forks the command of every such box (`sandbox/fork_server.py`)."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import structlog

from grader.isolation import Box, BoxSpec, Held, IsolationBroken, Purpose, before_end
from grader.isolation.directories import hold_slot, link_directory, shared_slot_directory, slot_uid
from grader.isolation.settings import BoxSettings
from sandbox.protocol.box_files import socket_address
from sandbox.protocol.box_start import FORK_SOCKET, NAMESPACES, READY

IMPORT_S = 60.0
LIFE_S = 3600.0
RETRY_S = 300.0  # from the start of a parent that ended at a fork to that of the next: were each to end so, each box would be broken
FORK_LIMIT = 200  # boxes of a parent, which share the layout of their memory
PARENT_LIMIT = 6  # kinds of boxes of a device, those started last; torch takes 250 MB
OUTPUT_CHARACTERS = 500
NS_GET_USERNS = 0xB701

log = structlog.get_logger()


class ForkParent(Held[tuple[socket.socket, Box]]):
    """A parent from its start on: the link to it once it has imported, and its box. live_count: boxes that hold it."""

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[tuple[socket.socket, Box]]]) -> None:
        super().__init__(start)
        self._begin_s = asyncio.get_running_loop().time()
        self._use_count = self.live_count = 0
        self._failed = False

    @property
    def spent(self) -> bool:
        """Return whether it is to be replaced. One that could not be started is, too, but not before its time."""
        age_s = asyncio.get_running_loop().time() - self._begin_s
        ended = self.value.done() and self.value.exception() is None and self.value.result()[1].ended
        return age_s > LIFE_S or self._use_count >= FORK_LIMIT or (ended and (not self._failed or age_s > RETRY_S))

    async def ready(self) -> bool:
        """Wait until it has imported; False where it could not be started."""
        self._use_count += 1
        await asyncio.wait([self.value])
        return self.value.exception() is None and not self._failed

    def fail(self) -> None:
        """Fork no more: a command did not enter its box. The next ones are started, as where it could not be started itself."""
        self._failed = True
        log.warning("fork_failed")

    def fork(self, first: int, confinement: Mapping[str, Any], ends: Sequence[int], entrances: Sequence[str]) -> None:
        """Have it fork the command of a box. first: the box's first process; ends: where its output, the report that it has entered and
        its exit code go; entrances: of its cgroup. OSError where that can't be."""
        with ExitStack() as stack:

            def held(descriptor: int) -> int:
                stack.callback(os.close, descriptor)
                return descriptor

            handles = {name: held(os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)) for name in NAMESPACES[1:]}
            handles[NAMESPACES[0]] = held(fcntl.ioctl(handles["mnt"], NS_GET_USERNS))
            # With --disable-userns the box's processes have a user namespace below the one that owns their other namespaces.
            count = len(NAMESPACES) - os.path.sameopenfile(handles[NAMESPACES[0]], handles["user"])
            groups = [held(os.open(entrance, os.O_WRONLY | os.O_CLOEXEC)) for entrance in entrances]
            message = json.dumps({**confinement, "namespace_count": count}).encode()
            socket.send_fds(self.value.result()[0], [message], [*(handles[name] for name in NAMESPACES), *ends, *groups])


class ForkParents:
    """The parents of an isolation, one for each kind of box. start: starts a box; fingerprint: of what boxes are made of."""

    def __init__(
        self, settings: BoxSettings, start: Callable[[BoxSpec], AbstractAsyncContextManager[Box]], fingerprint: Callable[[], Awaitable[str]]
    ) -> None:
        self._settings, self._start_box, self._fingerprint = settings, start, fingerprint
        self._parents: OrderedDict[tuple[object, ...], ForkParent] = OrderedDict()
        self._retired: set[ForkParent] = set()

    @asynccontextmanager
    async def hold(self, spec: BoxSpec) -> AsyncIterator[ForkParent | None]:
        """Hold the parent of such boxes, ready to fork, until the box is over; None where it could not be started."""
        key = spec.fork_argv, spec.environment, spec.gpu, await self._fingerprint()
        for spent in [kind for kind, parent in self._parents.items() if parent.spent]:  # of any kind: it has a slot and a directory
            self._retire(spent)
        parent = self._parents.pop(key, None) or ForkParent(lambda: self._started(spec))
        self._parents[key] = parent
        parent.live_count += 1
        try:
            alike = [key for key in self._parents if key[2] == spec.gpu]
            if len(alike) > PARENT_LIMIT:
                self._retire(alike[0])
            yield parent if await parent.ready() else None
        finally:
            parent.live_count -= 1
            self._end_unused()

    def retire(self) -> None:
        """Let none of them fork any more."""
        for key in list(self._parents):
            self._retire(key)

    async def close(self) -> None:
        """End them all; no box may be live."""
        self.retire()
        await asyncio.gather(*(parent.leave() for parent in self._retired), return_exceptions=True)

    def _retire(self, key: tuple[object, ...]) -> None:
        """Let it fork no more, and end it once none of its boxes is left: their commands are its children."""
        self._retired.add(self._parents.pop(key))
        self._end_unused()

    def _end_unused(self) -> None:
        for parent in self._retired:
            if parent.live_count == 0:
                parent.leave().add_done_callback(lambda _, parent=parent: self._retired.discard(parent))  # type: ignore[misc]

    @asynccontextmanager
    async def _started(self, spec: BoxSpec) -> AsyncIterator[tuple[socket.socket, Box]]:
        """Start the parent of such boxes; give the link to it, and its own box."""
        limits = replace(spec.limits, wall_s=2 * LIFE_S, cpu_s=LIFE_S)
        parent = replace(spec, purpose=Purpose.FORK, argv=spec.fork_argv, fork_argv=(), limits=limits, out_dir=None, tool_dir=None)
        try:
            with (
                hold_slot(shared_slot_directory()) as slot,
                link_directory(self._settings, replace(spec, link_dir=None)) as link_dir,
                socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
            ):
                with socket_address(str(link_dir / FORK_SOCKET)) as address:
                    listener.bind(address)
                listener.listen(1)
                listener.setblocking(False)
                box_id = f"forks-{secrets.token_hex(8)}"
                async with self._start_box(replace(parent, box_id=box_id, slot=slot, link_dir=link_dir)) as box:
                    link = await before_end(box, _imported(listener, slot_uid(slot, Purpose.FORK)), IMPORT_S)
                    if link is None:
                        output = (await box.kill()).output.decode(errors="replace")
                        raise IsolationBroken(f"the parent of boxes did not import: {output[-OUTPUT_CHARACTERS:]}")
                    with link:
                        yield link, box
        except Exception as error:
            log.warning("fork_parent_failed", error=f"{type(error).__name__}: {error}")
            raise  # the commands of boxes are started, then


async def _imported(listener: socket.socket, uid: int) -> socket.socket | None:
    """Return the link to a parent once it has taken this uid and imported; None where it ends before."""
    loop = asyncio.get_running_loop()
    link, _ = await loop.sock_accept(listener)
    link.setblocking(False)
    with ExitStack() as stack, suppress(OSError):
        stack.enter_context(link)  # closed, too, where this is cancelled
        await loop.sock_sendall(link, str(uid).encode())
        if await loop.sock_recv(link, len(READY)):
            stack.pop_all()
            return link
    return None
