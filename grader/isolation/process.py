"""Boxes as plain processes: rlimits, a cgroup and a uid of their own where that is possible.  UNSAFE: for one's own kernels."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from grader.isolation import Availability, Box, BoxSpec, gpu, host_box, launch, probe, processes
from grader.isolation.directories import box_output, link_directory, slot_uid
from grader.isolation.settings import BoxSettings
from grader.isolation.supervision import live
from grader.isolation.toolchain import package_directory, plug_ins, search_path
from sandbox.protocol.box_modules import box_modules

UNSAFE = "UNSAFE: a submission sees this host's files and network; use it for your own kernels only"


class ProcessIsolation(host_box.HostIsolation):
    """Makes boxes as plain process trees."""

    NAME = "process"
    SAFE = False

    def __init__(self, settings: BoxSettings, find_driver: Callable[[int], gpu.DriverFiles] = gpu.find_driver) -> None:
        super().__init__(settings, find_driver)
        self._unreachable = _unreachable(
            (Path(sys.executable), Path(sys.base_prefix), package_directory("sandbox"), settings.runtime_dir / "run")
        )

    async def check(self) -> Availability:
        """Start a trivial box."""
        if self._settings.image is not None:
            return Availability(usable=False, detail=f"box root {self._settings.box_root} needs a container engine; use box root 'host'")
        failure = await probe.failure(self)
        if failure is not None:
            return Availability(usable=False, detail=failure)
        warnings = [UNSAFE]
        if os.geteuid() != 0:
            warnings.append("submissions run as your own user; start the server as root for a uid of their own")
        elif self._unreachable is not None:
            warnings.append(f"submissions run as ROOT: no other uid may pass {self._unreachable}; put the Python environment elsewhere")
        if not self._cgroups.usable:
            warnings.append("no cgroup can be made here: memory and processes are watched every 50 ms, not limited by the kernel")
        return Availability(usable=True, detail="rlimits" + (", cgroups" if self._cgroups.usable else ""), warnings=tuple(warnings))

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        """Start a box; leaving kills every process of it that can be found."""
        own_uid = os.geteuid() == 0 and self._unreachable is None
        uid = slot_uid(spec.slot, spec.purpose) if own_uid else os.geteuid()
        grant = gpu.NOTHING
        if spec.gpu is not None:
            grant = gpu.shared(spec.gpu, await asyncio.to_thread(self._find_driver, spec.gpu.minor))
        with ExitStack() as stack:
            link_dir = stack.enter_context(link_directory(self._settings, spec))
            scratch = stack.enter_context(box_output(self._settings, limit_bytes=spec.limits.tmp_bytes, executable=True))
            cgroup = self._cgroup(spec, stack)
            launched = self._launch(spec, link_dir, scratch, uid, own_uid, grant, limited=cgroup is not None)
            async with live(host_box.HostBox(spec, launched, cgroup)) as box:
                yield box

    def _launch(
        self, spec: BoxSpec, link_dir: Path, scratch: Path, uid: int, own_uid: bool, grant: gpu.Grant, *, limited: bool
    ) -> host_box.Launch:
        packages = (package_directory(module.partition(".")[0]) for module in ("sandbox", *box_modules().values()))
        paths = {
            "python": sys.executable,
            "lib": ":".join(dict.fromkeys(str(path.parent) for path in (*packages, *plug_ins()))),
            "link": str(link_dir),
            "src": str(spec.src_dir or ""),
            "out": str(spec.out_dir or ""),
        }
        count = None if limited else spec.limits.process_count
        if count is not None and not own_uid:  # RLIMIT_NPROC counts all threads of a uid, not just the box's
            table = processes.everything()  # a zombie counts until it is reaped
            count += sum(max(1, table[pid].thread_count) for pid in processes.of_uid(uid, table))
        limits = launch.rlimits(spec.limits, process_count=count)
        return host_box.Launch(
            argv=lambda entered, _: launch.command(spec, paths, limited=limits, entered=entered),
            environment={
                **launch.environment(spec, search_path(), home=str(scratch), grant=grant),
                **processes.labels(self._settings, spec.box_id),
            },
            uid=uid,
            own_uid=own_uid,
        )


def _unreachable(paths: tuple[Path, ...]) -> Path | None:
    """Return the first directory on the way to one of `paths` that strangers may not pass."""
    for path in paths:
        for step in (path, path.resolve()):
            for directory in reversed(step.parents):
                if directory.exists() and not directory.stat().st_mode & stat.S_IXOTH:
                    return directory
    return None
