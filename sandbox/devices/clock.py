"""The native part of the judge's clock on a GPU, compiled when a judge starts: `sandbox/native/clock/clock.cpp` says what it does.

An interpreter inside the clock costs 40 us of spread (docs/decisions/0014).
"""

from __future__ import annotations

import ctypes
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
FUNCTIONS = (
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD32Async",
    "cuCtxSynchronize",
    "cuCtxResetPersistingL2Cache",
    "cuStreamWriteValue64_v2",
    "cuEventRecord",
    "cuEventElapsedTime",
)
SHADE_COUNT = 8  # of 60 us each on an H200: a launch takes 20 to 50, and up to 500 where others use the core


class Ending(IntEnum):
    """How a turn ended."""

    DONE = 0
    TIMED_OUT = 1
    GONE = 2
    VIOLATED = 3


class _Driver(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in FUNCTIONS]


class _Copy(ctypes.Structure):
    _fields_ = [("to", ctypes.c_uint64), ("source", ctypes.c_uint64), ("size_bytes", ctypes.c_uint64)]


class _Turn(ctypes.Structure):
    _fields_ = [
        ("publish", ctypes.POINTER(_Copy)),
        ("publish_count", ctypes.c_uint64),
        ("snapshot", ctypes.POINTER(_Copy)),
        ("snapshot_count", ctypes.c_uint64),
        ("evict", ctypes.c_uint64),
        ("evict_bytes", ctypes.c_uint64),
        ("published", ctypes.c_uint64),
        ("shade_count", ctypes.c_uint64),
        ("begin", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("go", ctypes.c_void_p),
        ("done", ctypes.c_void_p),
        ("number", ctypes.c_uint64),
        ("previous", ctypes.c_uint64),
        ("limit_ns", ctypes.c_int64),
        ("link", ctypes.c_int),
        ("ending", ctypes.c_int),
        ("code", ctypes.c_int),
        ("duration_ns", ctypes.c_int64),
        ("read_ns", ctypes.c_int64),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """How long a turn took, how long of it was after `done`, and how it ended; code: the driver's first error, or 0."""

    duration_ns: int
    read_ns: int
    ending: Ending = Ending.DONE
    code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Where the gate's counters lie, what is written and what is there before; and the link that tells when nobody will answer."""

    go_address: int
    done_address: int
    published_address: int  # on the device
    number: int
    previous: int
    limit_ns: int
    link_fd: int


Pairs = Sequence[tuple["torch.Tensor", "torch.Tensor"]]  # (to, from), contiguous and of the same size


class NativeClock:
    """Takes turns. cache: a tensor whose overwriting leaves nothing of the inputs in the device's cache."""

    def __init__(self, cache: torch.Tensor, libcuda: ctypes.CDLL | None = None) -> None:
        self._cache = cache
        self._library = _compiled()
        self._libcuda = libcuda or ctypes.CDLL("libcuda.so.1")
        self._events = [self._event() for _ in range(2)]
        self._driver = _Driver(*(ctypes.cast(getattr(self._libcuda, name), ctypes.c_void_p) for name in FUNCTIONS))

    def take(self, publish: Pairs, snapshot: Pairs, signals: Signals) -> Taken:
        """Publish, go, wait, snapshot."""
        publish, snapshot = ([pair for pair in pairs if pair[0].numel()] for pairs in (publish, snapshot))
        turn = _Turn(
            publish=_copies(publish),
            publish_count=len(publish),
            snapshot=_copies(snapshot),
            snapshot_count=len(snapshot),
            evict=self._cache.data_ptr(),
            evict_bytes=self._cache.nbytes,
            published=signals.published_address,
            shade_count=SHADE_COUNT,
            begin=self._events[0],
            end=self._events[1],
            go=signals.go_address,
            done=signals.done_address,
            number=signals.number,
            previous=signals.previous,
            limit_ns=signals.limit_ns,
            link=signals.link_fd,
        )
        self._library.take_turn(ctypes.byref(self._driver), ctypes.byref(turn))
        return Taken(duration_ns=turn.duration_ns, read_ns=turn.read_ns, ending=Ending(turn.ending), code=turn.code)

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        if code := self._libcuda.cuEventCreate(ctypes.byref(event), 0):
            raise RuntimeError(f"the driver makes no event: code {code}")
        return event


def _copies(pairs: Pairs) -> ctypes.Array[_Copy]:
    return (_Copy * len(pairs))(*(_Copy(to.data_ptr(), source.data_ptr(), to.nbytes) for to, source in pairs))


def _compiled() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        made = str(Path(folder) / "clock.so")
        command = ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", str(SOURCE), "-o", made]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the clock can't be compiled; is g++ installed? {done.stderr[-500:]}")
        library = ctypes.CDLL(made)
    library.take_turn.restype = None
    return library
