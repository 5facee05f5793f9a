"""Boxes as plain processes: rlimits, a cgroup and a uid of their own where that is possible.  UNSAFE: for one's own kernels."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from grader.isolation import BoxSpec, gpu, launch, processes
from grader.isolation.directories import box_output, slot_uid
from grader.isolation.host_box import HostIsolation, Launch
from grader.isolation.settings import BoxSettings
from grader.isolation.toolchain import package_directory, plug_ins, search_path
from sandbox.protocol.box_modules import box_modules

UNSAFE = "UNSAFE: a submission sees this host's files and network; use it for your own kernels only"


class ProcessIsolation(HostIsolation):
    """Makes boxes as plain process trees."""

    NAME = "process"
    SAFE = False
    KEPT_IN_BY = "rlimits"

    def __init__(self, settings: BoxSettings, find_driver: Callable[[int], gpu.DriverFiles] = gpu.find_driver) -> None:
        super().__init__(settings, find_driver)
        self._unreachable = _unreachable(
            (Path(sys.executable), Path(sys.base_prefix), package_directory("sandbox"), settings.runtime_dir / "run")
        )

    def _warnings(self) -> list[str]:
        if os.geteuid() != 0:
            return [UNSAFE, "submissions run as your own user; start the server as root for a uid of their own"]
        if self._unreachable is not None:
            return [UNSAFE, f"submissions run as ROOT: no other uid may pass {self._unreachable}; put the Python environment elsewhere"]
        return [UNSAFE]

    def _launch(self, spec: BoxSpec, link_dir: Path, driver: gpu.DriverFiles | None, stack: ExitStack, *, limited: bool) -> Launch:
        own_uid = os.geteuid() == 0 and self._unreachable is None
        uid = slot_uid(spec.slot, spec.purpose) if own_uid else os.geteuid()
        grant = gpu.NOTHING if spec.gpu is None or driver is None else gpu.shared(spec.gpu, driver)
        scratch = stack.enter_context(box_output(self._settings, limit_bytes=spec.limits.tmp_bytes, executable=True))
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
        return Launch(
            argv=lambda entered, *_: launch.command(spec, paths, limited=limits, entered=entered),
            environment={
                **launch.environment(spec, search_path(), home=str(scratch), grant=grant),
                **processes.labels(self._settings, spec.box_id),
            },
            uid=uid,
            niceness=launch.niceness(spec, self._settings),
        )


def _unreachable(paths: tuple[Path, ...]) -> Path | None:
    """Return the first directory on the way to one of `paths` that strangers may not pass."""
    directories = (directory for path in paths for step in (path, path.resolve()) for directory in reversed(step.parents))
    return next((directory for directory in directories if directory.exists() and not directory.stat().st_mode & stat.S_IXOTH), None)
