"""Record the Numba and Triton kernels that a module launches where there is no GPU; nothing is run.

Numba compiles a kernel for the types of the arguments that it meets, so the entry has to be called. Triton compiles without a driver; only
what it asks one for is answered here.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from extensions.emulated_cuda import emulated_triton

GPU_CORES = 132  # of an H100; a module may choose its grid by it
KERNEL_LIMIT = 8


@dataclass(slots=True)
class RecordedNumba:
    """Kernels and the types they are for, in their order, each pair once; of a kernel with signatures those alone."""

    pairs: list[tuple[Any, tuple[Any, ...]]] = field(default_factory=list)
    signed: set[int] = field(default_factory=set)

    def add(self, dispatcher: Any, types: tuple[Any, ...]) -> None:
        """Note a kernel for these types."""
        if not any(recorded is dispatcher and those == types for recorded, those in self.pairs):
            self.pairs.append((dispatcher, types))


def record_numba(torch: Any, architecture: int) -> RecordedNumba:
    """Replace what would ask for a GPU, until the process ends. architecture: the GPU's, such as 90. Raises ImportError without Numba."""
    recorded = RecordedNumba()
    cuda: Any = importlib.import_module("numba.cuda")
    dispatchers: Any = importlib.import_module("numba.cuda.dispatcher")
    dispatcher, device = dispatchers.CUDADispatcher, SimpleNamespace(compute_capability=divmod(architecture, 10))
    normalized: Callable[[Any], Any] = importlib.import_module("numba.cuda.core.sigutils").normalize_signature

    def array_of(value: Any) -> Any:
        return value.detach().numpy() if isinstance(value, torch.Tensor) else value

    def launch(self: Any, *arguments: Any) -> None:
        if id(self) not in recorded.signed:
            recorded.add(self, tuple(self.typeof_pyval(array_of(argument)) for argument in arguments))

    def configured(self: Any, *configuration: Any, **named: Any) -> Callable[..., None]:
        return lambda *arguments: launch(self, *arguments)

    def compile_for(self: Any, signature: Any) -> None:
        recorded.signed.add(id(self))
        recorded.add(self, normalized(signature)[0])

    dispatchers.get_current_device = lambda: device  # which a device function is compiled for
    dispatcher.configure = dispatcher.forall = configured
    dispatcher.compile = compile_for
    dispatcher.disable_compile = lambda self, val=True: None
    dispatcher.specialize = lambda self, *arguments: self
    replaced: dict[str, Callable[..., Any]] = {
        "as_cuda_array": lambda value, sync=True: array_of(value),
        "to_device": lambda value, *arguments, **named: array_of(value),
        "synchronize": lambda: None,
        "is_available": lambda: True,
        "stream": lambda: 0,
        "external_stream": lambda pointer: 0,
        "default_stream": lambda: 0,
    }
    with contextlib.suppress(ImportError):
        np: Any = importlib.import_module("numpy")
        replaced |= {
            "device_array": lambda shape, dtype=np.float64, **named: np.empty(shape, dtype),
            "device_array_like": lambda value, **named: np.empty_like(array_of(value)),
        }
    for name, value in replaced.items():
        setattr(cuda, name, value)
    return recorded


@dataclass(slots=True)
class RecordedTriton:
    """Triton's own `CompiledKernel`s, each once; tuned: names of kernels of whose configurations the first was taken."""

    kernels: list[Any] = field(default_factory=list)
    tuned: list[str] = field(default_factory=list)


def record_triton(torch: Any, architecture: int) -> RecordedTriton:
    """Replace launches, until the process ends. architecture: such as 90. Raises ImportError without Triton."""
    recorded = RecordedTriton()
    emulated_triton.set_driver(torch, capability=(architecture // 10, architecture % 10), cores=GPU_CORES)
    function: Any = importlib.import_module("triton.runtime.jit").JITFunction
    tuner: Any = importlib.import_module("triton.runtime.autotuner").Autotuner
    compile_or_launch = function.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        kernel = compile_or_launch(self, *arguments, grid=grid, warmup=True, **named)
        if (
            kernel is not None
            and not any(kernel is recorded_kernel for recorded_kernel in recorded.kernels)
            and len(recorded.kernels) < KERNEL_LIMIT
        ):
            recorded.kernels.append(kernel)
        return kernel

    def bench(self: Any, *arguments: Any, config: Any, **named: Any) -> list[float]:
        name = str(getattr(self.base_fn, "__name__", "kernel"))
        if name not in recorded.tuned:
            recorded.tuned.append(name)
        return [1.0, 1.0, 1.0]  # all alike: the first is taken

    function.run, tuner._bench = run, bench
    return recorded
