"""The cuda device: a real GPU, the only one that the process sees.

Arenas are allocations of the driver's virtual memory management, handed on as file descriptors: legacy CUDA IPC wants one uid and one pid
namespace for both sides. Every call is in the device's primary context, which is torch's too.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from cuda.bindings import driver

from sandbox.devices import POISON_BYTE, Arena, Device, DeviceFault, ForeignUsage, ceilings, driver_result
from sandbox.devices.clock import EVICT_BYTES, SHIFT_COUNT, NativeClock
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind, device_info
from sandbox.protocol.gate import ARENA_FINISHED_AT, ARENA_FLAG_BYTES, SAMPLE_LIMIT, span

if TYPE_CHECKING:
    from sandbox.devices.nvml import GpuWatch

STIR_COUNT = 16
STIR_LIMIT_BYTES = 64 << 20
EMPTY_CHANCE = 0.7
STIR_SHARE = 0.25  # of what is free: the kernel needs some
WARMUP_MS = 25
RESERVE_SHARE = 0.4
LEVEL_PARTS = 128  # of the device's memory: so round is what a kernel sees free
CANARY_LIMIT_NS = 50_000_000  # a kernel that is still running elsewhere takes time slices of tens of ms
SETTLE_S = 10.0  # the driver takes a moment to take down what a killed process had
LEAK_BYTES = 512 << 20
PROBE_SOURCE = Path(__file__).parents[1] / "native" / "clock" / "probe.cu"
TENSOR_LIMIT = 64
SPAN_LIMIT = 64  # the largest; what a kernel takes as arguments is 4 KB
BLOCK_SIZE, BLOCKS_PER_PROCESSOR, VECTOR_BYTES = 256, 8, 16
Spans = Sequence[tuple[int, int]]  # addresses, and sizes in bytes
_STREAMS_WAIT = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
_HANDLE = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


class CudaArena:
    """Device memory that two processes see."""

    def __init__(self, fd: int, size_bytes: int, handle: Any) -> None:
        self.fd, self.size_bytes, self._mapped_bytes = fd, size_bytes - ARENA_FLAG_BYTES, size_bytes
        self._handle = handle
        self._tensors: dict[tuple[object, ...], torch.Tensor] = {}
        self._pointer = driver_result(driver.cuMemAddressReserve(size_bytes, 0, 0, 0))
        self._base = int(self._pointer)
        self.published = self._base + self.size_bytes
        self.finished = self.published + ARENA_FINISHED_AT
        driver_result(driver.cuMemMap(self._pointer, size_bytes, 0, handle, 0))
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = 0
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        driver_result(driver.cuMemSetAccess(self._pointer, size_bytes, [access], 1))

    def address(self, offset: int) -> int:
        return self._base + offset

    def tensor(self, offset: int, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] = ()) -> torch.Tensor:
        """A tensor over these bytes, whose storage ends where it does; contiguous without strides. The last are kept: where scalars are
        late, a launch binds its tensors again, inside the clock."""
        kind: torch.dtype = getattr(torch, dtype)
        count, key = span(shape, strides), (offset, dtype, shape, strides)
        if count == 0:
            return torch.empty(shape, dtype=kind, device="cuda")
        if key not in self._tensors:
            if len(self._tensors) >= TENSOR_LIMIT:
                self._tensors.clear()
            flat = torch.as_tensor(_Bytes(self._base + offset, count * kind.itemsize), device="cuda").view(kind)
            self._tensors[key] = flat.as_strided(shape, strides) if strides else flat.view(shape)
        return self._tensors[key]

    def close(self) -> None:
        """Unmap it here; the memory goes with its last holder."""
        self._tensors.clear()
        driver_result(driver.cuCtxSynchronize())
        driver_result(driver.cuMemUnmap(self._pointer, self._mapped_bytes))
        driver_result(driver.cuMemAddressFree(self._pointer, self._mapped_bytes))
        driver_result(driver.cuMemRelease(self._handle))
        os.close(self.fd)


class _Bytes:
    """Device memory, in the words that torch takes."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size_bytes,), "typestr": "|u1", "data": (address, False), "version": 3, "strides": None}


class _Memory(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("size_bytes", ctypes.c_uint64)]


class _MemoryList(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint64), ("items", _Memory * SPAN_LIMIT)]


class Probe:
    """The probe of the judge's clock: a kernel that reads all inputs and writes all outputs of a workload, and computes nothing;
    `sandbox/native/clock/probe.cu` says what for. For this architecture, such as sm_90, and so many processors. DeviceFault where it is
    not compiled."""

    def __init__(self, architecture: str, processor_count: int) -> None:
        from cuda.bindings import nvrtc

        self._block_limit = processor_count * BLOCKS_PER_PROCESSOR
        options = [f"--gpu-architecture={architecture}".encode(), f"-DSPAN_LIMIT={SPAN_LIMIT}".encode()]
        program = driver_result(nvrtc.nvrtcCreateProgram(PROBE_SOURCE.read_bytes(), b"probe.cu", 0, [], []))
        driver_result(nvrtc.nvrtcCompileProgram(program, len(options), options))
        binary = b" " * driver_result(nvrtc.nvrtcGetCUBINSize(program))
        driver_result(nvrtc.nvrtcGetCUBIN(program, binary))
        self._kernel = driver_result(driver.cuModuleGetFunction(driver_result(driver.cuModuleLoadData(binary)), b"probe"))

    def launch(self, read: Spans, written: Spans) -> None:
        """Launch it on the default stream; not waited for."""
        vector_count = sum(size_bytes for _, size_bytes in (*read, *written)) // VECTOR_BYTES
        grid = max(1, min(self._block_limit, -(-vector_count // BLOCK_SIZE)))
        arguments = (_spans(read), _spans(written), ctypes.c_void_p())
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        driver_result(driver.cuLaunchKernel(self._kernel, grid, 1, 1, BLOCK_SIZE, 1, 1, 0, 0, ctypes.addressof(pointers), 0))


def _spans(spans: Spans) -> _MemoryList:
    largest = sorted(spans, key=lambda span: -span[1])[:SPAN_LIMIT]
    return _MemoryList(count=len(largest), items=(_Memory * SPAN_LIMIT)(*(_Memory(*span) for span in largest)))


class CudaDevice(Device):
    """The GPU that CUDA_VISIBLE_DEVICES leaves."""

    KIND = DeviceKind.CUDA
    CLOCK = wire.Clock.DEVICE_EVENTS
    TORCH = device_info(KIND).torch_device
    HAS_PROFILER = True
    STIR_POISONS = True
    SPIN_NS = 5_000_000_000  # longer than the judge's work between two calls: a nap would be in the kernel's time
    NAP_NS = 50_000  # the native clock wakes nobody

    def __init__(self) -> None:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self._one = torch.zeros(1, device="cuda")  # makes the primary context, and current
        # A copy within the device, a fill, a copy from the host, and an event.
        word, two, event = torch.zeros(1), torch.zeros(2, device="cuda"), torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        first, second = two[:1], two[1:]
        self._small = partial(second.copy_, first), two.zero_, partial(first.copy_, word), event.record
        self.wait: Callable[[], int] = ctypes.CDLL("libcuda.so.1").cuCtxSynchronize  # the bindings take microseconds after it
        self._released = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.clock: NativeClock | None = None
        self._probe: Probe | None = None
        self._watch: GpuWatch | None = None
        self._known: frozenset[int] = frozenset()
        self._untold_bytes = 0
        self._ceilings: dict[str, float] = {}

    @staticmethod
    def foreign_usage() -> ForeignUsage:
        """Return the use of the GPU of CUDA_VISIBLE_DEVICES now; asked before this process has a context there."""
        from sandbox.devices.nvml import GpuWatch

        named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        if not named.startswith("GPU-"):
            return ForeignUsage()
        watch = GpuWatch(named)
        return ForeignUsage(pids=frozenset(watch.compute_pids()), untold_bytes=watch.untold_bytes())

    def create_arena(self, size_bytes: int) -> CudaArena:
        prop, size_bytes = _prop(), _rounded(size_bytes + ARENA_FLAG_BYTES)
        answer = driver.cuMemCreate(size_bytes, prop, 0)
        if answer[0] == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise torch.OutOfMemoryError(f"{size_bytes >> 20} MiB for tensors that two processes see")
        handle = driver_result(answer)
        fd = int(driver_result(driver.cuMemExportToShareableHandle(handle, _HANDLE, 0)))
        arena = CudaArena(fd, size_bytes, handle)
        # What another submission's had: nobody promises that the driver clears it between two of one process.
        driver_result(driver.cuMemsetD8(arena.address(0), 0, size_bytes))
        driver_result(driver.cuCtxSynchronize())
        return arena

    def attach_arena(self, fd: int, size_bytes: int) -> CudaArena:
        return CudaArena(fd, _rounded(size_bytes + ARENA_FLAG_BYTES), driver_result(driver.cuMemImportFromShareableHandle(fd, _HANDLE)))

    def hold(self, arena: Arena, number: int) -> None:
        """A wait on the default stream; what is launched on a stream that waits for it waits, too."""
        driver_result(driver.cuStreamWaitValue64(0, arena.published, number, driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ))
        self._released.record()

    def finish(self, arena: Arena, number: int) -> None:
        """A write on the default stream, behind all that it waits for."""
        driver_result(driver.cuStreamWriteValue64(0, arena.finished, number, driver.CUstreamWriteValue_flags.CU_STREAM_WRITE_VALUE_DEFAULT))

    def wait_for_inputs(self) -> None:
        """Spin: this is inside the clock."""
        while not self._released.query():  # type: ignore[no-untyped-call]
            pass

    def synchronize(self) -> None:
        driver_result(driver.cuCtxSynchronize())

    def launch_null(self) -> None:
        self._one.fill_(1.0)

    def touch(self, read: Sequence[tuple[int, int]], written: Sequence[tuple[int, int]]) -> None:
        if self._probe is None:
            properties = torch.cuda.get_device_properties(0)
            self._probe = Probe(f"sm_{properties.major}{properties.minor}", properties.multi_processor_count)
        self._probe.launch(read, written)

    def acquire_context(self) -> None:
        """By random numbers of the driver's small operations. How many there were before decides, in a cycle of four, how long those of
        the judge's turn take, by up to 2 us: a kernel whose turns always fall on one of the four looked slower or faster (record 0014)."""
        self.launch_null()
        for kind in (self.launch_null, *self._small):
            for _ in range(secrets.randbelow(SHIFT_COUNT)):
                kind()
        self.synchronize()

    def stir(self, seed: int, torch_allocator: bool, sizes: tuple[int, ...], libraries: Sequence[ctypes.CDLL]) -> None:
        """Leave NaN in blocks of these and of random sizes; where torch does not allocate for the kernel, they go back to the driver.
        Where it does, whatever its allocator has free is NaN then, and now and then what it keeps for the kernel's own streams is, too."""
        chance = random.Random(seed)
        if not torch_allocator or chance.random() < EMPTY_CHANCE:
            torch.cuda.empty_cache()
        wanted = [int(STIR_LIMIT_BYTES ** chance.uniform(0.3, 1.0)) for _ in range(STIR_COUNT)]
        wanted += [size + chance.randrange(0, 1 << 16) for size in sizes for _ in range(2)]
        room = int(STIR_SHARE * torch.cuda.mem_get_info()[0])
        wanted = [size for size, sofar in zip(wanted, itertools.accumulate(wanted), strict=True) if sofar < room]
        chance.shuffle(wanted)
        blocks = [torch.full((size + 1,), POISON_BYTE, dtype=torch.uint8, device="cuda") for size in wanted]
        chance.shuffle(blocks)
        self.synchronize()
        del blocks
        if torch_allocator:
            _poison_free_blocks()
        else:
            torch.cuda.empty_cache()

    def do_bench(self, run: Callable[[], object], budget_ns: int) -> tuple[int, ...]:
        """`triton.testing.do_bench` as it is, all its samples; at most SAMPLE_LIMIT of them, evenly taken."""
        from triton.testing import do_bench

        driver_result(driver.cuCtxResetPersistingL2Cache())
        times_ms = do_bench(run, warmup=WARMUP_MS, rep=budget_ns // 1_000_000, return_mode="all")
        step = -(-len(times_ms) // SAMPLE_LIMIT)
        return tuple(round(time_ms * 1e6) for time_ms in times_ms[::step])

    # -- the judge's side --------------------------------------------------------------------------------------------------

    def identify(self) -> wire.Environment:
        import triton

        identity = self._nvml().identity()
        major, minor = torch.cuda.get_device_capability()
        versions = {key: value for key, value in identity.items() if key not in ("name", "uuid")}
        versions |= {"cuda": str(torch.version.cuda), "triton": str(triton.__version__)}
        return wire.Environment(
            device=identity["name"],
            device_kind=self.KIND,
            clock=self.CLOCK,
            versions=versions,
            architecture=f"sm_{major}{minor}",
            device_uuid=identity["uuid"],
        )

    def source(self, key: str) -> _CudaPhilox:
        """torch's Philox, with a seed of 64 bits and a place in its sequence of 61."""
        return _CudaPhilox(key)

    def start_clock(self) -> None:
        """Make this process the judge; DeviceFault on a device whose streams can't wait for a value, which `hold` does."""
        if not driver_result(driver.cuDeviceGetAttribute(_STREAMS_WAIT, driver_result(driver.cuCtxGetDevice()))):
            raise DeviceFault("no 64-bit stream memory operations: its launches can't be made to wait for their inputs")
        self.clock = NativeClock(torch.empty(EVICT_BYTES, dtype=torch.uint8, device="cuda"))

    def reserve(self, size_bytes: int) -> None:
        """Take it, and leave it to torch's allocator."""
        free, total = torch.cuda.mem_get_info()
        have = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        size_bytes = min(size_bytes, int(RESERVE_SHARE * total), free)
        if size_bytes > have:
            torch.cuda.empty_cache()
            torch.empty(size_bytes, dtype=torch.uint8, device="cuda")

    def free_bytes(self) -> int | None:
        return int(torch.cuda.mem_get_info()[0])

    def release_cached_memory(self) -> None:
        torch.cuda.empty_cache()

    @contextmanager
    def round_free_memory(self) -> Iterator[None]:
        """Hold so much that what is free is a round number: a kernel can ask for it, and to the byte it would tell how large the hidden
        workloads are at which judge and baselines have worked."""
        free, total = torch.cuda.mem_get_info()
        spare = free % (total // LEVEL_PARTS >> 21 << 21)
        filler = driver_result(driver.cuMemAlloc(spare)) if spare else None
        try:
            yield
        finally:
            if filler is not None:
                driver_result(driver.cuMemFree(filler))

    def conditions(self, *names: str) -> dict[str, str]:
        return self._nvml().conditions(*names)

    def ceilings(self) -> dict[str, float]:
        """Measured in the first call."""
        if not self._ceilings:
            self._ceilings = ceilings.measure(self.TORCH)
        return self._ceilings

    def record_baseline_usage(self, before: ForeignUsage, record_path: Path | None) -> None:
        """Ours is what has begun since before; the rest is as the server's first judge saw it."""
        watch = self._nvml()
        own_pids = set(watch.compute_pids()) - before.pids
        # What the driver keeps for itself while there is a context shows only now.
        before = replace(before, untold_bytes=max(before.untold_bytes, watch.untold_bytes()))
        if record_path is not None and record_path.exists():
            sentence = json.loads(record_path.read_text("utf-8"))
            before = ForeignUsage(pids=frozenset(sentence["pids"]), untold_bytes=int(sentence["untold_bytes"]))
        elif record_path is not None:
            record_path.write_text(json.dumps({"pids": sorted(before.pids), "untold_bytes": before.untold_bytes}), "utf-8")
        self._known, self._untold_bytes = frozenset(own_pids | before.pids), before.untold_bytes

    def check(self, job_id: str) -> wire.Health:
        """Wait for strangers to leave; then a canary has to be right and quick."""
        if self.clock is not None:
            self.clock.forget_stage()
        torch.cuda.empty_cache()
        watch, deadline = self._nvml(), time.monotonic() + SETTLE_S
        while True:
            strangers = set(watch.compute_pids()) - self._known
            leaked = watch.untold_bytes() - self._untold_bytes
            took_ns = self._canary_ns()
            detail = ""
            if strangers:
                detail = f"processes {sorted(strangers)} are still on the device"
            elif leaked > LEAK_BYTES:
                detail = f"{leaked >> 20} MiB of the device's memory belong to no process"
            elif took_ns > CANARY_LIMIT_NS:
                detail = f"a tiny kernel took {took_ns / 1e6:.0f} ms"
            if not detail or time.monotonic() > deadline:
                return wire.Health(job_id=job_id, healthy=not detail, detail=detail)
            time.sleep(0.1)

    def _canary_ns(self) -> int:
        begun = time.perf_counter_ns()
        total = int(torch.arange(4096, device="cuda", dtype=torch.int64).square_().sum())
        took_ns = time.perf_counter_ns() - begun
        if total != 4095 * 4096 * 8191 // 6:
            raise DeviceFault("a wrong sum")
        return took_ns

    def _nvml(self) -> GpuWatch:
        from sandbox.devices.nvml import GpuWatch

        if self._watch is None:
            self._watch = GpuWatch(f"GPU-{torch.cuda.get_device_properties(0).uuid}")
        return self._watch


class _CudaPhilox:
    """Values from torch's CUDA generator (Philox4x32-10): 125 of the key's bits say where in which sequence."""

    def __init__(self, key: str) -> None:
        bits = int(key, 16)
        self._values = torch.Generator(device="cuda").manual_seed(bits & (2**64 - 1))
        self._values.set_offset(4 * (bits >> 67))

    def normal(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(shape, generator=self._values, device="cuda")

    def uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.rand(shape, generator=self._values, device="cuda")

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randint(low, high + 1, shape, generator=self._values, device="cuda")


def _poison_free_blocks() -> None:
    """Fill what torch's allocator would hand out: before the call, not by its own filling of fresh memory, which is work on the stream
    that allocates and would race with a side stream that was forked before."""
    for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]
        if segment.get("is_expandable") or tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0):  # a graph's own memory is not fresh
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                driver_result(driver.cuMemsetD8(address, POISON_BYTE, block["size"]))
            address += block["size"]
    driver_result(driver.cuCtxSynchronize())


def _prop() -> Any:
    prop = driver.CUmemAllocationProp()
    prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = 0
    prop.requestedHandleTypes = _HANDLE
    return prop


def _rounded(size_bytes: int) -> int:
    flag = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
    grain = int(driver_result(driver.cuMemGetAllocationGranularity(_prop(), flag)))
    return -(-size_bytes // grain) * grain
