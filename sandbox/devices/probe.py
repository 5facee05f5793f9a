"""The probe of the judge's clock: a kernel that reads all inputs and writes all outputs of a workload, and computes nothing.

`sandbox/native/clock/probe.cu` says what for. The trusted runner compiles and launches it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from cuda.bindings import driver, nvrtc

from sandbox.devices import driver_result

SOURCE = Path(__file__).parents[1] / "native" / "clock" / "probe.cu"
SPAN_LIMIT = 64  # the largest; what a kernel takes as arguments is 4 KB
BLOCK_SIZE, BLOCKS_PER_PROCESSOR, VECTOR_BYTES = 256, 8, 16
Spans = Sequence[tuple[int, int]]  # addresses, and sizes in bytes


class _Memory(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("size_bytes", ctypes.c_uint64)]


class _MemoryList(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint64), ("items", _Memory * SPAN_LIMIT)]


class Probe:
    """The kernel, compiled for this architecture, such as sm_90, and so many processors. DeviceFault where it is not compiled."""

    def __init__(self, architecture: str, processor_count: int) -> None:
        self._block_limit = processor_count * BLOCKS_PER_PROCESSOR
        options = [f"--gpu-architecture={architecture}".encode(), f"-DSPAN_LIMIT={SPAN_LIMIT}".encode()]
        program = driver_result(nvrtc.nvrtcCreateProgram(SOURCE.read_bytes(), b"probe.cu", 0, [], []))
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
