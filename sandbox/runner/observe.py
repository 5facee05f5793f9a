"""One launch under observation: which of torch's operators it calls, and which kernels it launches.  What it reports is a claim."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from sandbox.protocol.gate import CUT, MESSAGE_LIMIT_BYTES
from sandbox.runner.observe_numpy import numpy_calls

# As the profiler names what a device does next to kernels.
NO_KERNELS = ("Memcpy", "Memset", "Activity Buffer", "Context Sync", "Stream Sync", "Stream Wait", "Event Sync")

NAMESPACES = frozenset(("aten", "prims", "mkl", "mkldnn", "onednn", "quantized"))
_MOVES = re.compile(r"\bat::native::(?:\(anonymous namespace\)::)?(?:FillFunctor|\w*copy_kernel_cuda)\b")
_QUALIFIED_NAME = re.compile(r"((?:\w+::)*+\w+)$")
_ABI_TAG = re.compile(r"\[abi:\w*\]")  # as Numba ends its names


def observe(launch: Callable[[], object], *, kernels: bool, own_operators: frozenset[str] = frozenset()) -> str:
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


def _operator_mode(called: dict[str, None], own: frozenset[str]) -> AbstractContextManager[object]:
    """Note the operators that this thread calls."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Else torch imports its compiler at the first operator, for a second and more, to keep it from compiling what is below."""
            return "torch._dynamo" in sys.modules

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func.namespace in NAMESPACES or func.name() not in own:
                called[f"operator {func.overloadpacket.__name__}"] = None
            return func(*args, **(kwargs or {}))

    mode: AbstractContextManager[object] = OperatorMode()  # type: ignore[no-untyped-call]
    return mode


@contextmanager
def _profiled(called: dict[str, None], *, kernels: bool) -> Iterator[None]:
    """Note the operators that any thread calls, also one of C++ or one that was started long before:
    a dispatch mode is of one thread only. kernels: and what runs on the GPU."""
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
    try:
        yield
    finally:
        if len(activities) > 1:
            torch.cuda.synchronize()
        called.update(_lines_of(_autograd._disable_profiler().events()))


def _lines_of(events: Iterable[Any]) -> dict[str, None]:
    """The lines for what the profiler saw: operators first, then kernels."""
    from torch.autograd import DeviceType  # type: ignore[attr-defined]

    hosted, ran = dict[str, None](), dict[str, None]()
    for event in events:
        name = event.name()
        # Calls of the runtime and of the driver are events, too, and what the profiler itself takes;
        # none of them is on the device.
        if event.device_type() != DeviceType.CUDA:
            hosted[name] = None
        elif not (name.startswith(NO_KERNELS) or event.is_user_annotation()):
            ran[name] = None
    operators = {f"operator {name.partition('::')[2]}": None for name in hosted if _computes_itself(name)}
    return operators | {f"kernel {own_name}": None for name in ran if (own_name := kernel_name(name))}


def _computes_itself(name: str) -> bool:
    """Whether it is an operator, and none that only calls others, which are events of their own."""
    import torch

    if name.partition("::")[0] not in NAMESPACES:
        return False
    kernels = []
    for overload in torch._C._jit_get_operation(name)[1] or [""]:
        with suppress(RuntimeError):  # an overload of TorchScript alone
            one = f"{name}.{overload}" if overload else name
            kernels.append(torch._C._dispatch_has_kernel_for_dispatch_key(one, "CompositeImplicitAutograd"))
    return not (kernels and all(kernels))


def kernel_name(name: str) -> str:
    """A kernel as its source names it, with its namespaces, from its demangled name: `a::f` for `void a::f<int>(float*)`. Nothing for those
    of PyTorch's own that only copy or fill, as its operators of memory do. A name of another form is reported as it is."""
    if _MOVES.search(name):
        return ""
    depth, kept = 0, []
    for character in _ABI_TAG.sub("", name.replace("(anonymous namespace)::", "")):
        depth += character == "<"
        if depth == 0:
            kept.append(character)
        depth -= character == ">" and depth > 0
    match = _QUALIFIED_NAME.search("".join(kept).split("(")[0].strip())
    return match[1] if match else " ".join(name.split())
