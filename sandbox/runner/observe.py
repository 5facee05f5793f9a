"""One launch under observation: which of torch's operators it calls, and which kernels it launches.  What it reports is a claim."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from sandbox.protocol.gate import CUT, MESSAGE_LIMIT_BYTES
from sandbox.runner.observe_numpy import numpy_calls

# As the profiler names what a device does next to kernels.
NO_KERNELS = ("Memcpy", "Memset", "Activity Buffer", "Context Sync", "Stream Sync", "Stream Wait", "Event Sync")

NAMESPACES = frozenset(("aten", "prims", "mkl", "mkldnn", "onednn", "quantized"))
_MOVES = re.compile(r"\bat::native::(?:\(anonymous namespace\)::)?(?:FillFunctor|\w*copy_kernel_cuda)\b")
_QUALIFIED_NAME = re.compile(r"((?:\w+::)*+\w+)$")
_ABI_TAG = re.compile(r"\[abi:\w*\]")  # as Numba ends its names


def observe(launch: Callable[[], object], *, kernels: bool, own_operators: frozenset[str] = frozenset()) -> str:
    """Lines "operator NAME" and "library NAME", of all threads, and "kernel NAME" where they are asked for, each once; as many as an answer
    has room for, and CUT first where that is not all. own_operators: those that the artifact defines, such as `mine::scale`, are its own
    work; what they call is seen."""
    if "torch" not in sys.modules:
        launch()
        return ""
    found = list(dict.fromkeys(_operators(launch, own_operators)))
    if kernels:
        found += dict.fromkeys(_kernels(launch))
    return "\n".join(_fitting(found))


def _fitting(lines: list[str]) -> Iterator[str]:
    cut = sum(len(line.encode()) + 1 for line in lines) > MESSAGE_LIMIT_BYTES
    room = MESSAGE_LIMIT_BYTES
    for line in [CUT, *lines] if cut else lines:
        room -= len(line.encode()) + 1
        if room < 0:
            return
        yield line


def _operators(launch: Callable[[], object], own: frozenset[str]) -> list[str]:
    """What is called in this thread, by a dispatch mode, and in all threads of the process, by torch's profiler; and what of NumPy is."""
    from torch.utils._python_dispatch import TorchDispatchMode

    called: list[str] = []
    library: dict[str, None] = {}

    class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Else torch imports its compiler at the first operator, for a second and more, to keep it from compiling what is below."""
            return "torch._dynamo" in sys.modules

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func.namespace in NAMESPACES or func.name() not in own:
                called.append(f"operator {func.overloadpacket.__name__}")
            return func(*args, **(kwargs or {}))

    with numpy_calls(library), _all_threads(called), OperatorMode():  # type: ignore[no-untyped-call]
        launch()
    return [*called, *library]


@contextmanager
def _all_threads(called: list[str]) -> Iterator[None]:
    """Add what any thread calls, also one of C++ or one that was started long before. A dispatch mode is of one thread only."""
    from torch._C import _autograd, _profiler

    os.environ["KINETO_LOG_LEVEL"] = "99"  # else it writes of itself into what the kernel prints
    settings = _profiler._ExperimentalConfig(profile_all_threads=True)
    config = _profiler.ProfilerConfig(_profiler.ProfilerState.KINETO, False, False, False, False, False, settings)
    activities = {_profiler.ProfilerActivity.CPU}
    _autograd._prepare_profiler(config, activities)
    _autograd._enable_profiler(config, activities)
    try:
        yield
    finally:
        names = dict.fromkeys(event.name() for event in _autograd._disable_profiler().events())
        called += [f"operator {name.partition('::')[2]}" for name in names if _computes_itself(name)]


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


def _kernels(launch: Callable[[], object]) -> Iterable[str]:
    import torch
    from torch.autograd import DeviceType  # type: ignore[attr-defined]

    if not torch.cuda.is_available():
        return ()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
        launch()
        torch.cuda.synchronize()
    # Calls of the runtime and of the driver are events, too, and what the profiler itself takes; none of them is on the device.
    events = (one for one in profiled.events() or [] if one.device_type == DeviceType.CUDA)
    names = (kernel_name(one.name) for one in events if not one.name.startswith(NO_KERNELS))
    return [f"kernel {name}" for name in names if name]


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
