"""A box that is a tree of processes of this host: what `bubblewrap` and `process` have in common."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.isolation import Availability, Box, BoxSpec, IsolationBroken, probe, processes
from grader.isolation.cgroups import BoxCgroup, Cgroups, Counters, read_counters
from grader.isolation.directories import link_directory, sweep_runtime
from grader.isolation.fingerprint import HostFingerprint
from grader.isolation.gpu import DriverFiles
from grader.isolation.settings import BoxSettings, Protections
from grader.isolation.supervision import SupervisedBox, live
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
    uid: another than ours is the box's alone, so that all its processes are the box's.
    """

    argv: Callable[[int, int], Sequence[str]]
    environment: Mapping[str, str]
    uid: int
    binds: Sequence[str] = ()
    tmp: Mapping[str, int] | None = None
    descriptors: Sequence[int] = ()


class HostBox(SupervisedBox):
    """A box that is a process tree."""

    def __init__(self, spec: BoxSpec, launch: Launch, cgroup: BoxCgroup | None, protections: Protections) -> None:
        super().__init__(spec, launch.uid, watch_memory=protections.memory_limit)
        self._launch, self._cgroup, self._protections = launch, cgroup, protections
        self._has_own_uid = launch.uid != os.geteuid()
        self._process: asyncio.subprocess.Process | None = None
        self._descriptors = ExitStack()
        self._entered = self._status = -1
        self._said = b""
        self._first: int | None = None

    async def start(self) -> None:
        """Start the launcher."""
        output, output_end = self._pipe()
        self._entered, entered_end = self._pipe()
        self._status, status_end = self._pipe()
        config = {
            "parent": os.getpid(),
            "entrances": self._cgroup.entrances if self._cgroup else (),
            "uid": self._launch.uid if self._has_own_uid else None,
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
        self._read(output)
        asyncio.get_running_loop().add_reader(self._status, self._meet_first)
        self.begin(self._wall_s)

    def _watches(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return self._await_exit, self._watch_processes

    async def _stop(self) -> None:
        """Nothing: what its processes used is read before they are ended."""

    async def _clear(self) -> None:
        await asyncio.to_thread(self._end_processes)
        if self._process is not None:
            await self._process.wait()
        if self._reader is not None:
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
        self.end(BoxCause.EXITED)

    async def _watch_processes(self) -> None:
        """Hold the limits of a box that has no cgroup to do it."""
        if self._cgroup is not None:
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
        return processes.memory_bytes(inside, table, self._spec.limits.memory_bytes), sum(table[pid].thread_count for pid in inside)

    def _members(self) -> set[int]:
        """Return every process of the box, found in all the ways there are: one of them it may have escaped."""
        table = processes.table()
        pids = processes.descendants(self._process.pid, table) if self._process else set()
        label = {name: self._launch.environment[name] for name in (processes.BOX_VARIABLE, processes.SERVER_VARIABLE)}
        pids |= set(processes.labelled(**label))
        if self._has_own_uid:
            pids |= processes.of_uid(self._launch.uid)
        return pids

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
        with contextlib.suppress(OSError):  # it has ended
            descriptor = os.pidfd_open(int(named[1]))
            self._descriptors.callback(os.close, descriptor)
            if processes.facts_of(int(named[1])).parent == self._process.pid:
                self._first = descriptor

    def _end_processes(self) -> None:
        if self._cgroup is not None:
            self._cgroup.kill()
        if self._first is not None:
            processes.end_one(self._first)  # it is a namespace's first, so when it is gone all the others are
        processes.end_all(self._members)

    async def _settle(self) -> int | None:
        await asyncio.to_thread(self._end_processes)
        code = await self._process.wait() if self._process else None
        if self._cgroup is not None:
            self._counters = read_counters(self._cgroup.directories)
        self._drain()
        if self._cause is BoxCause.EXITED:
            os.set_blocking(self._entered, False)
            entered = b""
            with contextlib.suppress(BlockingIOError):
                entered = os.read(self._entered, 1)
            if entered != ENTERED:
                assert self._reader is not None
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
        self.fingerprint = HostFingerprint().current  # a box has the host's toolchain

    @abstractmethod
    def _warnings(self) -> list[str]:
        """Return what the operator should know of boxes that this user starts."""

    @abstractmethod
    def _launch(self, spec: BoxSpec, link_dir: Path, driver: DriverFiles | None, stack: ExitStack, *, limited: bool) -> Launch:
        """Prepare a box. driver: of its GPU; stack: closed when the box is gone; limited: it has a cgroup."""

    def _refusal(self) -> str | None:
        """Return why no box can be made at all; None where it is worth a try."""
        if self._settings.image is None:
            return None
        return f"box root {self._settings.box_root} needs a container engine; use box root 'host'"

    async def check(self) -> Availability:
        """Start a trivial box."""
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
        """Start a box; leaving kills every process of it."""
        driver = None if spec.gpu is None else await asyncio.to_thread(self._find_driver, spec.gpu.minor)
        with ExitStack() as stack:
            link_dir = stack.enter_context(link_directory(self._settings, spec))
            cgroup = self._cgroup(spec, stack)
            launch = self._launch(spec, link_dir, driver, stack, limited=cgroup is not None)
            async with live(HostBox(spec, launch, cgroup, self._protections)) as box:
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

    async def sweep(self) -> int:
        """End what earlier servers with this state directory left."""
        boxes = set(processes.strangers(self._settings).values())
        processes.end_all(lambda: set(processes.strangers(self._settings)))
        swept = max(len(boxes), self._cgroups.sweep())
        sweep_runtime(self._settings)
        return swept

    async def close(self) -> None:
        """Take down what was set up; no box may be live."""
        self._cgroups.remove()
