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
from typing import TYPE_CHECKING, Any

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


def _words(names: str) -> list[tuple[str, Any]]:
    """Fields of 64 bits: counts, nanoseconds, and addresses, of this process or of the device."""
    return [(name, ctypes.c_uint64) for name in names.split()]


class _DriverLibrary(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in FUNCTIONS]


class _Copy(ctypes.Structure):
    _fields_ = _words("to source size_bytes")


class _NativeRun(ctypes.Structure):
    _fields_ = _words("publish publish_count snapshot snapshot_count begin reached end fill_count copy_count duration_ns")


class _Train(ctypes.Structure):
    _fields_ = [
        *_words("runs run_count evict evict_bytes start spare published finished releasing go done launched number previous"),
        *_words("launch_limit_ns limit_ns"),
        ("link", ctypes.c_int),
        *_words("scalars scalar_count scalars_to"),
        ("ending", ctypes.c_int),
        ("code", ctypes.c_int),
        *_words("begun"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTime:
    """How long each run of a train took, and how it ended; code: the driver's first error, or 0."""

    durations_ns: tuple[int, ...]
    ending: WaitEnd = WaitEnd.DONE
    code: int = 0


Pairs = Sequence[tuple["torch.Tensor", "torch.Tensor"]]  # (to, from), contiguous and of the same size


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCopies:
    """The copies of a run inside the clock: its inputs to the runner, and its outputs from it."""

    publish: Pairs
    snapshot: Pairs


class NativeClock:
    """Takes trains. cache: a tensor whose overwriting leaves nothing of the inputs in the device's cache.

    What is copied inside the clock lies in memory of this process that is the same in every train: torch's allocator hands places out by
    turns, and where a copy reads from is nothing that should be in anybody's time (docs/decisions/0014).
    """

    def __init__(self, cache: torch.Tensor, libcuda: ctypes.CDLL | None = None) -> None:
        import torch

        self._cache = cache
        self._stage: torch.Tensor | None = None
        self._library = _compiled()
        self._libcuda = libcuda or ctypes.CDLL("libcuda.so.1")
        self._start = torch.zeros(1, dtype=torch.int64, pin_memory=cache.is_cuda)
        self._spare = cache.new_zeros(16)  # two words, of bytes at least
        self._events: list[int] = []
        self._releasing = self._created("cuStreamCreate", NON_BLOCKING)
        self._driver = _DriverLibrary(*(ctypes.cast(getattr(self._libcuda, name), ctypes.c_void_p) for name in FUNCTIONS))

    def forget_stage(self) -> None:
        """Leave the memory to torch's allocator."""
        self._stage = None

    def _staged(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """A place for each, of its shape, and the same for the same tensor; the tensors themselves where they are too large."""
        import torch

        begins: dict[tuple[int, int], int] = {}
        size_bytes = 0
        for source in tensors:
            if _key(source) not in begins:
                begins[_key(source)] = size_bytes
                size_bytes += math.ceil(source.nbytes / ALIGN_BYTES) * ALIGN_BYTES
        if size_bytes <= STAGE_LIMIT_BYTES and (self._stage is None or self._stage.nbytes < size_bytes):
            self._stage = None
            with contextlib.suppress(torch.OutOfMemoryError):
                self._stage = torch.empty(size_bytes, dtype=torch.uint8, device=self._cache.device)
        if self._stage is None or size_bytes > STAGE_LIMIT_BYTES:
            return list(tensors)
        return [self._stage[begins[_key(tensor)] :][: tensor.nbytes].view(tensor.dtype).view(tensor.shape) for tensor in tensors]

    def take(self, runs: Sequence[RunCopies], scalars: Sequence[float] = (), **signals: int) -> TrainTime:
        """Launch all runs, then publish, wait and snapshot for each. One run where scalars are published: without them all that goes by
        value was known before. signals: go, done, launched and scalars_to, addresses in the gate; published and finished, addresses on the
        device; the number of the call, and the previous; limit_ns; link, the descriptor that tells when nobody will answer."""
        publish = [[pair for pair in run.publish if pair[0].numel()] for run in runs]
        snapshot = [[pair for pair in run.snapshot if pair[0].numel()] for run in runs]
        sources = [private for pairs in publish for _, private in pairs]
        targets = [private for pairs in snapshot for private, _ in pairs]
        staged = self._staged([*sources, *targets])
        for place, private in zip(staged, sources, strict=False):
            place.copy_(private)
        self._libcuda.cuCtxSynchronize()
        while len(self._events) < 3 * len(runs):
            self._events.append(self._created("cuEventCreate"))
        places = iter(staged)
        inward = [_copies([(to, next(places)) for to, _ in pairs]) for pairs in publish]
        outward = [_copies([(next(places), source) for _, source in pairs]) for pairs in snapshot]
        cars = (_NativeRun * len(runs))()
        for index, car in enumerate(cars):
            car.publish, car.publish_count = ctypes.addressof(inward[index]), len(inward[index])
            car.snapshot, car.snapshot_count = ctypes.addressof(outward[index]), len(outward[index])
            car.begin, car.reached, car.end = self._events[3 * index : 3 * index + 3]
            car.fill_count, car.copy_count = secrets.randbelow(SHIFT_COUNT), secrets.randbelow(SHIFT_COUNT)
        values = (ctypes.c_double * len(scalars))(*scalars)
        train = _Train(
            runs=ctypes.addressof(cars),
            run_count=len(runs),
            evict=self._cache.data_ptr(),
            evict_bytes=self._cache.nbytes,
            start=self._start.data_ptr(),
            spare=self._spare.data_ptr(),
            releasing=self._releasing,
            launch_limit_ns=LAUNCH_LIMIT_NS * len(runs),
            scalars=ctypes.addressof(values),
            scalar_count=len(scalars),
            **signals,
        )
        self._library.take_train(ctypes.byref(self._driver), ctypes.byref(train))
        if train.code == 0:
            for place, private in zip(staged[len(sources) :], targets, strict=True):
                private.copy_(place)
        durations_ns = tuple(car.duration_ns for car in cars)
        return TrainTime(durations_ns=durations_ns, ending=WaitEnd(train.ending), code=train.code)

    def _created(self, function: str, flags: int = 0) -> int:
        """Return what a function of the driver creates."""
        handle = ctypes.c_void_p()
        if code := getattr(self._libcuda, function)(ctypes.byref(handle), flags):
            raise RuntimeError(f"{function} fails: code {code}")
        return handle.value or 0


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
