"""One launch under observation: which of torch's operators it calls, and which kernels it launches.  What is told here is a claim."""

from __future__ import annotations

import sys
from collections.abc import Callable

from sandbox.gate import MESSAGE_LIMIT_BYTES


def observe(launch: Callable[[], object], *, kernels: bool) -> str:
    """Lines "operator NAME" and, where they are asked for, "kernel NAME", each once; as many as an answer has room for."""
    if "torch" not in sys.modules:
        launch()
        return ""
    found = list(dict.fromkeys(_operators(launch)))
    if kernels:
        found += dict.fromkeys(_kernels(launch))
    text = "\n".join(found)
    return text.encode()[:MESSAGE_LIMIT_BYTES].decode("utf-8", "ignore")


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


def _kernels(launch: Callable[[], object]) -> list[str]:
    import torch

    if not torch.cuda.is_available():
        return []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
        launch()
        torch.cuda.synchronize()
    return [f"kernel {one.name}" for one in profiled.events() or [] if not one.name.startswith(("Memcpy", "Memset"))]
