"""PyTorch on the emulated device: tensors lie on the CPU and report a GPU; `torch.cuda`, `torch.compile` and the profiler are replaced.

Functions answer as on a device where everything that is launched has ended. For people who try their module without a GPU. This protects
and hides nothing: the judge compares bytes.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from grader_extensions.emulated_cuda import emulated_numba, emulated_triton
from sandbox.languages.python_module import SIMULATOR
from sandbox.launch import scaled_mm

NAME = "emulated"
CAPABILITY = (9, 0)
MEMORY_BYTES = 4 << 30
SHARED_BYTES = 48 << 10
NO_GRAPHS = "the emulated device can't record CUDA graphs of Python code; use a CUDA device for this kernel"
COMPILED = "torch.compile compiles nothing on the emulated device: the function runs as it is written"
# Modules that ask for a GPU, and what a function that asks about nothing else returns, by the return type that it names.
MODULES = ("cuda", "cuda.memory", "cuda.profiler", "cuda.random", "cuda.streams", "cuda.tunable", "accelerator", "accelerator.memory")
EMPTY: dict[str, Any] = {"None": None, "bool": False, "int": 0, "float": 0.0, "str": "", "dict": {}, "OrderedDict": {}}
_COMPILES = re.compile(r"\btorch\.compile\b")


class _Stream:
    """The one stream: what is launched has ended when its launch returns."""

    cuda_stream = device_index = priority = 0
    device: Any = None  # set once torch is there
    synchronize = wait_stream = wait_event = __exit__ = lambda self, *arguments: None
    priority_range = staticmethod(lambda: (0, 0))  # the lowest and the highest

    def __init__(self, *arguments: object, **named: object) -> None:
        pass

    def record_event(self, event: _EmulatedEvent | None = None) -> _EmulatedEvent:
        event = event or _EmulatedEvent()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def __enter__(self) -> _Stream:
        return self


class _EmulatedEvent:
    """A moment by the host's clock, which is in the past."""

    synchronize = wait = lambda self, stream=None: None

    def __init__(self, *arguments: object, **named: object) -> None:
        self._at_ns = time.perf_counter_ns()

    def record(self, stream: object = None) -> None:
        self._at_ns = time.perf_counter_ns()

    def elapsed_time(self, end: _EmulatedEvent) -> float:
        return (end._at_ns - self._at_ns) / 1e6

    def query(self) -> bool:
        return True


class _WithStatement(contextlib.ContextDecorator):
    """A `with` statement's device, stream or range."""

    idx = 0

    def __init__(self, *arguments: object, **named: object) -> None:
        pass

    def __enter__(self) -> _WithStatement:
        return self

    def __exit__(self, *arguments: object) -> None:
        pass


class _NoGraph:
    """Stands for CUDAGraph, and for the context that records one."""

    def __init__(self, *arguments: object, **named: object) -> None:
        raise NotImplementedError(NO_GRAPHS)


def on_cpu(value: object, torch: Any) -> Any:
    """A device as the CPU where it is a GPU; anything else as it is."""
    cuda = (isinstance(value, torch.device) and value.type == "cuda") or (isinstance(value, str) and value.split(":")[0] == "cuda")
    return torch.device("cpu") if cuda else value


def replace(torch: Any) -> None:
    """Replace all of them in the torch that was imported, until the process ends."""
    answers = _cuda(torch)
    modules = [sys.modules.get(f"torch.{name}") for name in MODULES]
    for module in filter(None, modules):
        for name, value in list(vars(module).items()):
            if name in answers:
                setattr(module, name, answers[name])
            elif name.endswith("Tensor") and hasattr(torch, name):
                setattr(module, name, getattr(torch, name))
            elif inspect.isfunction(value) and not name.startswith("_") and value.__module__.startswith(("torch.cuda", "torch.accel")):
                returned = inspect.signature(value).return_annotation
                if (kind := str(getattr(returned, "__name__", returned))) in EMPTY:
                    setattr(module, name, _constant(EMPTY[kind]))
    torch.Stream, torch.Event = _Stream, _EmulatedEvent

    # Nothing is compiled: it would take a compiler, which a run box has not, to make a time that says nothing.
    def compiled(model: Any = None, **named: object) -> Any:
        return (lambda function: function) if model is None else model

    torch.compile = torch.compiler.compile = compiled
    torch.nn.Module.compile = lambda self, *arguments, **named: None

    # Classes that take a device without asking `__torch_function__`, and operators that are registered for a device.
    from torch._library.custom_ops import CustomOpDef
    from torch.utils._device import DeviceContext

    initialise, register, original = DeviceContext.__init__, CustomOpDef.register_kernel, torch.Generator

    class Generator(original):  # type: ignore[misc,valid-type]
        def __new__(cls, device: object = "cpu") -> Any:
            return original.__new__(cls, device=on_cpu(device, torch))

    def register_kernel(self: Any, device_types: Any, *arguments: Any) -> Any:
        return register(self, "cpu" if device_types == "cuda" else device_types, *arguments)

    torch.Generator = Generator
    DeviceContext.__init__ = lambda self, device: initialise(self, on_cpu(device, torch))  # type: ignore[method-assign]
    CustomOpDef.register_kernel = register_kernel  # type: ignore[method-assign]

    # Record the CPU only: events of a GPU that is not there cost a stack trace each, in what the kernel prints.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    profile = torch.autograd.profiler.profile
    initialise_profile = profile.__init__

    def without_device(self: Any, *arguments: Any, use_cuda: bool = False, use_device: str | None = None, **named: Any) -> None:
        initialise_profile(self, *arguments, **named)

    profile.__init__ = without_device


def _constant(value: object = None) -> Callable[..., object]:  # one for each: torch keeps a table of its functions
    return lambda *arguments, **named: value


def _cuda(torch: Any) -> dict[str, Any]:
    stream, cores = _Stream(), len(os.sched_getaffinity(0))
    properties = SimpleNamespace(
        name=NAME,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        multi_processor_count=cores,
        warp_size=32,
        total_memory=MEMORY_BYTES,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=SHARED_BYTES,
        shared_memory_per_block_optin=227 << 10,
        shared_memory_per_multiprocessor=228 << 10,
        L2_cache_size=50 << 20,
    )
    _Stream.device = torch.device("cuda", 0)
    return {
        **{name: _constant(True) for name in ("is_available", "is_initialized", "is_tf32_supported")},
        "device_count": _constant(1),
        "get_device_name": _constant(NAME),
        "get_device_capability": _constant(CAPABILITY),
        "get_device_properties": _constant(properties),
        "current_accelerator": _constant(torch.device("cuda")),
        **{name: _constant(stream) for name in ("current_stream", "default_stream", "get_stream_from_external")},
        **dict.fromkeys(("stream", "device", "device_of", "device_index", "StreamContext"), _WithStatement),
        "Stream": _Stream,
        "ExternalStream": _Stream,
        "Event": _EmulatedEvent,
        "CUDAGraph": _NoGraph,
        "graph": _NoGraph,
        **{name: _constant((MEMORY_BYTES, MEMORY_BYTES)) for name in ("mem_get_info", "get_memory_info")},
        "memory_snapshot": _constant([]),
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "default_generators": (torch.default_generator,),
        **{name: _constant() for name in ("init", "set_stream", "ipc_collect", "_sleep", "_record_memory_history")},
        "cudart": _constant(SimpleNamespace(cudaProfilerStart=_constant(0), cudaProfilerStop=_constant(0))),
        "nvtx": SimpleNamespace(range=_WithStatement, range_push=_constant(0), range_pop=_constant(0), mark=_constant()),
    }


def install(text: str, remark: Callable[[str], None] = lambda sentence: None) -> None:
    """Let torch, and Numba and Triton where the module's text names them, take this process for one with a GPU. remark: is called with
    what the author should know."""
    import torch
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    gpu = torch.device("cuda", 0)
    answers = {tensor.is_cuda.__get__: True, tensor.is_cpu.__get__: False, tensor.device.__get__: gpu, tensor.get_device: 0}  # type: ignore[attr-defined]
    stays = frozenset({tensor.cuda, tensor.pin_memory})
    tensor.record_stream = lambda self, stream: None  # type: ignore[assignment,method-assign]  # torch parses the stream first

    def placed(value: object) -> object:
        return on_cpu(value, torch)

    class SubmissionOnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in answers:
                return answers[func]
            if func in stays:
                return args[0]
            if func is torch._scaled_mm:
                return scaled_mm.emulated(*args, **(kwargs or {}))
            if func is torch.device:
                return gpu if args and type(args[0]) is int else func(*args, **(kwargs or {}))
            named = {name: placed(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
            if type(named.get("device")) is int:  # a number is a GPU's
                named["device"] = "cpu"
            if func is tensor.to:
                args = ["cpu" if type(value) is int else value for value in args]
            return func(*map(placed, args), **named)

    SubmissionOnCpu().__enter__()  # type: ignore[no-untyped-call]  # until the process ends
    replace(torch)
    if _COMPILES.search(text):
        remark(COMPILED)
    if "numba" in text and os.environ.get(SIMULATOR) == "1":
        emulated_numba.install(torch)
    if "triton" in text:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for sentence in emulated_triton.tuned_in_place(text):
                remark(sentence)
        emulated_triton.install(torch, capability=CAPABILITY, cores=len(os.sched_getaffinity(0)))
