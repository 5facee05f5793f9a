"""Boxes made by bubblewrap: namespaces, our seccomp filter and a cgroup, for hosts without a container engine."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path

from grader.isolation import BoxSpec, IsolationBroken, Purpose, gpu, launch, processes
from grader.isolation.directories import slot_uid
from grader.isolation.forks import ForkParent, ForkParents
from grader.isolation.host_box import HostIsolation, Launch
from grader.isolation.launch import MASKED_PATHS, SHM_BYTES, TMP_INODE_COUNT
from grader.isolation.settings import BoxSettings, Protections
from grader.isolation.stage import STAGE
from grader.isolation.toolchain import BindMount, Toolchain, host_toolchain, profile, write_own_etc

PROGRAM = "bwrap"
DEVICE_BIND = "--dev-bind"
HELP_TIMEOUT_S = 10
NOT_INSTALLED = "bwrap is not installed; install the package bubblewrap"
COVER_BYTES = 4096
# Of a parent's first process, which keeps root's uid: to take other uids, and that its end is a signal to the parent, which has another.
FORK_RIGHTS = ("--cap-drop", "ALL", "--cap-add", "CAP_KILL", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETUID")
# Without /sys the driver does not start: cuInit says 304. Covered, so that what is left is what a container has.
SYS = BindMount(source=Path("/sys"), target="/sys")
SYS_COVERED = ("/sys/class/net",)


class BubblewrapIsolation(HostIsolation):
    """Makes boxes with bubblewrap."""

    NAME = "bubblewrap"
    SAFE = True
    KEPT_IN_BY = "namespaces, seccomp"

    def __init__(
        self, settings: BoxSettings, protections: Protections | None = None, find_driver: Callable[[int], gpu.DriverFiles] = gpu.find_driver
    ) -> None:
        super().__init__(settings, find_driver, protections)
        self._program = shutil.which(PROGRAM)
        self._options = ""
        self._root = os.geteuid() == 0
        self._parents = ForkParents(settings, self.start, self.fingerprint)

    def _refusal(self) -> str | None:
        return NOT_INSTALLED if self._program is None else super()._refusal()

    def _warnings(self) -> list[str]:
        if self._root:
            return []
        return [
            "boxes have your own uid on the host; start the server as root for one uid per slot",
            "the number of files in a box's /tmp is bounded by its memory only",
        ]

    def _launch(self, spec: BoxSpec, link_dir: Path, driver: gpu.DriverFiles | None, stack: ExitStack, *, limited: bool) -> Launch:
        if self._program is None:
            raise IsolationBroken(NOT_INSTALLED)
        write_own_etc(self._settings.etc_directory)
        memory_toolchain_dir = self._settings.memory_toolchain_dir
        toolchain = host_toolchain(self._settings.etc_directory, self._settings.hidden_paths, memory_toolchain_dir)
        grant = gpu.NOTHING if spec.gpu is None or driver is None else gpu.plain(spec.gpu, driver, memory_toolchain_dir)
        keep = self._keep(spec)
        # Everything of the host that the box sees, each with how.
        binds = [(bind, "--bind" if bind.writable else "--ro-bind") for bind in launch.binds(spec, toolchain, link_dir, keep, grant)]
        if grant.devices:
            binds += [(SYS, "--ro-bind"), *((device, DEVICE_BIND) for device in grant.devices)]
        paths = {"python": toolchain.python, **launch.PLACES}
        # Counted in the box's own user namespace, so the host's processes of the same uid do not count (Linux 5.14).
        count = None if limited or not keep.process_limit else spec.limits.process_count
        limits = launch.rlimits(spec.limits, process_count=count) if keep.rlimits else {}
        outer = [self._program, "--die-with-parent", "--new-session", "--unshare-uts", "--unshare-cgroup-try"]
        outer += ["--unshare-net"] if keep.own_network else []
        outer += ["--unshare-ipc"] if keep.own_ipc else []
        if spec.purpose is Purpose.FORK:  # its children take a box's uid, and then enter a box's namespaces, which are below its own
            outer += FORK_RIGHTS
        else:
            outer += ["--unshare-user", *(["--unshare-pid", "--as-pid-1"] if keep.own_pids else [])]
            outer += ["--cap-drop", "ALL"] if keep.drop_capabilities else ["--cap-add", "ALL"]
        if keep.no_nested_namespaces:
            if not self._options:
                help_run = subprocess.run([self._program, "--help"], capture_output=True, text=True, timeout=HELP_TIMEOUT_S, check=False)
                self._options = help_run.stdout + help_run.stderr
            outer += ["--disable-userns"] if "--disable-userns" in self._options else []
        outer += ["--hostname", "box", *self._mounts(spec, toolchain, binds)]
        descriptors = []
        seccomp = profile("seccomp.bpf").read_bytes() if keep.seccomp else b""
        if seccomp:
            descriptors.append(os.memfd_create("seccomp", os.MFD_CLOEXEC))
            stack.callback(os.close, descriptors[0])
            os.write(descriptors[0], seccomp)
            os.lseek(descriptors[0], 0, os.SEEK_SET)
            outer += ["--seccomp", str(descriptors[0])]
        inside = launch.environment(spec, toolchain.path, grant=grant)
        outer += ["--clearenv", *(word for name, value in inside.items() for word in ("--setenv", name, value)), "--chdir", "/tmp"]
        tmp = {"bytes": spec.limits.tmp_bytes, "inodes": TMP_INODE_COUNT, "executable": int(spec.purpose is not Purpose.RUN)}
        return Launch(
            argv=lambda entered, status, exit_pipe: [
                *(*outer, "--json-status-fd", str(status), "--"),
                *launch.command(spec, paths, limited=limits, entered=entered, exit_pipe=exit_pipe),
            ],
            environment={"PATH": toolchain.path, **processes.labels(self._settings, spec.box_id)},
            uid=slot_uid(spec.slot, spec.purpose) if self._root and keep.own_uid else os.geteuid(),
            binds=[str(bind.source) for bind, _ in binds] if self._root else (),
            tmp=tmp if keep.tmp_limit else None,
            descriptors=descriptors,
            niceness=launch.niceness(spec, self._settings),
            confinement={
                "rlimits": limits,
                "drop_capabilities": keep.drop_capabilities,
                "seccomp": base64.b64encode(seccomp).decode(),
            },
        )

    def _parent(self, spec: BoxSpec) -> AbstractAsyncContextManager[ForkParent | None]:
        keep = self._protections
        separate = keep.own_uid and keep.own_pids and keep.own_ipc and keep.own_network
        return self._parents.hold(spec) if spec.fork_argv and self._root and separate else super()._parent(spec)

    async def adopt(self, memory_toolchain_dir: Path, fingerprint: str) -> None:
        await super().adopt(memory_toolchain_dir, fingerprint)
        self._parents.retire()

    async def close(self) -> None:
        await self._parents.close()
        await super().close()

    def _mounts(self, spec: BoxSpec, toolchain: Toolchain, binds: list[tuple[BindMount, str]]) -> list[str]:
        # First what may lie below a bind: the checkout, or Python, can be somewhere in /tmp.
        if not self._protections.tmp_limit:
            words = ["--tmpfs", "/tmp"]
        else:
            words = ["--bind", f"{STAGE}/tmp", "/tmp"] if self._root else ["--size", str(spec.limits.tmp_bytes), "--tmpfs", "/tmp"]
        if spec.purpose is Purpose.FORK:  # without one of its own, directories above a bind would be open to root only
            above = {str(path) for bind, _ in binds for path in Path(bind.target).parents[:-1]}
            words += [word for path in sorted(above) for word in ("--dir", path)]
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
            # By clear_refs a box would mark pages that all boxes map. CUDA does not start without writing to /proc (304).
            words += ["--remount-ro", "/proc"] if spec.gpu is None else []
        return [*words, "--remount-ro", "/dev", "--remount-ro", "/"] if self._protections.read_only_root else words
