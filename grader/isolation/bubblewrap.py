"""Boxes made by bubblewrap: namespaces, our seccomp filter and a cgroup, for hosts without a container engine."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from grader.isolation import (
    LIB,
    LINK,
    OUT,
    SRC,
    Availability,
    Box,
    BoxSpec,
    IsolationBroken,
    Purpose,
    gpu,
    host_box,
    launch,
    probe,
    processes,
)
from grader.isolation.directories import link_directory, slot_uid
from grader.isolation.launch import MASKED_PATHS, SHM_BYTES, TMP_INODE_COUNT
from grader.isolation.settings import HOST_ROOT, BoxSettings, Protections
from grader.isolation.stage import STAGE
from grader.isolation.supervision import live
from grader.isolation.toolchain import BindMount, Toolchain, host_toolchain, profile, write_own_etc

PROGRAM = "bwrap"
DEVICE_BIND = "--dev-bind"
HELP_TIMEOUT_S = 10
COVER_BYTES = 4096
# Without /sys the driver does not start: cuInit says 304. Covered, so that what is left is what a container has.
SYS = BindMount(source=Path("/sys"), target="/sys")
SYS_COVERED = ("/sys/class/net",)


class BubblewrapIsolation(host_box.HostIsolation):
    """Makes boxes with bubblewrap."""

    NAME = "bubblewrap"
    SAFE = True

    def __init__(
        self, settings: BoxSettings, protections: Protections | None = None, find_driver: Callable[[int], gpu.DriverFiles] = gpu.find_driver
    ) -> None:
        super().__init__(settings, find_driver, fixed_toolchain=settings.memory_toolchain_dir is not None)
        self._protections = protections or Protections()
        self._program = shutil.which(PROGRAM)
        self._options = ""
        self._root = os.geteuid() == 0

    async def check(self) -> Availability:
        """Start a trivial box."""
        if self._program is None:
            return Availability(usable=False, detail="bwrap is not installed; install the package bubblewrap")
        if self._settings.box_root != HOST_ROOT:
            return Availability(usable=False, detail=f"box root {self._settings.box_root} needs a container engine; use box root 'host'")
        failure = await probe.failure(self)
        if failure is not None:
            return Availability(usable=False, detail=failure)
        warnings = []
        if not self._root:
            warnings.append("boxes have your own uid on the host; start the server as root for one uid per slot")
            warnings.append("the number of files in a box's /tmp is bounded by its memory only")
        if not self._cgroups.usable:
            warnings.append("no cgroup can be made here: memory and processes are watched every 50 ms, not limited by the kernel")
        detail = "namespaces, seccomp" + (", cgroups" if self._cgroups.usable else "")
        return Availability(usable=True, detail=detail, warnings=tuple(warnings))

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        """Start a box; leaving kills its process namespace and waits until it is empty."""
        if self._program is None:
            raise IsolationBroken("bwrap is not installed; install the package bubblewrap")
        uid = slot_uid(spec.slot, spec.purpose) if self._root and self._protections.own_uid else os.geteuid()
        grant = gpu.NOTHING
        if spec.gpu is not None:
            grant = gpu.plain(spec.gpu, await asyncio.to_thread(self._find_driver, spec.gpu.minor), self._settings.memory_toolchain_dir)
        with ExitStack() as stack:
            link_dir = stack.enter_context(link_directory(self._settings, spec))
            cgroup = self._cgroup(spec, stack, memory=self._protections.memory_limit, processes=self._protections.process_limit)
            descriptor = None
            if self._protections.seccomp:
                descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC)
                stack.callback(os.close, descriptor)
                os.write(descriptor, profile("seccomp.bpf").read_bytes())
                os.lseek(descriptor, 0, os.SEEK_SET)
            how = self._launch(self._program, spec, link_dir, uid, descriptor, grant, limited=cgroup is not None)
            async with live(host_box.HostBox(spec, how, cgroup)) as box:
                yield box

    def _launch(
        self, program: str, spec: BoxSpec, link_dir: Path, uid: int, descriptor: int | None, grant: gpu.Grant, *, limited: bool
    ) -> host_box.Launch:
        write_own_etc(self._settings.etc_directory)
        toolchain = host_toolchain(self._settings.etc_directory, self._settings.hidden_paths, self._settings.memory_toolchain_dir)
        keep = self._protections
        proc = toolchain.proc if keep.masked_proc else ()
        # Everything of the host that the box sees, each with how.
        binds = [(bind, "--ro-bind") for bind in (*toolchain.binds, *proc, *grant.binds, BindMount(source=link_dir, target=LINK))]
        if grant.devices:
            binds += [(SYS, "--ro-bind"), *((device, DEVICE_BIND) for device in grant.devices)]
        places = ((spec.src_dir, SRC, "--ro-bind"), (spec.tool_dir, str(spec.tool_dir), "--ro-bind"), (spec.out_dir, OUT, "--bind"))
        binds += [(BindMount(source=source, target=target), how) for source, target, how in places if source is not None]
        binds += [(BindMount(source=Path(source), target=target), "--ro-bind") for source, target in keep.extra_binds]
        sources = [str(bind.source) for bind, _ in binds]
        paths = {"python": toolchain.python, "lib": LIB, "link": LINK, "src": SRC, "out": OUT}
        # Counted in the box's own user namespace, so the host's processes of the same uid do not count (Linux 5.14).
        count = None if limited or not keep.process_limit else spec.limits.process_count
        limits = launch.rlimits(spec.limits, process_count=count) if keep.rlimits else {}
        inside = launch.environment(spec, toolchain.path, grant=grant)
        outer = [program, "--die-with-parent", "--new-session", "--unshare-user", "--unshare-uts", "--unshare-cgroup-try"]
        outer += ["--unshare-net"] if keep.own_network else []
        outer += ["--unshare-pid", "--as-pid-1"] if keep.own_pids else []
        outer += ["--unshare-ipc"] if keep.own_ipc else []
        outer += ["--cap-drop", "ALL"] if keep.drop_capabilities else ["--cap-add", "ALL"]
        if keep.no_nested_namespaces:
            if not self._options:
                help_run = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=HELP_TIMEOUT_S, check=False)
                self._options = help_run.stdout + help_run.stderr
            outer += ["--disable-userns"] if "--disable-userns" in self._options else []
        outer += ["--hostname", "box", *self._mounts(spec, toolchain, binds)]
        outer += [] if descriptor is None else ["--seccomp", str(descriptor)]
        variables = [word for name, value in inside.items() for word in ("--setenv", name, value)]
        outer += ["--clearenv", *variables, "--chdir", "/tmp"]
        tmp = {"bytes": spec.limits.tmp_bytes, "inodes": TMP_INODE_COUNT, "executable": int(spec.purpose is not Purpose.RUN)}
        return host_box.Launch(
            argv=lambda entered, status: [
                *outer,
                "--json-status-fd",
                str(status),
                "--",
                *launch.command(spec, paths, limited=limits, entered=entered),
            ],
            environment={"PATH": toolchain.path, **processes.labels(self._settings, spec.box_id)},
            uid=uid,
            own_uid=self._root and keep.own_uid,
            binds=sources if self._root else (),
            tmp=tmp if keep.tmp_limit else None,
            descriptors=() if descriptor is None else (descriptor,),
            watch_memory=keep.memory_limit,
            watch_count=keep.process_limit,
        )

    def _mounts(self, spec: BoxSpec, toolchain: Toolchain, binds: list[tuple[BindMount, str]]) -> list[str]:
        # First what may lie below a bind: the checkout, or Python, can be somewhere in /tmp.
        if not self._protections.tmp_limit:
            words = ["--tmpfs", "/tmp"]
        else:
            words = ["--bind", f"{STAGE}/tmp", "/tmp"] if self._root else ["--size", str(spec.limits.tmp_bytes), "--tmpfs", "/tmp"]
        placed: dict[bool, list[str]] = {False: [], True: []}  # by whether it goes over the box's own /dev and /proc
        for number, (bind, how) in enumerate(binds):
            over = how == DEVICE_BIND or bind in toolchain.proc
            placed[over] += [how, f"{STAGE}/{number}" if self._root else str(bind.source), bind.target]
        words += placed[False]
        for path in toolchain.hidden:
            words += ["--size", str(COVER_BYTES), "--perms", "0555", "--tmpfs", path, "--remount-ro", path]
        words += ["--proc", "/proc", "--dev", "/dev"]
        words += ["--size", str(SHM_BYTES[spec.purpose])] if self._protections.shm_limit else []
        words += ["--tmpfs", "/dev/shm", *placed[True]]
        if self._protections.masked_proc:
            # Without a GPU there is no /sys at all.
            masked = [path for path in MASKED_PATHS if path.startswith("/proc/")] if spec.gpu is None else [*MASKED_PATHS, *SYS_COVERED]
            for path in masked:
                if Path(path).is_dir():
                    words += ["--size", str(COVER_BYTES), "--perms", "0555", "--tmpfs", path, "--remount-ro", path]
                elif Path(path).exists():
                    words += ["--ro-bind", "/dev/null", path]
        return [*words, "--remount-ro", "/dev", "--remount-ro", "/"] if self._protections.read_only_root else words
