"""Builds what a box is started with: its command, rlimits, environment, and a container as the engine's API has it.  Starts nothing."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.isolation import LIB, LINK, OUT, SRC, BoxSpec, GpuAccess, Limits, Purpose
from grader.isolation.directories import slot_uid
from grader.isolation.gpu import NOTHING, Grant
from grader.isolation.settings import BoxSettings, Protections
from grader.isolation.toolchain import OWN_PROC, BindMount, Toolchain
from sandbox.protocol import box_modules
from sandbox.protocol.toolkit import CUTLASS_VARIABLE

PLACES = {"lib": LIB, "link": LINK, "src": SRC, "out": OUT}
STACK_BYTES = 64 << 20
PENDING_SIGNAL_COUNT = 128
YIELDING_NICENESS, YIELDING_SHARES = 10, 110  # of the usual 1,024; the kernel gives that niceness the same
# -S: no site, so no `.pth` file of the environment runs before the box's limits are set.
BOOT = "import sys; sys.path[:0] = {lib!r}.split(':'); from sandbox.{module} import main; main()"


def niceness(spec: BoxSpec, settings: BoxSettings) -> int:
    """Return the niceness of a box's processes: above 0 where it gives way to the judge of a GPU and to the boxes beside it."""
    return YIELDING_NICENESS if settings.yields_cores and spec.gpu is None and spec.purpose is not Purpose.BUILD else 0


def rlimits(limits: Limits, *, process_count: int | None) -> dict[str, int]:
    """Return the rlimits of a box's command.  No RLIMIT_AS and no RLIMIT_DATA: CUDA reserves a huge address range."""
    chosen = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_file_count,
        "RLIMIT_CPU": max(1, math.ceil(limits.cpu_s)),
        "RLIMIT_STACK": STACK_BYTES,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": PENDING_SIGNAL_COUNT,
    }
    return chosen if process_count is None else {**chosen, "RLIMIT_NPROC": process_count}


def command(
    spec: BoxSpec,
    paths: Mapping[str, str],
    *,
    limited: Mapping[str, int],
    stdio: str | None = None,
    entered: int | None = None,
    exit_pipe: int | None = None,
) -> list[str]:
    """Return the argv that starts a box, with every {name} of the spec's argv filled in. exit_pipe: of a box whose command is forked."""
    start = [paths["python"], "-I", "-S", "-B", "-c"]
    if exit_pipe is not None:
        return [*start, BOOT.format(lib=paths["lib"], module="fork_init"), str(entered), str(exit_pipe)]
    config = json.dumps({"stdio": stdio, "entered": entered, "rlimits": dict(limited)})
    return [*start, BOOT.format(lib=paths["lib"], module="box_init"), config, *(filled(word, paths) for word in spec.argv)]


def filled(word: str, paths: Mapping[str, str]) -> str:
    """Put the paths of a box into one word; other braces stay."""
    for name, path in paths.items():
        word = word.replace("{" + name + "}", path)
    return word


def waiting(gpu: GpuAccess | None) -> dict[str, str]:
    """Return how threads of OpenMP wait, alike in judge, baseline and box. Where the host's cores run kernels they sleep: spinning for
    milliseconds after each operation of torch took half of a judge's time, from the kernel's cores."""
    return {"OMP_WAIT_POLICY": "PASSIVE"} if gpu is None else {}


def environment(spec: BoxSpec, path: str, home: str = "/tmp", *, grant: Grant = NOTHING) -> dict[str, str]:
    """Return the whole environment of a box; nothing of the server's gets in."""
    fixed = {
        "PATH": path,
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "USER": "job",  # torch asks for a name, and the uid has none
        "LOGNAME": "job",
        "OMP_NUM_THREADS": "1" if spec.purpose is Purpose.BUILD else "2",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "CCACHE_DISABLE": "1",
        "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent",
        "NVIDIA_VISIBLE_DEVICES": "void",
        **{name: os.environ[name] for name in (CUTLASS_VARIABLE,) if name in os.environ},
        **waiting(spec.gpu),
        **box_modules.variable(),
    }
    return {**fixed, **dict(grant.environment), **dict(spec.environment)}


def binds(spec: BoxSpec, toolchain: Toolchain, link_dir: Path, protections: Protections, grant: Grant) -> list[BindMount]:
    """Return what of the host's files a box with a root of its own sees."""
    tool_dir = spec.tool_dir if toolchain.binds else None  # an image has its own
    places = ((link_dir, LINK), (spec.src_dir, SRC), (tool_dir, str(tool_dir)))
    return [
        *toolchain.binds,
        *(toolchain.proc if protections.masked_proc else ()),
        *grant.binds,
        *(BindMount(source=source, target=target) for source, target in places if source is not None),
        *(() if spec.out_dir is None else (BindMount(source=spec.out_dir, target=OUT, writable=True),)),
        *(BindMount(source=Path(source), target=target) for source, target in protections.extra_binds),
    ]


STATE_LABEL, SERVER_LABEL, BOX_LABEL = "grader.state", "grader.server", "grader.box"
STDIO_NAME = "stdio.sock"
SHM_BYTES = {Purpose.BUILD: 16 << 20, Purpose.RUN: 64 << 20, Purpose.CHECK: 64 << 20, Purpose.FORK: 64 << 20}
TMP_INODE_COUNT = 20_000
# Setting these replaces the engine's own lists, so those are repeated. Most of the others count what the whole host does, which boxes that
# live at the same time would tell each other by. Those that programs parse are files of our own (`toolchain.OWN_PROC`).
MASKED_PATHS = (
    "/proc/acpi", "/proc/asound", "/proc/buddyinfo", "/proc/cgroups", "/proc/diskstats", "/proc/fs", "/proc/interrupts", "/proc/irq",
    "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/latency_stats", "/proc/locks", "/proc/mdstat", "/proc/modules",
    "/proc/pagetypeinfo", "/proc/partitions", "/proc/pressure", "/proc/sched_debug", "/proc/schedstat", "/proc/scsi", "/proc/slabinfo",
    "/proc/softirqs", "/proc/swaps", "/proc/sys/fs/aio-nr", "/proc/sys/fs/dentry-state", "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr",
    "/proc/sys/fs/inode-state", "/proc/sys/fs/quota", "/proc/sys/kernel/pty/nr", "/proc/sys/kernel/random/entropy_avail",
    "/proc/timer_list", "/proc/timer_stats", "/proc/vmstat", "/proc/zoneinfo",
    *(f"/sys/devices/system/node/node{node}/{name}" for node in range(16) for name in ("meminfo", "numastat", "vmstat")),
    "/sys/devices/virtual", "/sys/firmware", "/sys/fs", "/sys/kernel",
)  # fmt: skip
# A kernel that fills every core would make each turn of the judge's clock wait for one (cheating F2).
CORE_SHARE = 4  # one core of so many is kept for judges, baselines and the server
FEWEST_CORES = 8  # on fewer cores than this nothing is kept
READONLY_PATHS = ("/proc/bus", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRoot:
    """Parts of every container of a server. image: its id; seccomp_text: the profile, for a path would not be read."""

    toolchain: Toolchain
    image: str
    seccomp_text: str


def container(
    spec: BoxSpec, root: ContainerRoot, settings: BoxSettings, link_dir: Path, protections: Protections, grant: Grant = NOTHING
) -> dict[str, Any]:
    """Return a container as the engine's API has it."""
    toolchain, limits = root.toolchain, spec.limits
    uid = slot_uid(spec.slot, spec.purpose) if protections.own_uid else 0
    limited = rlimits(limits, process_count=None) if protections.rlimits else {}
    scratch = "mode=1777,nosuid,nodev," + ("noexec" if spec.purpose is Purpose.RUN else "exec")
    if protections.tmp_limit:
        scratch += f",size={limits.tmp_bytes},nr_inodes={TMP_INODE_COUNT}"
    covers = dict.fromkeys(toolchain.hidden, "ro,size=4k,nr_inodes=1,mode=0555,nosuid,nodev,noexec")
    mounts = binds(spec, toolchain, link_dir, protections, grant)
    host: dict[str, Any] = {
        "Binds": [f"{bind.source}:{bind.target}:{'rw' if bind.writable else 'ro'}" for bind in mounts],
        "Tmpfs": {"/tmp": scratch, **covers},
        "NetworkMode": "none" if protections.own_network else "host",
        "PidMode": "" if protections.own_pids else "host",
        "IpcMode": "private" if protections.own_ipc else "host",
        "CgroupnsMode": "private",
        "ReadonlyRootfs": protections.read_only_root,
        "CapDrop": ["ALL"] if protections.drop_capabilities else [],
        "SecurityOpt": [
            *(["no-new-privileges:true"] if protections.no_new_privileges else []),
            f"seccomp={root.seccomp_text if protections.seccomp else 'unconfined'}",
        ],
        "MaskedPaths": _masked_paths(spec, toolchain) if protections.masked_proc else [],
        "ReadonlyPaths": list(READONLY_PATHS) if protections.masked_proc else [],
        "OomScoreAdj": 900,
        "Init": False,
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no"},
        # Both limits: without the hard one the engine is sent 0 and the box does not start.
        "Ulimits": [{"Name": name.removeprefix("RLIMIT_").lower(), "Soft": value, "Hard": value} for name, value in limited.items()],
        # To read and write, and so to ioctl; never to make nodes.
        "Devices": [{"PathOnHost": str(node.source), "PathInContainer": node.target, "CgroupPermissions": "rw"} for node in grant.devices],
    }
    if niceness(spec, settings):
        host["CpuShares"] = YIELDING_SHARES
    if protections.memory_limit:
        host |= {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    if spec.gpu is not None:
        host["CpusetCpus"] = ",".join(map(str, cores_for_boxes(os.sched_getaffinity(0))))
    if protections.process_limit:
        host["PidsLimit"] = limits.process_count
    if protections.own_ipc and protections.shm_limit:
        host["ShmSize"] = SHM_BYTES[spec.purpose]
    return {
        "Image": root.image,
        "Cmd": command(spec, {"python": toolchain.python, **PLACES}, stdio=f"{LINK}/{STDIO_NAME}", limited=limited),
        "Entrypoint": [],
        "User": f"{uid}:{uid}",
        "Hostname": "box",
        "WorkingDir": "/",  # `enter` goes to HOME; the engine would make a directory of its own mode
        "Env": [f"{name}={value}" for name, value in environment(spec, toolchain.path, grant=grant).items()],
        "Labels": {STATE_LABEL: settings.state_id, SERVER_LABEL: settings.run_id, BOX_LABEL: spec.box_id},  # for `sweep`
        "HostConfig": host,
    }


def _masked_paths(spec: BoxSpec, toolchain: Toolchain) -> list[str]:
    """Return what a container must not see of /proc and /sys. Only a GPU's driver needs /sys."""
    # A box from an image has no files of ours; torch needs its cores.
    unparsed = [] if toolchain.proc else [f"/proc/{name}" for name in OWN_PROC if name != "cpuinfo"]
    paths = [*MASKED_PATHS, *unparsed]
    return paths if spec.gpu is not None else [*(path for path in paths if path.startswith("/proc/")), "/sys"]


def cores_for_boxes(cores: Collection[int]) -> tuple[int, ...]:
    """Return the cores, in order, that the run box of a GPU may use of the server's; all of them on a small host."""
    ordered = sorted(cores)
    return tuple(ordered if len(ordered) < FEWEST_CORES else ordered[len(ordered) // CORE_SHARE :])
