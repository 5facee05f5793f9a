"""Observes a launch: which of torch's operators and NumPy's functions it calls, and which kernels it launches.  A claim.

A Python profile function does not see a ufunc of NumPy, and `a * b` is no call at all. So the entry of each function is replaced in place
while the launch takes place: the `vectorcall` of ufuncs and of NumPy's dispatched functions, and the `ml_meth` of methods of arrays and
ufuncs and of the C functions behind those. All operators of an array go through these, whatever thread uses them and whether Python or C
calls. docs/decisions/0015 has the rule.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import BuiltinFunctionType, FrameType
from typing import Any, ClassVar

from sandbox.protocol import box_modules
from sandbox.protocol.gate import CUT, MESSAGE_LIMIT_BYTES

# As the profiler names what a device does next to kernels.
NO_KERNELS = ("Memcpy", "Memset", "Activity Buffer", "Context Sync", "Stream Sync", "Stream Wait", "Event Sync")
NAMESPACES = frozenset(("aten", "prims", "mkl", "mkldnn", "onednn", "quantized"))
_MOVING_KERNELS = re.compile(r"\bat::native::(?:\(anonymous namespace\)::)?(?:FillFunctor|\w*copy_kernel_cuda)\b")
_QUALIFIED_NAME = re.compile(r"((?:\w+::)*+\w+)$")
_ABI_TAG = re.compile(r"\[abi:\w*\]")  # as Numba ends its names
FEW = 8  # elements: a shape, a scale; NumPy on no more of them is arithmetic of the host
# Their interpreters, and what we give those, stand for a GPU on the emulated device, and their compilers use NumPy on one.
INTERPRETERS = ("triton", "numba", "sandbox")
PACKAGES = ("numpy", "scipy")
_METHODS = """
    all any argmax argmin argpartition argsort choose clip compress conj conjugate cumprod cumsum dot max mean min nonzero partition prod
    round searchsorted sort std sum trace var
"""
METHODS = frozenset(_METHODS.split())
# C functions that compute by themselves: `numpy._core._multiarray_umath.c_einsum`, or what `np.dot` dispatches to.
_BUILTINS = """
    _unique_hash bincount c_einsum correlate correlate2 count_nonzero dot inner interp interp_complex lexsort packbits unpackbits vdot
    dgelsd dgeqrf dorgqr zgelsd zgeqrf zungqr
"""
BUILTINS = frozenset(_BUILTINS.split())
UFUNC_METHODS = frozenset(("accumulate", "at", "outer", "reduce", "reduceat"))
# Dispatched functions that compute nothing: memory, shapes, and moving values as they are.
_MOVES = """
    array_repr array_str atleast_1d atleast_2d atleast_3d block broadcast_arrays broadcast_to can_cast column_stack concatenate copy copyto
    dsplit dstack empty_like expand_dims flip fliplr flipud full_like hsplit hstack iscomplexobj isrealobj may_share_memory min_scalar_type
    moveaxis ndim ones_like permute_dims put ravel repeat reshape resize result_type roll rollaxis rot90 shape shares_memory size split
    squeeze stack swapaxes take take_along_axis tile transpose unravel_index unstack vsplit vstack where zeros_like
"""
MOVES = frozenset(_MOVES.split())
# Offsets of CPython's, on 64 bits: PyTypeObject.tp_vectorcall_offset, PyMethodDescrObject.d_method, PyCFunctionObject.m_ml,
# PyMethodDef.ml_meth and ml_flags.
_TYPE_VECTORCALL_OFFSET, _DESCRIPTOR_METHOD, _FUNCTION_METHOD, _METHOD_ENTRY, _METHOD_FLAGS = 56, 40, 16, 8, 16
_VARARGS, _KEYWORDS, _O, _FASTCALL = 1, 2, 8, 0x80
_CONVENTIONS = 0x8F
_SAVE = bytes.fromhex("57 56 52 51 4150")  # push rdi, rsi, rdx, rcx, r8: with the return address, the stack is aligned
_RESTORE = bytes.fromhex("4158 59 5a 5e 5f")
_CALL, _JUMP = bytes.fromhex("ffd0"), bytes.fromhex("ffe0")  # by rax
_THUNK_BYTES = 64
_Entry = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4)


def observe(launch: Callable[[], object], kernels: bool, own_operators: frozenset[str] = frozenset()) -> str:
    """Launch once. Lines "operator NAME" and "library NAME", of all threads, and "kernel NAME" if
    kernels is set, each once; as many as an answer has room for, and CUT first where that is not
    all. own_operators: those that the artifact defines, such as `mine::scale`, are its own work;
    what they call is seen."""
    if "torch" not in sys.modules:
        launch()
        return ""
    called: dict[str, None] = {}
    # One launch for all of it: a second one, on the same inputs, could return the result of the first.
    with numpy_calls(called), _profiled(called, kernels=kernels), _operator_mode(called, own_operators):
        launch()
    return "\n".join(_fitting(list(called)))


def _fitting(lines: list[str]) -> Iterator[str]:
    cut = sum(len(line.encode()) + 1 for line in lines) > MESSAGE_LIMIT_BYTES
    room = MESSAGE_LIMIT_BYTES
    for line in [CUT, *lines] if cut else lines:
        room -= len(line.encode()) + 1
        if room < 0:
            return
        yield line


def _operator_mode(called: dict[str, None], own_operators: frozenset[str]) -> AbstractContextManager[object]:
    from torch.utils._python_dispatch import TorchDispatchMode

    class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Else torch imports its compiler at the first operator, for a second and more, to keep it from compiling what is below."""
            return "torch._dynamo" in sys.modules

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func.namespace in NAMESPACES or func.name() not in own_operators:
                called[f"operator {func.overloadpacket.__name__}"] = None
            return func(*args, **(kwargs or {}))

    mode: AbstractContextManager[object] = OperatorMode()  # type: ignore[no-untyped-call]
    return mode


@contextmanager
def _profiled(called: dict[str, None], *, kernels: bool) -> Iterator[None]:
    """Note the operators that any thread calls, also one of C++ or one that was started long before:
    a dispatch mode is of one thread only. kernels: and what runs on the GPU."""
    with _recorded(kernels=kernels) as (hosted, ran):
        yield
    operators = {f"operator {name.partition('::')[2]}": None for name in dict.fromkeys(hosted) if _computes_itself(name)}
    called.update(operators | {f"kernel {own_name}": None for name, _ in ran if (own_name := kernel_name(name))})


def observe_amounts(launch: Callable[[], object], kernels: bool, libraries: Callable[[], Sequence[ctypes.CDLL]]) -> str:
    """Launch once. Lines "NANOSECONDS kernel NAME" of what runs on the GPU, the longest first, as many as an answer has room for; without
    a name what only copies or fills. kernels False, on the emulated device: "COUNT launch" and "COUNT operator NAME"."""
    if kernels:
        amounts = Counter[str]()
        with _recorded(kernels=True) as (_, ran):
            launch()
        for name, duration_ns in ran:
            amounts[f"kernel {kernel_name(name)}"] += duration_ns
        lines = amounts.most_common()
    else:
        recorded = _recorded(kernels=False) if "torch" in sys.modules else nullcontext((list[str](), ()))
        with box_modules.emulated().logged(libraries()) as log, recorded as (hosted, _):
            launch()
        lines = [("launch", log.count)]
        lines += ((f"operator {name.partition('::')[2]}", count) for name, count in Counter(hosted).items() if _computes_itself(name))
    return "\n".join(_fitting([f"{amount} {text}" for text, amount in lines]))


@contextmanager
def _recorded(*, kernels: bool) -> Iterator[tuple[list[str], list[tuple[str, int]]]]:
    """Let torch's profiler see what happens. At the end there are the names of what ran on the host and, if kernels is set, the names and
    nanoseconds of what ran on the GPU."""
    import torch
    from torch._C import _autograd, _profiler

    os.environ["KINETO_LOG_LEVEL"] = "99"  # else it writes of itself into what the kernel prints
    settings = _profiler._ExperimentalConfig(profile_all_threads=True)
    config = _profiler.ProfilerConfig(_profiler.ProfilerState.KINETO, False, False, False, False, False, settings)
    activities = {_profiler.ProfilerActivity.CPU}
    if kernels and torch.cuda.is_available():
        activities.add(_profiler.ProfilerActivity.CUDA)
    _autograd._prepare_profiler(config, activities)
    _autograd._enable_profiler(config, activities)
    hosted, ran = list[str](), list[tuple[str, int]]()
    try:
        yield hosted, ran
    finally:
        if len(activities) > 1:
            torch.cuda.synchronize()
        events = _autograd._disable_profiler().events()
        from torch.autograd import DeviceType  # type: ignore[attr-defined]

        for event in events:
            name = event.name()
            # Calls of the runtime and of the driver are events, too, and what the profiler itself takes;
            # none of them is on the device.
            if event.device_type() != DeviceType.CUDA:
                hosted.append(name)
            elif not (name.startswith(NO_KERNELS) or event.is_user_annotation()):
                ran.append((name, event.duration_ns()))


def _computes_itself(name: str) -> bool:
    """Return whether it is an operator, and none that only calls others, which are events of their own."""
    import torch

    if name.partition("::")[0] not in NAMESPACES:
        return False
    kernels = []
    for overload in torch._C._jit_get_operation(name)[1] or [""]:
        with suppress(RuntimeError):  # an overload of TorchScript alone
            operator = f"{name}.{overload}" if overload else name
            kernels.append(torch._C._dispatch_has_kernel_for_dispatch_key(operator, "CompositeImplicitAutograd"))
    return not (kernels and all(kernels))


def kernel_name(name: str) -> str:
    """A kernel as its source names it, with its namespaces, from its demangled name: `a::f` for `void a::f<int>(float*)`. Nothing for those
    of PyTorch's own that only copy or fill, as its operators of memory do. A name of another form is reported as it is."""
    if _MOVING_KERNELS.search(name):
        return ""
    depth, characters = 0, []
    for character in _ABI_TAG.sub("", name.replace("(anonymous namespace)::", "")):
        depth += character == "<"
        if depth == 0:
            characters.append(character)
        depth -= character == ">" and depth > 0
    match = _QUALIFIED_NAME.search("".join(characters).split("(")[0].strip())
    return match[1] if match else " ".join(name.split())


@contextmanager
def numpy_calls(called: dict[str, None]) -> Iterator[None]:
    """Note what is called while this lasts, as "library numpy.NAME"; nothing without NumPy, or on another processor than x86-64."""
    if "numpy" not in sys.modules or platform.machine() != "x86_64" or sys.implementation.name != "cpython":
        yield
        return
    hooks = _NumpyHooks(called)
    try:
        hooks.install()
        yield
    finally:
        hooks.remove()


class _NumpyHooks:
    """Entries that note a call and go on to the original. They stay in memory for good: a thread may be in one when they are removed."""

    retained: ClassVar[list[object]] = []

    def __init__(self, called: dict[str, None]) -> None:
        self._found = called
        self._places: dict[int, tuple[int, str, bool, int]] = {}  # address of the entry: the original, name, a vectorcall?, flags
        self._scalars = frozenset((bool, int, float, complex, str, type(None), type, bytes))

    def install(self) -> None:
        """Replace all entries."""
        import numpy as np

        for label, function in _functions(np):
            if type(function) is BuiltinFunctionType:
                self._add_method(_pointer(id(function) + _FUNCTION_METHOD), label)
                continue
            offset = ctypes.c_ssize_t.from_address(id(type(function)) + _TYPE_VECTORCALL_OFFSET).value
            self._add(id(function) + offset, label, True, 0)
        for owner, names in ((np.ndarray, METHODS), (np.ufunc, UFUNC_METHODS)):
            for name in names:
                if (descriptor := vars(owner).get(name)) is not None:
                    self._add_method(_pointer(id(descriptor) + _DESCRIPTOR_METHOD), f"{owner.__name__}.{name}")
        pages = mmap.mmap(-1, _THUNK_BYTES * len(self._places), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        at = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        self.retained.append(pages)
        for place, (original, label, vectorcall, flags) in self._places.items():
            entry = _Entry(self._vectorcall(label) if vectorcall else self._method(label, flags))
            self.retained.append(entry)
            noting = ctypes.cast(entry, ctypes.c_void_p).value
            assert noting is not None
            code = _SAVE + _load(noting) + _CALL + _RESTORE + _load(original) + _JUMP
            ctypes.memmove(at, code, len(code))
            ctypes.c_void_p.from_address(place).value = at
            at += _THUNK_BYTES

    def remove(self) -> None:
        """Put the originals back."""
        for place, (original, *_) in self._places.items():
            ctypes.c_void_p.from_address(place).value = original

    def _add_method(self, method: int, label: str) -> None:
        flags = ctypes.c_int.from_address(method + _METHOD_FLAGS).value
        self._add(method + _METHOD_ENTRY, label, False, flags & _CONVENTIONS)

    def _add(self, place: int, label: str, vectorcall: bool, flags: int) -> None:
        if original := _pointer(place):
            self._places.setdefault(place, (original, label, vectorcall, flags))

    def _vectorcall(self, label: str) -> Any:
        def noting(function: int, arguments: int, count: int | None, names: int | None) -> None:
            self._note(label, _vector(arguments, (count or 0) & ~(1 << 63), names))

        return noting

    def _method(self, label: str, flags: int) -> Any:
        def noting(owner: int, arguments: int | None, count: int | None, names: int | None) -> None:
            if flags & _FASTCALL:
                values = _vector(arguments, count or 0, names if flags & _KEYWORDS else None)
            elif flags & (_VARARGS | _O):
                values = [_object(arguments), *(_object(count).values() if flags & _KEYWORDS and count else ())]
            else:
                values = []
            self._note(label, [_object(owner), *values])

        return noting

    def _note(self, label: str, values: list[Any]) -> None:
        if any(self._many(value) for value in values) and not _by_an_interpreter(sys._getframe(2)):
            self._found[f"library numpy.{label}"] = None

    def _many(self, value: Any, depth: int = 0) -> bool:
        if type(value) in self._scalars:
            return False
        if isinstance(value, (list, tuple)):
            return len(value) > FEW or depth > 2 or any(self._many(item, depth + 1) for item in value)
        if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
            shape, count = getattr(value, "shape", (FEW + 1,)), 1
            for size in shape:
                count *= int(size)
            return count > FEW
        return False


def _functions(np: Any) -> Iterator[tuple[str, Any]]:
    """Each ufunc, dispatched function and C function that computes which a module of PACKAGES holds, by its name."""
    dispatched, visited = type(np.dot), set()
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in PACKAGES or module is None:
            continue
        for value in list(vars(module).values()):
            if type(value) not in (np.ufunc, dispatched, BuiltinFunctionType) or id(value) in visited:
                continue
            visited.add(id(value))
            label = getattr(value, "__name__", "function")
            if label in BUILTINS if type(value) is BuiltinFunctionType else type(value) is np.ufunc or label not in MOVES:
                yield label, value


def _by_an_interpreter(frame: FrameType | None) -> bool:
    """Return whether the first caller that is not NumPy's own code is an interpreter's."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).split(".")[0]
        if package not in PACKAGES:
            return package in INTERPRETERS
        frame = frame.f_back
    return False


def _vector(arguments: int | None, count: int, names: int | None) -> list[Any]:
    named = len(_object(names)) if names else 0
    return [_object(_pointer((arguments or 0) + 8 * index)) for index in range(count + named)]


def _pointer(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


def _object(address: int | None) -> Any:
    return ctypes.cast(address, ctypes.py_object).value if address else None


def _load(value: int) -> bytes:
    """mov rax, value."""
    return b"\x48\xb8" + value.to_bytes(8, "little")
