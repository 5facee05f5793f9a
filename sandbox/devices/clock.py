"""The native part of the judge's clock on a GPU, compiled when a judge starts: `sandbox/native/clock/clock.cpp` says what it does.

An interpreter inside the clock costs 40 us of spread (docs/decisions/0014).
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import secrets
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SOURCE = Path(__file__).parents[1] / "native" / "clock" / "clock.cpp"
COMPILE_S = 60.0
EVICT_BYTES = 256 << 20  # what `do_bench` writes between its samples, too (triton 3.6, backends/nvidia/driver.py)
STAGE_LIMIT_BYTES = 2 << 30  # beyond it a copy's microsecond is nothing next to the kernel
ALIGN_BYTES = 4096
FUNCTIONS = (
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD32Async",
    "cuCtxSynchronize",
    "cuCtxResetPersistingL2Cache",
    "cuStreamWriteValue64_v2",
    "cuEventRecord",
    "cuEventElapsedTime",
    "cuStreamWaitValue64_v2",
    "cuEventQuery",
)
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
# For each run, how long a train is held back for a runner that does not say that it has launched: a kernel takes 20 to 50 us, a reference
# of 300 operations 1,500; one that waits for its device has not launched after any time.
LAUNCH_LIMIT_NS = 2_000_000
SHIFT_COUNT = 8  # fewer than this of each kind of small operation are before a run: see `CudaDevice.acquire_context`


class WaitEnd(IntEnum):
    """How a train ended."""

    DONE = 0
    TIMED_OUT = 1
    GONE = 2
    VIOLATED = 3


class _DriverLibrary(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in FUNCTIONS]


class _Copy(ctypes.Structure):
    _fields_ = [("to", ctypes.c_uint64), ("source", ctypes.c_uint64), ("size_bytes", ctypes.c_uint64)]


class _NativeRun(ctypes.Structure):
    _fields_ = [
        ("publish", ctypes.POINTER(_Copy)),
        ("publish_count", ctypes.c_uint64),
        ("snapshot", ctypes.POINTER(_Copy)),
        ("snapshot_count", ctypes.c_uint64),
        ("begin", ctypes.c_void_p),
        ("reached", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("fill_count", ctypes.c_uint64),
        ("copy_count", ctypes.c_uint64),
        ("duration_ns", ctypes.c_int64),
    ]


class _Train(ctypes.Structure):
    _fields_ = [
        ("runs", ctypes.POINTER(_NativeRun)),
        ("run_count", ctypes.c_uint64),
        ("evict", ctypes.c_uint64),
        ("evict_bytes", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("published", ctypes.c_uint64),
        ("finished", ctypes.c_uint64),
        ("releasing", ctypes.c_void_p),
        ("go", ctypes.c_void_p),
        ("done", ctypes.c_void_p),
        ("launched", ctypes.c_void_p),
        ("number", ctypes.c_uint64),
        ("previous", ctypes.c_uint64),
        ("launch_limit_ns", ctypes.c_int64),
        ("limit_ns", ctypes.c_int64),
        ("link", ctypes.c_int),
        ("scalars", ctypes.POINTER(ctypes.c_double)),
        ("scalar_count", ctypes.c_uint64),
        ("scalars_to", ctypes.c_void_p),
        ("ending", ctypes.c_int),
        ("code", ctypes.c_int),
        ("begun", ctypes.c_uint64),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTime:
    """How long each run of a train took, and how it ended; code: the driver's first error, or 0."""

    durations_ns: tuple[int, ...]
    ending: WaitEnd = WaitEnd.DONE
    code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Where the gate's counters lie, what is written and what is there before; and the link that tells when nobody will answer."""

    go_address: int
    done_address: int
    launched_address: int
    published_address: int  # on the device, as the next
    finished_address: int
    number: int
    previous: int
    limit_ns: int
    link_fd: int
    scalar_address: int = 0  # where the scalars of this call are published, in the gate
    scalars: tuple[float, ...] = ()  # none: all that goes by value was known before


Pairs = Sequence[tuple["torch.Tensor", "torch.Tensor"]]  # (to, from), contiguous and of the same size


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCopies:
    """The copies of a run inside the clock: its inputs to the runner, and its outputs from it."""

    publish: Pairs
    snapshot: Pairs


class _ClockStage:
    """Memory of this process for what is copied inside the clock, the same in every train: torch's allocator hands places out
    by turns, and where a copy reads from is nothing that should be in anybody's time (docs/decisions/0014)."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._memory: torch.Tensor | None = None

    def places(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """A place for each, of its shape, and the same for the same tensor; the tensors themselves where they are too large."""
        begins: dict[tuple[int, int], int] = {}
        size_bytes = 0
        for source in tensors:
            if _key(source) not in begins:
                begins[_key(source)] = size_bytes
                size_bytes += math.ceil(source.nbytes / ALIGN_BYTES) * ALIGN_BYTES
        memory = self._of(size_bytes)
        if memory is None:
            return list(tensors)
        return [memory[begins[_key(tensor)] :][: tensor.nbytes].view(tensor.dtype).view(tensor.shape) for tensor in tensors]

    def forget(self) -> None:
        """Leave the memory to torch's allocator."""
        self._memory = None

    def _of(self, size_bytes: int) -> torch.Tensor | None:
        if size_bytes > STAGE_LIMIT_BYTES:
            return None
        if self._memory is None or self._memory.nbytes < size_bytes:
            import torch

            self._memory = None
            with contextlib.suppress(torch.OutOfMemoryError):
                self._memory = torch.empty(size_bytes, dtype=torch.uint8, device=self._device)
        return self._memory


class NativeClock:
    """Takes trains. cache: a tensor whose overwriting leaves nothing of the inputs in the device's cache."""

    def __init__(self, cache: torch.Tensor, libcuda: ctypes.CDLL | None = None) -> None:
        self._cache = cache
        self.stage = _ClockStage(cache.device)
        self._library = _compiled()
        self._libcuda = libcuda or ctypes.CDLL("libcuda.so.1")
        self._start = cache.new_zeros(64)  # three words, of bytes at least
        self._events: list[ctypes.c_void_p] = []
        self._releasing = self._created("cuStreamCreate", NON_BLOCKING)
        self._driver = _DriverLibrary(*(ctypes.cast(getattr(self._libcuda, name), ctypes.c_void_p) for name in FUNCTIONS))

    def take(self, runs: Sequence[RunCopies], signals: Signals) -> TrainTime:
        """Launch all runs, then publish, wait and snapshot for each. One run where scalars are published."""
        publish = [[pair for pair in run.publish if pair[0].numel()] for run in runs]
        snapshot = [[pair for pair in run.snapshot if pair[0].numel()] for run in runs]
        sources = [private for pairs in publish for _, private in pairs]
        targets = [private for pairs in snapshot for private, _ in pairs]
        staged = self.stage.places([*sources, *targets])
        for place, private in zip(staged, sources, strict=False):
            place.copy_(private)
        self._libcuda.cuCtxSynchronize()
        while len(self._events) < 3 * len(runs):
            self._events.append(self._created("cuEventCreate"))
        places = iter(staged)
        published = [_copies([(to, next(places)) for to, _ in pairs]) for pairs in publish]
        snapshots = [_copies([(next(places), source) for _, source in pairs]) for pairs in snapshot]
        cars = (_NativeRun * len(runs))(
            *(
                _NativeRun(
                    publish=inward,
                    publish_count=len(inward),
                    snapshot=outward,
                    snapshot_count=len(outward),
                    begin=self._events[3 * index],
                    reached=self._events[3 * index + 1],
                    end=self._events[3 * index + 2],
                    fill_count=secrets.randbelow(SHIFT_COUNT),
                    copy_count=secrets.randbelow(SHIFT_COUNT),
                )
                for index, (inward, outward) in enumerate(zip(published, snapshots, strict=True))
            )
        )
        train = _Train(
            runs=cars,
            run_count=len(runs),
            evict=self._cache.data_ptr(),
            evict_bytes=self._cache.nbytes,
            start=self._start.data_ptr(),
            published=signals.published_address,
            finished=signals.finished_address,
            releasing=self._releasing,
            go=signals.go_address,
            done=signals.done_address,
            launched=signals.launched_address,
            number=signals.number,
            previous=signals.previous,
            launch_limit_ns=LAUNCH_LIMIT_NS * len(runs),
            limit_ns=signals.limit_ns,
            link=signals.link_fd,
            scalars=(ctypes.c_double * len(signals.scalars))(*signals.scalars),
            scalar_count=len(signals.scalars),
            scalars_to=signals.scalar_address,
        )
        self._library.take_train(ctypes.byref(self._driver), ctypes.byref(train))
        if train.code == 0:
            for place, private in zip(staged[len(sources) :], targets, strict=True):
                private.copy_(place)
        durations_ns = tuple(car.duration_ns for car in cars)
        return TrainTime(durations_ns=durations_ns, ending=WaitEnd(train.ending), code=train.code)

    def _created(self, function: str, flags: int = 0) -> ctypes.c_void_p:
        """Return what a function of the driver creates."""
        handle = ctypes.c_void_p()
        if code := getattr(self._libcuda, function)(ctypes.byref(handle), flags):
            raise RuntimeError(f"{function} fails: code {code}")
        return handle


def _key(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.nbytes


def _copies(pairs: Pairs) -> ctypes.Array[_Copy]:
    return (_Copy * len(pairs))(*(_Copy(to.data_ptr(), source.data_ptr(), to.nbytes) for to, source in pairs))


def _compiled() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / "clock.so")
        command = ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", str(SOURCE), "-o", target]
        process = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
        if process.returncode != 0:
            raise RuntimeError(f"the clock can't be compiled; is g++ installed? {process.stderr[-500:]}")
        library = ctypes.CDLL(target)
    library.take_train.restype = None
    return library
