"""A box that is a tree of processes of this host: what `bubblewrap` and `process` have in common."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from grader.isolation import Box, BoxExit, BoxSpec, processes
from grader.isolation.cancellation import settled
from grader.isolation.cgroups import BoxCgroup
from grader.isolation.errors import IsolationBroken
from grader.isolation.exit_cause import Counters, FirstCause
from grader.isolation.host_memory import MemoryWatch
from grader.isolation.output import OutputReader
from sandbox.protocol.wire import BoxCause

STAGE_SCRIPT = Path(__file__).with_name("stage.py")
WATCH_S = 0.05
ENTERED = b"e"
STATUS_BYTES = 4096
CHILD_PID = re.compile(rb'"child-pid": (\d+)[^\d]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a box.

    argv: made from two descriptors: on one the box's first process reports that it has begun, on the other the launcher
        says as JSON which process of the host that is, if it is another than the launcher's own.
    binds: host paths to be staged, in this order; empty where they are reachable as they are.
    own_uid: whether nobody else has `uid`, so that all its processes are the box's.
    """

    argv: Callable[[int, int], Sequence[str]]
    environment: Mapping[str, str]
    uid: int
    own_uid: bool
    binds: Sequence[str] = ()
    tmp: Mapping[str, int] | None = None
    descriptors: Sequence[int] = ()
    watch_memory: bool = True
    watch_count: bool = True


class HostBox:
    """One process tree.  `supervise` runs beside it and enforces every limit, whether anybody waits or not."""

    def __init__(self, spec: BoxSpec, launch: Launch, cgroup: BoxCgroup | None) -> None:
        self._spec = spec
        self._launch = launch
        self._cgroup = cgroup
        self._ending = FirstCause()
        self._exit: asyncio.Future[BoxExit] = asyncio.get_running_loop().create_future()
        self._process: asyncio.subprocess.Process | None = None
        self._counters = Counters()
        self._descriptors = ExitStack()
        self._entered = self._status = -1
        self._said = b""
        self._first: int | None = None

    @property
    def uid(self) -> int:
        """The host uid that its processes have."""
        return self._launch.uid

    async def wait(self) -> BoxExit:
        """Return when it has ended."""
        return await asyncio.shield(self._exit)

    async def kill(self) -> BoxExit:
        """End it now."""
        self.end()
        return await self.wait()

    def end(self) -> None:
        """Begin to end it; `supervise` does the rest."""
        self._ending.record_cause(BoxCause.KILLED)

    async def start(self) -> None:
        """Start the launcher."""
        output, output_end = self._pipe()
        self._entered, entered_end = self._pipe()
        self._status, status_end = self._pipe()
        config = {
            "parent": os.getpid(),
            "entrances": self._cgroup.entrances if self._cgroup else (),
            "uid": self._launch.uid if self._launch.uid != os.geteuid() else None,
            "binds": list(self._launch.binds),
            "tmp": dict(self._launch.tmp) if self._launch.tmp else None,
            "argv": list(self._launch.argv(entered_end, status_end)),
            "environment": dict(self._launch.environment),
        }
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-B", str(STAGE_SCRIPT), json.dumps(config)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output_end,
                stderr=output_end,
                pass_fds=(entered_end, status_end, *self._launch.descriptors),
                env={},
                start_new_session=True,
            )
        finally:
            for end in (output_end, entered_end, status_end):
                os.close(end)
        self._reader = OutputReader(
            output, cap_bytes=self._spec.limits.output_bytes, on_full=lambda: self._ending.record_cause(BoxCause.OUTPUT_LIMIT)
        )
        asyncio.get_running_loop().add_reader(self._status, self._meet_first)
        self._ending.begin()

    async def supervise(self) -> None:
        """Watch the box until it has ended, leave nothing of it, and set its exit."""
        try:
            async with asyncio.TaskGroup() as tasks:
                watches = (self._await_exit, self._count_down, self._watch_processes, self._watch_host_memory)
                watchers = [tasks.create_task(watch()) for watch in watches]
                await self._ending.struck.wait()
                for watcher in watchers:
                    watcher.cancel()
            self._exit.set_result(await self._summary())
        except BaseException as error:
            if not self._exit.done():
                self._exit.set_exception(error)
                self._exit.exception()  # whoever waits gets it; whoever does not need not
            if not isinstance(error, Exception):
                raise
        finally:
            await self.clear()

    async def clear(self) -> None:
        """Kill whatever is left and close what is open."""
        await asyncio.to_thread(self._end_processes)
        if self._process is not None:
            await self._process.wait()
            self._reader.close()
            asyncio.get_running_loop().remove_reader(self._status)
        self._descriptors.close()
        if self._cgroup is not None:
            await asyncio.to_thread(self._cgroup.remove)

    def _pipe(self) -> tuple[int, int]:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self._descriptors.callback(os.close, reading)
        return reading, writing

    async def _await_exit(self) -> None:
        if self._process is not None:
            await self._process.wait()
        self._ending.record_cause(BoxCause.EXITED)

    async def _count_down(self) -> None:
        await asyncio.sleep(self._spec.limits.wall_s)
        self._ending.record_cause(BoxCause.WALL_LIMIT)

    async def _watch_processes(self) -> None:
        """Hold the limits of a box that has no cgroup to do it."""
        if self._cgroup is not None:
            return
        while True:
            resident_bytes, count = await asyncio.to_thread(self._usage)
            self._counters = self._counters.merged(Counters(peak_memory_bytes=resident_bytes))
            if self._launch.watch_memory and resident_bytes > self._spec.limits.memory_bytes:
                self._ending.record_cause(BoxCause.MEMORY_LIMIT)
            elif (
                self._launch.watch_count and count > 2 * self._spec.limits.process_count
            ):  # RLIMIT_NPROC comes first, where it binds at all
                self._ending.record_cause(BoxCause.PROCESS_LIMIT)
            await asyncio.sleep(WATCH_S)

    async def _watch_host_memory(self) -> None:
        """Hold the memory limit where the driver takes memory for the box."""
        if self._spec.gpu is not None and self._launch.watch_memory:
            record_cause = functools.partial(self._ending.record_cause, BoxCause.MEMORY_LIMIT)
            await MemoryWatch(limit_bytes=self._spec.limits.memory_bytes, members=self._members, record_cause=record_cause).run()

    def _usage(self) -> tuple[int, int]:
        seen = processes.table()
        inside = processes.descendants(self._process.pid if self._process else -1, seen)
        return processes.memory_bytes(inside, seen, self._spec.limits.memory_bytes), sum(seen[pid].thread_count for pid in inside)

    def _members(self) -> set[int]:
        """Return every process of the box, found in all the ways there are: one of them it may have escaped."""
        seen = processes.table()
        found = processes.descendants(self._process.pid, seen) if self._process else set()
        label = {name: self._launch.environment[name] for name in (processes.BOX_VARIABLE, processes.SERVER_VARIABLE)}
        found |= set(processes.labelled(**label))
        if self._launch.own_uid:
            found |= processes.of_uid(self._launch.uid)
        return found

    def _meet_first(self) -> None:
        """Hold the process that the launcher names: by descriptor, for a number may soon be another's."""
        message = os.read(self._status, STATUS_BYTES)
        self._said += message
        named = CHILD_PID.search(self._said)  # it is written in pieces
        if message and named is None:
            return
        asyncio.get_running_loop().remove_reader(self._status)
        if named is None or self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(int(named[1]))
            self._descriptors.callback(os.close, descriptor)
            if processes.parent_of(int(named[1])) == self._process.pid:
                self._first = descriptor

    def _end_processes(self) -> None:
        if self._cgroup is not None:
            self._cgroup.kill()
        if self._first is not None:
            processes.end_one(self._first)  # it is a namespace's first, so when it is gone all the others are
        processes.end_all(self._members)

    async def _summary(self) -> BoxExit:
        await asyncio.to_thread(self._end_processes)
        code = await self._process.wait() if self._process else None
        if self._cgroup is not None:
            self._counters = self._cgroup.counters()
        if self._ending.cause is not BoxCause.OUTPUT_LIMIT:
            self._reader.drain()
        if self._ending.cause is BoxCause.EXITED and not self._has_entered():
            message = self._reader.head.decode(errors="replace").strip()[-500:]
            raise IsolationBroken(f"a box did not come up (exit code {code}): {message}")
        code = 128 - code if code is not None and code < 0 else code
        return self._ending.summary(code, self._counters, self._reader, self._spec.limits.memory_bytes)

    def _has_entered(self) -> bool:
        os.set_blocking(self._entered, False)
        with contextlib.suppress(BlockingIOError):
            return os.read(self._entered, 1) == ENTERED
        return False


@asynccontextmanager
async def live(box: HostBox) -> AsyncIterator[Box]:
    """Start a box; leaving kills it and waits until nothing of it is left."""
    try:
        await box.start()
    except BaseException:
        await box.clear()
        raise
    supervision = asyncio.create_task(box.supervise(), name="box")
    try:
        yield box
    finally:
        box.end()
        await settled(supervision)
