"""Record the Numba and Triton kernels that a module launches where there is no GPU; nothing is run.

Numba compiles a kernel for the types of the arguments that it meets, so the entry has to be called. Triton compiles without a driver; only
what it asks one for is answered here.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from grader_extensions.emulated_cuda import emulated_triton

GPU_CORES = 132  # of an H100; a module may choose its grid by it
KERNEL_LIMIT = 8


def record_numba(torch: Any, architecture: int) -> list[tuple[Any, tuple[Any, ...]]]:
    """Replace what would ask for a GPU, until the process ends. architecture: the GPU's, such as 90. Raises ImportError without Numba.

    Kernels and the types they are for come into the list, in their order, each pair once; of a kernel with signatures those alone.
    """
    pairs, signed = list[tuple[Any, tuple[Any, ...]]](), set[int]()
    cuda: Any = importlib.import_module("numba.cuda")
    dispatchers: Any = importlib.import_module("numba.cuda.dispatcher")
    dispatcher, device = dispatchers.CUDADispatcher, SimpleNamespace(compute_capability=divmod(architecture, 10))
    normalized: Callable[[Any], Any] = importlib.import_module("numba.cuda.core.sigutils").normalize_signature

    def array_of(value: Any) -> Any:
        return value.detach().numpy() if isinstance(value, torch.Tensor) else value

    def add(dispatcher: Any, types: tuple[Any, ...]) -> None:
        if not any(recorded is dispatcher and those == types for recorded, those in pairs):
            pairs.append((dispatcher, types))

    def launch(self: Any, *arguments: Any) -> None:
        if id(self) not in signed:
            add(self, tuple(self.typeof_pyval(array_of(argument)) for argument in arguments))

    def configured(self: Any, *configuration: Any, **named: Any) -> Callable[..., None]:
        return lambda *arguments: launch(self, *arguments)

    def compile_for(self: Any, signature: Any) -> None:
        signed.add(id(self))
        add(self, normalized(signature)[0])

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
    return pairs


def record_triton(torch: Any, architecture: int) -> tuple[list[Any], list[str]]:
    """Replace launches, until the process ends. architecture: such as 90. Raises ImportError without Triton.

    Triton's own `CompiledKernel`s come into the first list, each once; into the second the names of kernels of whose configurations the
    first was taken.
    """
    kernels, tuned = list[Any](), list[str]()
    emulated_triton.set_driver(torch, capability=(architecture // 10, architecture % 10), cores=GPU_CORES)
    function: Any = importlib.import_module("triton.runtime.jit").JITFunction
    tuner: Any = importlib.import_module("triton.runtime.autotuner").Autotuner
    compile_or_launch = function.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        kernel = compile_or_launch(self, *arguments, grid=grid, warmup=True, **named)
        if kernel is not None and not any(kernel is recorded for recorded in kernels) and len(kernels) < KERNEL_LIMIT:
            kernels.append(kernel)
        return kernel

    def bench(self: Any, *arguments: Any, config: Any, **named: Any) -> list[float]:
        name = str(getattr(self.base_fn, "__name__", "kernel"))
        if name not in tuned:
            tuned.append(name)
        return [1.0, 1.0, 1.0]  # all alike: the first is taken

    function.run, tuner._bench = run, bench
    return kernels, tuned
