"""A box that is a tree of processes of this host: what `bubblewrap` and `process` have in common."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grader.isolation import Availability, Box, BoxSpec, IsolationBroken, Purpose, probe, processes
from grader.isolation.cgroups import BoxCgroup, Cgroups, Counters, read_counters
from grader.isolation.directories import link_directory, sweep_runtime
from grader.isolation.fingerprint import HostFingerprint
from grader.isolation.forks import ForkParent
from grader.isolation.gpu import DriverFiles
from grader.isolation.settings import BoxSettings, Protections
from grader.isolation.supervision import SupervisedBox, live
from sandbox.protocol.box_start import ENTERED, MADE
from sandbox.protocol.wire import BoxCause

STAGE_SCRIPT = Path(__file__).with_name("stage.py")
WATCH_S = 0.05
STATUS_BYTES = 4096
CHILD_PID = re.compile(rb'"child-pid": (\d+)[^\d]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a box.

    argv: made from descriptors: on one the box's first process reports that it has begun, on the second the launcher says as JSON which
        process of the host that is, if it is another than the launcher's own. From a third, if there is one, the first process gets the
        exit code of a forked command.
    confinement: what a forked command is to set for itself, as JSON has it.
    binds: host paths to be staged, in this order; empty where they are reachable as they are.
    uid: another than ours is the box's alone, so that all its processes are the box's.
    niceness: of all of them.
    """

    argv: Callable[[int, int, int | None], Sequence[str]]
    environment: Mapping[str, str]
    uid: int
    binds: Sequence[str] = ()
    tmp: Mapping[str, int] | None = None
    descriptors: Sequence[int] = ()
    confinement: Mapping[str, Any] = field(default_factory=dict)
    niceness: int = 0


class HostBox(SupervisedBox):
    """A box that is a process tree. parent: forks its command."""

    def __init__(
        self, spec: BoxSpec, launch: Launch, cgroup: BoxCgroup | None, protections: Protections, parent: ForkParent | None = None
    ) -> None:
        super().__init__(spec, launch.uid, watch_memory=protections.memory_limit)
        self._launch, self._cgroup, self._protections, self._parent = launch, cgroup, protections, parent
        self._has_own_uid = launch.uid != os.geteuid()
        self._process: asyncio.subprocess.Process | None = None
        self._descriptors, self._ends = ExitStack(), ExitStack()  # ours, and those of the box until it has them
        self._entered = self._status = -1
        self._said = b""
        self._first: int | None = None
        self._first_pid = 0
        self._settled = False

    async def start(self) -> None:
        output, output_end = self._pipe()
        self._entered, entered_end = self._pipe()
        self._status, status_end = self._pipe()
        os.set_blocking(self._status, False)
        exit_pipe, exit_end = (None, None) if self._parent is None else self._pipe()
        config = {
            "parent": os.getpid(),
            "entrances": self._cgroup.entrances if self._cgroup else (),
            "uid": self._launch.uid if self._has_own_uid else None,
            "niceness": self._launch.niceness,
            "binds": list(self._launch.binds),
            "tmp": dict(self._launch.tmp) if self._launch.tmp else None,
            "argv": list(self._launch.argv(entered_end, status_end, exit_pipe)),
            "environment": dict(self._launch.environment),
        }
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-B", str(STAGE_SCRIPT), marshal.dumps(config).hex()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output_end,
                stderr=output_end,
                pass_fds=(entered_end, status_end, *(() if exit_pipe is None else (exit_pipe,)), *self._launch.descriptors),
                env={},
                start_new_session=True,
            )
        finally:
            if exit_end is None:
                self._ends.close()
        self._read(output)
        asyncio.get_running_loop().add_reader(self._status, self._meet_first)
        if exit_end is not None:
            asyncio.get_running_loop().add_reader(self._entered, self._fork, (output_end, entered_end, exit_end))
        self.begin(self._wall_s)

    def _watches(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return self._await_exit, self._watch_processes

    async def _stop(self) -> None:
        """Nothing: what its processes used is read before they are ended."""

    async def _clear(self) -> None:
        if not self._settled:  # else nothing of it is left
            await asyncio.to_thread(self._end_processes)
        if self._process is not None:
            await self._process.wait()
        if self._reader is not None:
            self._reader.close()
            asyncio.get_running_loop().remove_reader(self._status)
            asyncio.get_running_loop().remove_reader(self._entered)
        self._ends.close()
        self._descriptors.close()
        if self._cgroup is not None:
            await asyncio.to_thread(self._cgroup.remove)

    def _pipe(self) -> tuple[int, int]:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self._descriptors.callback(os.close, reading)
        self._ends.callback(os.close, writing)
        return reading, writing

    async def _await_exit(self) -> None:
        if self._process is not None:
            await self._process.wait()
        self.end(BoxCause.EXITED)

    async def _watch_processes(self) -> None:
        """Hold the limits of a box that has no cgroup to do it."""
        if self._cgroup is not None or not (self._protections.memory_limit or self._protections.process_limit):
            return
        while True:
            resident_bytes, count = await asyncio.to_thread(self._usage)
            self._counters = self._counters.merged(Counters(peak_memory_bytes=resident_bytes))
            if self._protections.memory_limit and resident_bytes > self._spec.limits.memory_bytes:
                self.end(BoxCause.MEMORY_LIMIT)
            # RLIMIT_NPROC comes first, where it binds at all.
            elif self._protections.process_limit and count > 2 * self._spec.limits.process_count:
                self.end(BoxCause.PROCESS_LIMIT)
            await asyncio.sleep(WATCH_S)

    def _usage(self) -> tuple[int, int]:
        table = processes.table()
        inside = processes.descendants(self._process.pid if self._process else -1, table)
        inside |= processes.of_uid(self._launch.uid, table) if self._has_own_uid else set()  # a forked command descends from its parent
        return processes.memory_bytes(inside, table, self._spec.limits.memory_bytes), sum(table[pid].thread_count for pid in inside)

    def _members(self) -> set[int]:
        """Return every process of the box, found in all the ways there are: one of them it may have escaped."""
        table = processes.table()
        pids = processes.descendants(self._process.pid, table) if self._process else set()
        label = {name: self._launch.environment[name] for name in (processes.BOX_VARIABLE, processes.SERVER_VARIABLE)}
        pids |= set(processes.labelled(**label))
        if self._has_own_uid:
            pids |= processes.of_uid(self._launch.uid)  # looked up anew: it may have forked since, and ended
        return pids

    def _meet_first(self) -> None:
        """Hold the process that the launcher names: by descriptor, for a number may soon be another's."""
        try:
            message = os.read(self._status, STATUS_BYTES)
        except BlockingIOError:
            return
        self._said += message
        named = CHILD_PID.search(self._said)  # it is written in pieces
        if message and named is None:
            return
        asyncio.get_running_loop().remove_reader(self._status)
        if named is None or self._process is None:
            return
        with contextlib.suppress(OSError):  # it has ended
            descriptor = os.pidfd_open(int(named[1]))
            self._descriptors.callback(os.close, descriptor)
            if processes.facts_of(int(named[1])).parent == self._process.pid:
                self._first, self._first_pid = descriptor, int(named[1])

    def _fork(self, ends: Sequence[int]) -> None:
        """Have the command forked, once the first process reports that the box is made; without one it ends, as a box that is broken."""
        asyncio.get_running_loop().remove_reader(self._entered)
        with self._ends, contextlib.suppress(OSError):
            if self._parent is not None and os.read(self._entered, 1) == MADE:
                self._meet_first()  # it was named before
                entrances = self._cgroup.entrances if self._cgroup else ()
                child = {"uid": self.uid, "arguments": self._spec.fork_arguments, **self._launch.confinement}
                self._parent.fork(self._first_pid, child, ends, entrances)

    def _end_processes(self) -> None:
        """Kill all at once: the first process of a namespace ends once the others have and the command is reaped by what forked it."""
        if self._first is not None:
            processes.kill(self._first)
        if self._cgroup is not None:
            self._cgroup.kill()
        if self._first is not None:
            processes.await_end(self._first)
        processes.end_all(self._members)

    async def _settle(self) -> int | None:
        await asyncio.to_thread(self._end_processes)
        self._settled = True
        code = await self._process.wait() if self._process else None
        if self._cgroup is not None:
            self._counters = read_counters(self._cgroup.directories)
        self._drain()
        # A forked command that did not get in before a limit struck has used nothing of that limit.
        if self._cause is BoxCause.EXITED or (self._parent is not None and self._cause is not BoxCause.KILLED):
            os.set_blocking(self._entered, False)
            entered = b""
            with contextlib.suppress(BlockingIOError):
                entered = os.read(self._entered, 1)
            if entered != ENTERED:
                assert self._reader is not None
                if self._parent is not None:
                    self._parent.fail()
                message = self._reader.head.decode(errors="replace").strip()[-500:]
                raise IsolationBroken(f"a box did not come up (exit code {code}): {message}")
        return 128 - code if code is not None and code < 0 else code


class HostIsolation(ABC):
    """Makes boxes that are processes of this host, with cgroups where they can be made, and sweeps leftovers."""

    NAME: str
    SAFE: bool
    KEPT_IN_BY: str

    def __init__(self, settings: BoxSettings, find_driver: Callable[[int], DriverFiles], protections: Protections | None = None) -> None:
        self._settings, self._find_driver, self._protections = settings, find_driver, protections or Protections()
        self._cgroups = Cgroups(settings.state_id, settings.run_id)
        self._fingerprint = HostFingerprint()

    @abstractmethod
    def _warnings(self) -> list[str]:
        """Return what the operator should know of boxes that this user starts."""

    @abstractmethod
    def _launch(self, spec: BoxSpec, link_dir: Path, driver: DriverFiles | None, stack: ExitStack, *, limited: bool) -> Launch:
        """Prepare a box. driver: of its GPU; stack: closed when the box is gone; limited: it has a cgroup."""

    def _keep(self, spec: BoxSpec) -> Protections:
        """Return the protections of a box, next to its cgroup. What a parent has beyond a box's walls its children would inherit, who get
        their own; and they descend from it, so that who watches it would count them."""
        if spec.purpose is not Purpose.FORK:
            return self._protections
        unwatched = replace(self._protections, memory_limit=False, process_limit=False)
        return replace(unwatched, rlimits=False, seccomp=False, own_uid=False, no_nested_namespaces=False)

    def _parent(self, spec: BoxSpec) -> AbstractAsyncContextManager[ForkParent | None]:
        """Hold what forks the command of such a box; None where it is started."""
        return nullcontext()

    def _refusal(self) -> str | None:
        """Return why no box can be made at all; None where it is worth a try."""
        if self._settings.image is None:
            return None
        return f"box root {self._settings.box_root} needs a container engine; use box root 'host'"

    async def check(self) -> Availability:
        failure = self._refusal() or await probe.failure(self)
        if failure is not None:
            return Availability(usable=False, detail=failure)
        warnings, detail = self._warnings(), f"{self.KEPT_IN_BY}, cgroups"
        if not self._cgroups.usable:
            detail = self.KEPT_IN_BY
            warnings.append("no cgroup can be made here: memory and processes are watched every 50 ms, not limited by the kernel")
        return Availability(usable=True, detail=detail, warnings=tuple(warnings))

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        driver = None if spec.gpu is None else await asyncio.to_thread(self._find_driver, spec.gpu.minor)
        async with AsyncExitStack() as holds:
            parent, stack = await holds.enter_async_context(self._parent(spec)), holds.enter_context(ExitStack())
            link_dir = stack.enter_context(link_directory(self._settings, spec))
            cgroup = self._cgroup(spec, stack)
            launch = self._launch(spec, link_dir, driver, stack, limited=cgroup is not None)
            async with live(HostBox(spec, launch, cgroup, self._keep(spec), parent)) as box:
                yield box

    def _cgroup(self, spec: BoxSpec, stack: ExitStack) -> BoxCgroup | None:
        """Make the box's cgroup with its limits, removed with the stack; None where none can be made."""
        if not self._cgroups.usable:
            return None
        cgroup = self._cgroups.make(spec.box_id)
        stack.callback(cgroup.remove)
        keep = self._protections
        cgroup.limit(
            memory_bytes=spec.limits.memory_bytes if keep.memory_limit else None,
            process_count=spec.limits.process_count if keep.process_limit else None,
        )
        return cgroup

    async def adopt(self, memory_toolchain_dir: Path, fingerprint: str) -> None:
        self._settings = replace(self._settings, memory_toolchain_dir=memory_toolchain_dir)
        self._fingerprint = HostFingerprint(digest=fingerprint)

    async def fingerprint(self, *, fresh: bool = False) -> str:
        """The host's toolchain, which a box has."""
        return await self._fingerprint.current(fresh=fresh)

    async def sweep(self) -> int:
        boxes = set(processes.strangers(self._settings).values())
        processes.end_all(lambda: set(processes.strangers(self._settings)))
        swept = max(len(boxes), self._cgroups.sweep())
        sweep_runtime(self._settings)
        return swept

    async def close(self) -> None:
        self._cgroups.remove()
