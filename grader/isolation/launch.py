"""Builds what a box is started with: its command, rlimits, environment, and a container in the engine's words.  Starts nothing."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from grader.isolation import LIB, LINK, OUT, SRC, BoxSpec, Limits, Purpose
from grader.isolation.directories import slot_uid
from grader.isolation.gpu import NOTHING, Grant
from grader.isolation.settings import BoxSettings, Protections
from grader.isolation.toolchain import OWN_PROC, BindMount, Toolchain
from sandbox.protocol import box_modules

STACK_BYTES = 64 << 20
PENDING_SIGNAL_COUNT = 128
# -S: no site, so no `.pth` file of the environment runs before the box's limits are set.
BOOT = "import sys; sys.path[:0] = {lib!r}.split(':'); from sandbox.box_init import main; main()"


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
    spec: BoxSpec, paths: Mapping[str, str], *, limited: Mapping[str, int], stdio: str | None = None, entered: int | None = None
) -> list[str]:
    """Return the argv that starts a box, with every {name} of the spec's argv filled in."""
    config = json.dumps({"stdio": stdio, "entered": entered, "rlimits": dict(limited)})
    boot = BOOT.format(lib=paths["lib"])
    return [paths["python"], "-I", "-S", "-B", "-c", boot, config, *(filled(word, paths) for word in spec.argv)]


def filled(word: str, paths: Mapping[str, str]) -> str:
    """Put the paths of a box into one word; other braces stay."""
    for name, path in paths.items():
        word = word.replace("{" + name + "}", path)
    return word


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
        **box_modules.variable(),
    }
    return {**fixed, **dict(grant.environment), **dict(spec.environment)}


STATE_LABEL, SERVER_LABEL, BOX_LABEL = "grader.state", "grader.server", "grader.box"
STDIO_NAME = "stdio.sock"
SHM_BYTES = {Purpose.BUILD: 16 << 20, Purpose.RUN: 64 << 20, Purpose.CHECK: 64 << 20}
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


def host_options(
    spec: BoxSpec, toolchain: Toolchain, link_dir: Path, protections: Protections, seccomp_text: str, grant: Grant = NOTHING
) -> dict[str, Any]:
    """Return the keyword arguments of the SDK's `create_host_config`."""
    proc = toolchain.proc if protections.masked_proc else ()
    readonly = [*toolchain.binds, *proc, *grant.binds, BindMount(source=link_dir, target=LINK)]
    if spec.src_dir is not None:
        readonly.append(BindMount(source=spec.src_dir, target=SRC))
    if spec.tool_dir is not None and toolchain.binds:
        readonly.append(BindMount(source=spec.tool_dir, target=str(spec.tool_dir)))
    binds = [f"{bind.source}:{bind.target}:ro" for bind in readonly]
    if spec.out_dir is not None:
        binds.append(f"{spec.out_dir}:{OUT}:rw")
    binds += [f"{source}:{target}:ro" for source, target in protections.extra_binds]
    scratch = "mode=1777,nosuid,nodev," + ("noexec" if spec.purpose is Purpose.RUN else "exec")
    if protections.tmp_limit:
        scratch += f",size={spec.limits.tmp_bytes},nr_inodes={TMP_INODE_COUNT}"
    covers = dict.fromkeys(toolchain.hidden, "ro,size=4k,nr_inodes=1,mode=0555,nosuid,nodev,noexec")
    # The SDK passes the profile's text; a path would not be read.
    security = ["no-new-privileges:true"] if protections.no_new_privileges else []
    security.append(f"seccomp={seccomp_text if protections.seccomp else 'unconfined'}")
    options: dict[str, Any] = {
        "binds": binds,
        "tmpfs": {"/tmp": scratch, **covers},
        "network_mode": "none" if protections.own_network else "host",
        "pid_mode": None if protections.own_pids else "host",
        "ipc_mode": "private" if protections.own_ipc else "host",
        "read_only": protections.read_only_root,
        "cap_drop": ["ALL"] if protections.drop_capabilities else [],
        "security_opt": security,
        "oom_score_adj": 900,
        "init": False,
        "log_config": {"Type": "none", "Config": {}},
        "restart_policy": {"Name": "no"},
    }
    if protections.memory_limit:
        options |= {"mem_limit": spec.limits.memory_bytes, "memswap_limit": spec.limits.memory_bytes}
    if spec.gpu is not None:
        options["cpuset_cpus"] = ",".join(map(str, cores_for_boxes(os.sched_getaffinity(0))))
    if protections.process_limit:
        options["pids_limit"] = spec.limits.process_count
    if protections.own_ipc and protections.shm_limit:
        options["shm_size"] = SHM_BYTES[spec.purpose]
    if protections.rlimits:
        options["ulimits"] = [
            # Both limits: without the hard one the engine is sent 0 and the box does not start.
            {"Name": name.removeprefix("RLIMIT_").lower(), "Soft": value, "Hard": value}
            for name, value in rlimits(spec.limits, process_count=None).items()
        ]
    if grant.devices:
        # To read and write, and so to ioctl; never to make nodes.
        options["devices"] = [f"{device.source}:{device.target}:rw" for device in grant.devices]
    if grant.requests:
        options["device_requests"] = [dict(request) for request in grant.requests]
    return options


def mask_paths(host_config: dict[str, Any], spec: BoxSpec, toolchain: Toolchain, protections: Protections) -> None:
    """Set what the SDK has no keyword for: among it, what a box must not see of /proc and /sys. Only a GPU's driver needs /sys."""
    # A box from an image has no files of ours; torch needs its cores.
    unparsed = [] if toolchain.proc else [f"/proc/{name}" for name in OWN_PROC if name != "cpuinfo"]
    paths = [*MASKED_PATHS, *unparsed]
    if spec.gpu is None:
        paths = [*(path for path in paths if path.startswith("/proc/")), "/sys"]
    host_config["CgroupnsMode"] = "private"
    host_config["MaskedPaths"] = paths if protections.masked_proc else []
    host_config["ReadonlyPaths"] = list(READONLY_PATHS) if protections.masked_proc else []


def create_options(
    spec: BoxSpec, toolchain: Toolchain, settings: BoxSettings, image: str, protections: Protections, grant: Grant = NOTHING
) -> dict[str, Any]:
    """Return the keyword arguments of the SDK's `create_container`, but for the host configuration."""
    uid = slot_uid(spec.slot, spec.purpose) if protections.own_uid else 0
    paths = {"python": toolchain.python, "lib": LIB, "link": LINK, "src": SRC, "out": OUT}
    limited = rlimits(spec.limits, process_count=None) if protections.rlimits else {}
    return {
        "image": image,
        # One of its own for each start: an engine under load may not have forgotten the box before, which was replaced.
        "name": f"grader-{settings.run_id}-{spec.box_id}-{secrets.token_hex(3)}",
        "command": command(spec, paths, stdio=f"{LINK}/{STDIO_NAME}", limited=limited),
        "entrypoint": [],
        "user": f"{uid}:{uid}",
        "hostname": "box",
        "working_dir": "/",  # `enter` goes to HOME; the engine would make a directory of its own mode
        "environment": environment(spec, toolchain.path, grant=grant),
        "labels": {STATE_LABEL: settings.state_id, SERVER_LABEL: settings.run_id, BOX_LABEL: spec.box_id},  # for `sweep`
        "stdin_open": False,
        "tty": False,
        "detach": True,
    }


def cores_for_boxes(cores: Collection[int]) -> tuple[int, ...]:
    """Return the cores, in order, that the run box of a GPU may use of the server's; all of them on a small host."""
    ordered = sorted(cores)
    return tuple(ordered if len(ordered) < FEWEST_CORES else ordered[len(ordered) // CORE_SHARE :])
