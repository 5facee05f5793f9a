"""One launch under observation: which of torch's operators it calls, and which kernels it launches.  What is told here is a claim."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator

from sandbox.gate import MESSAGE_LIMIT_BYTES

# As the profiler names what a device does beside kernels.
NO_KERNELS = ("Memcpy", "Memset", "Activity Buffer", "Context Sync", "Stream Sync", "Stream Wait", "Event Sync")

CUT = "cut"
_MOVES = re.compile(r"\bat::native::(?:\(anonymous namespace\)::)?(?:FillFunctor|\w*copy_kernel_cuda)\b")
_LAST_NAME = re.compile(r"(\w+)$")


def observe(launch: Callable[[], object], *, kernels: bool) -> str:
    """Lines "operator NAME" and, where they are asked for, "kernel NAME", each once; as many as an answer has room for, and CUT first where
    that is not all."""
    if "torch" not in sys.modules:
        launch()
        return ""
    found = list(dict.fromkeys(_operators(launch)))
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


def _operators(launch: Callable[[], object]) -> list[str]:
    from torch.utils._python_dispatch import TorchDispatchMode

    called: list[str] = []

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            called.append(f"operator {func.overloadpacket.__name__}")
            return func(*args, **(kwargs or {}))

    with Watch():  # type: ignore[no-untyped-call]
        launch()
    return called


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
    """A kernel as its source names it, from its demangled name: `f` for `void a::f<int>(float*)`. Nothing for those of PyTorch's own that
    only copy or fill, as its operators of memory do."""
    if _MOVES.search(name):
        return ""
    depth, kept = 0, []
    for character in name.replace("(anonymous namespace)::", ""):
        depth += character == "<"
        if depth == 0:
            kept.append(character)
        depth -= character == ">" and depth > 0
    match = _LAST_NAME.search("".join(kept).split("(")[0].strip())
    return match[1] if match else ""
