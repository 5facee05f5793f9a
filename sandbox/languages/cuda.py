"""Raw CUDA: an `extern "C"` entry with input pointers, output pointers, axes as int64 and the stream, in this order or, where the
builder's note says so, in another.  No torch anywhere.

On x86-64 integers travel in whole registers or stack slots, so an entry may take an axis as int, size_t or int64_t, and may leave out
the stream (System V ABI, section 3.2.3).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from sandbox.compilers import entry_signature
from sandbox.compilers.headers import Headers
from sandbox.devices import Arena
from sandbox.languages import cuda_errors
from sandbox.launch.loop import Bound, LaunchRefused, Loaded
from sandbox.protocol import elf, wire
from sandbox.protocol.devices import device_info
from sandbox.protocol.gate import Call, Slot, Status
from sandbox.protocol.signatures import is_axis

_FLOATS = {"float32": ctypes.c_float, "float64": ctypes.c_double}


def headers(job: wire.BuildJob, sources: Mapping[str, str], place: Path) -> Iterator[Headers | str]:
    """The device's own headers are all there is."""
    yield Headers()


def libraries(device_kind: str) -> list[str]:
    """The device's runtime as its compiler links it: inside the artifact, so that it needs no path to load."""
    return list(device_info(device_kind).runtime)


def check(artifact: bytes, entry: str) -> str | None:
    """Return the sentence on a missing entry, which says what to do; None where it is there."""
    names = elf.exported_names(artifact)
    if entry in names:
        return None
    mangled = [name for name in names if name.startswith("_Z") and f"{len(entry)}{entry}" in name]
    if mangled:
        return f"'{entry}' is there, but with C++ linkage; write extern \"C\" before it"
    return f"no function '{entry}' in the artifact; define extern \"C\" void {entry}(inputs..., outputs..., sizes..., cudaStream_t stream)"


def note(job: wire.BuildJob, sources: Mapping[str, str]) -> wire.BuildNote:
    """Return in which order the entry takes its arguments, or what contradicts the problem there: nobody else compares them."""
    return wire.BuildNote() if job.call is None else entry_signature.note(job.entry, job.call, sources)


def load(artifact_fd: int, state_fd: int, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """Load the artifact; its constructors run here."""
    try:
        library = ctypes.CDLL(f"/proc/self/fd/{artifact_fd}", mode=ctypes.RTLD_LOCAL)
    except OSError as error:
        raise LaunchRefused(Status.RAISED, f"the artifact can't be loaded: {error}") from None
    function = getattr(library, job.entry, None)
    if function is None:
        raise LaunchRefused(Status.ENTRY_NOT_FOUND, f"the artifact has no function '{job.entry}'")
    function.restype = None

    def bind(call: Call) -> Bound:
        inputs = zip(call.inputs, job.inputs, strict=True)
        arguments = [_argument(arena, slot, tensor.dtype) for slot, tensor in inputs if not is_axis(tensor)]
        arguments += [ctypes.c_void_p(arena.address(slot.offset)) for slot in call.outputs]
        arguments += [ctypes.c_int64(axis) for axis in call.axes]
        arguments.append(ctypes.c_void_p(None))  # the default stream
        if job.argument_order:
            arguments = [arguments[place] for place in job.argument_order]
        return Bound(launch=lambda: function(*arguments))

    return Loaded(bind=bind, uses_torch=False, take_error=cuda_errors.of_library(library), libraries=lambda: (library,))


def _argument(arena: Arena, slot: Slot, dtype: str) -> object:
    if slot.shape:
        return ctypes.c_void_p(arena.address(slot.offset))
    if dtype == "float16":  # a struct of two bytes travels as an integer
        return ctypes.c_int64(int.from_bytes(struct.pack("<e", slot.scalar), "little"))
    if dtype == "bfloat16":
        return ctypes.c_int64(int.from_bytes(struct.pack("<f", slot.scalar), "little") >> 16)
    return _FLOATS[dtype](slot.scalar) if dtype in _FLOATS else ctypes.c_int64(int(slot.scalar))
