"""The emulated device as a Python module sees it: tensors lie on the CPU, and say that they lie on a GPU.

For people who try their module without one. It protects nothing and hides nothing: the judge compares bytes.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from sandbox.languages import python_numba, python_triton
from sandbox.launch import scaled_mm

NAME = "emulated"
CAPABILITY = (9, 0)


def install(text: str) -> None:
    """Let torch, and Numba and Triton where the module's text names them, take this process for one with a GPU."""
    import torch
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    gpu, cpu = torch.device("cuda", 0), torch.device("cpu")
    answers = {tensor.is_cuda.__get__: True, tensor.is_cpu.__get__: False, tensor.device.__get__: gpu, tensor.get_device: 0}  # type: ignore[attr-defined]
    stays = frozenset({tensor.cuda, tensor.pin_memory, tensor.record_stream})

    def placed(value: object) -> object:
        cuda = (isinstance(value, torch.device) and value.type == "cuda") or (isinstance(value, str) and value.split(":")[0] == "cuda")
        return cpu if cuda else value

    class SubmissionOnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in answers:
                return answers[func]
            if func in stays:
                return args[0]
            if func is torch._scaled_mm:
                return scaled_mm.emulated(*args, **(kwargs or {}))
            if func is torch.device:
                return func(*args, **(kwargs or {}))
            named = {name: placed(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
            return func(*map(placed, args), **named)

    SubmissionOnCpu().__enter__()  # type: ignore[no-untyped-call]  # until the process ends
    _replace_torch_cuda(torch)
    if "numba" in text:
        python_numba.install(torch)
    if "triton" in text:
        python_triton.install(torch, capability=CAPABILITY, cores=len(os.sched_getaffinity(0)))


class _Stream:
    """The one stream: what is launched has ended when its launch returns."""

    cuda_stream = 0
    device_index = 0

    def __init__(self, *arguments: object, **named: object) -> None:
        pass

    def synchronize(self) -> None:
        """Nothing is under way."""

    wait_stream = wait_event = lambda self, other: None

    def record_event(self, event: _EmulatedEvent | None = None) -> _EmulatedEvent:
        event = event or _EmulatedEvent()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *failure: object) -> None:
        pass


class _EmulatedEvent:
    """A moment by the host's clock."""

    def __init__(self, *arguments: object, **named: object) -> None:
        self._at_ns = time.perf_counter_ns()

    def record(self, stream: object = None) -> None:
        self._at_ns = time.perf_counter_ns()

    def elapsed_time(self, end: _EmulatedEvent) -> float:
        return (end._at_ns - self._at_ns) / 1e6

    def synchronize(self) -> None:
        """It has happened."""

    def wait(self, stream: object = None) -> None:
        """It has happened."""

    def query(self) -> bool:
        return True


def _replace_torch_cuda(torch: Any) -> None:
    @contextlib.contextmanager
    def within() -> Iterator[None]:
        yield

    def nothing() -> Callable[..., None]:  # one for each: torch keeps a table of its functions
        return lambda *arguments, **named: None

    stream, cores = _Stream(), len(os.sched_getaffinity(0))
    properties = SimpleNamespace(
        name=NAME, major=CAPABILITY[0], minor=CAPABILITY[1], multi_processor_count=cores, warp_size=32, total_memory=4 << 30
    )
    replaced = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: NAME,
        "get_device_capability": lambda device=None: CAPABILITY,
        "get_device_properties": lambda device=None: properties,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "stream": lambda stream: within(),
        "device": lambda device: within(),
        "Stream": _Stream,
        "Event": _EmulatedEvent,
        **{
            name: nothing() for name in ("init", "synchronize", "set_device", "set_stream", "empty_cache", "manual_seed", "manual_seed_all")
        },
    }
    for name, value in replaced.items():
        setattr(torch.cuda, name, value)
