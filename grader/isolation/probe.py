"""Tries an isolation for real: one trivial box, and one that starts the CUDA driver on a GPU."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace

from grader.isolation import BoxExit, BoxSpec, GpuAccess, Isolation, IsolationBroken, Limits, Purpose
from grader.isolation.directories import hold_slot, shared_slot_directory
from sandbox.protocol.version import VERSION
from sandbox.protocol.wire import BoxCause

WITHIN_S = 20.0
LIMITS = Limits(
    wall_s=10.0,
    cpu_s=10.0,
    memory_bytes=256 << 20,
    process_count=16,
    output_bytes=65536,
    file_bytes=65536,
    tmp_bytes=1 << 20,
    open_file_count=64,
)
PRINT_VERSION = """
import sys
sys.path.insert(0, sys.argv[1])
from importlib.util import find_spec
from sandbox.protocol.box_modules import box_modules
from sandbox.protocol.version import VERSION
for module in box_modules().values():
    if find_spec(module) is None:
        raise ModuleNotFoundError(module)
print(VERSION)
"""
GREETING = "grader box works"
GPU_WITHIN_S = 60.0  # a driver without persistence mode wakes the GPU first
GPU_LIMITS = replace(LIMITS, wall_s=50.0, cpu_s=50.0, memory_bytes=4 << 30, process_count=128, file_bytes=64 << 20, open_file_count=1024)
# cuInit and a context: that is all the nodes, and the libraries of the right version.
GPU_TRIAL = f"""
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        raise SystemExit(f"{{name}} says {{code}}")
count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
if count.value != 1:
    raise SystemExit(f"{{count.value}} GPUs are visible, not one")
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
print({GREETING!r})
"""


async def failure(isolation: Isolation, gpu: GpuAccess | None = None) -> str | None:
    """Return why a trivial box does not work, or a box with this GPU; None if it does."""
    if gpu is None:
        name, ended = "a trivial box", await _tried(isolation, f"print({GREETING!r})", LIMITS, WITHIN_S, None)
    else:
        name, ended = "a box with this GPU", await _tried(isolation, GPU_TRIAL, GPU_LIMITS, GPU_WITHIN_S, gpu)
    if isinstance(ended, str):
        return ended
    if ended.cause is BoxCause.EXITED and ended.exit_code == 0 and GREETING.encode() in ended.output:
        return None
    return f"{name} ended as {ended.cause}, exit code {ended.exit_code}: {ended.output.decode(errors='replace').strip()[-300:]}"


async def outdated(isolation: Isolation) -> str | None:
    """Return how the copy of `sandbox` that boxes see differs from ours; None if it does not."""
    ended = await _tried(isolation, PRINT_VERSION, LIMITS, WITHIN_S, None, "{lib}")
    if isinstance(ended, str):
        return ended
    version = ended.output.decode(errors="replace").strip()
    if ended.exit_code == 0 and version == VERSION:
        return None
    difference = f"speaks protocol {version[-16:]!r}" if ended.exit_code == 0 else "does not know its protocol"
    return f"the copy of the grader in the boxes' image {difference}, and this server {VERSION!r}; build the image from this version"


async def _tried(
    isolation: Isolation, source: str, limits: Limits, within_s: float, gpu: GpuAccess | None, *arguments: str
) -> BoxExit | str:
    try:
        with hold_slot(shared_slot_directory()) as slot:
            spec = BoxSpec(
                box_id=f"check-{secrets.token_hex(4)}",
                purpose=Purpose.RUN,
                argv=("{python}", "-I", "-S", "-c", source, *arguments),
                limits=limits,
                slot=slot,
                gpu=gpu,
            )
            async with asyncio.timeout(within_s), isolation.start(spec) as box:
                return await box.wait()
    except (IsolationBroken, OSError, TimeoutError) as error:
        return str(error) or f"no answer within {within_s:.0f} s"
