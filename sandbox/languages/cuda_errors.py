"""The last error of the CUDA runtime that a kernel uses, such as of a launch that failed and that its host code never asked about."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from sandbox.protocol.devices import device_info

SYMBOL = "grader_take_cuda_error"  # sandbox/native/cuda_error.cpp
RUNTIME = "libcudart.so"
TakeError = Callable[[], str]


def of_library(library: ctypes.CDLL) -> TakeError:
    """A function that returns the library's own last error as "name: text", or "", and clears it; `str` where that can't be asked."""
    take = getattr(library, SYMBOL, None)
    if take is None:
        return str
    take.restype, take.argtypes = ctypes.c_char_p, []
    return lambda: (take() or b"").decode("ascii", "replace")


def of_shared_runtime(device_kind: str) -> TakeError:
    """The same for the runtime that this process has loaded, as torch does; `str` where it has loaded none. One that was loaded for a
    device that does not use it has only to say that there is no driver."""
    if not device_info(device_kind).shared_runtime:
        return str
    with suppress(OSError):
        loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if RUNTIME in line}
        for path in sorted(library for library in loaded if os.path.basename(library).startswith(RUNTIME)):
            return _of_runtime(ctypes.CDLL(path))
    return str


def of_any(takers: Iterable[TakeError]) -> TakeError:
    """The first error of several runtimes. All are asked, so that none keeps an error until the next call."""

    def take() -> str:
        return next(filter(None, [take_error() for take_error in takers]), "")

    return take


def _of_runtime(runtime: ctypes.CDLL) -> TakeError:
    runtime.cudaGetErrorName.restype = runtime.cudaGetErrorString.restype = ctypes.c_char_p

    def take() -> str:
        code = runtime.cudaGetLastError()
        if code == 0:
            return ""
        return f"{runtime.cudaGetErrorName(code).decode()}: {runtime.cudaGetErrorString(code).decode()}"

    return take
