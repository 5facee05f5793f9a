"""Triton on the emulated device: a driver and compiled kernels with the device's facts, a faster interpreter, and libdevice by NumPy.

Of Triton 3.9; another version may not need the changes to the interpreter, or not allow them.

A number of Python's type float is a float32 to a compiled kernel (`triton/runtime/jit.py`, `mangle_type`), with `.to(...)` and wider than
float16. The interpreter leaves it as it is, unlike integers and pointers; here it becomes a float32.

The interpreter puts its own functions into the language once a launch, and not once for each call of a function: it looks through all
members of `triton.language` at each call of a jit function by another one, `tl.max` and `tl.sum` among them
(`triton/runtime/interpreter.py`, `InterpretedFunction.__call__`). It does not compute whether sums of integers overflow: where a kernel is
not debugged, nobody reads the answer (`triton/language/semantic.py`, `binary_op_sanitize_overflow_impl` and `device_assert`). And it
remembers which type of NumPy is which of Triton's.

The functions of libdevice are computed in float64 and rounded once. Like the library they take float32 and float64; a function that is
missing here raises, and names itself.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import dataclasses
import importlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

LIBDEVICE_MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
# Functions that NumPy has under the same name, and those that it has under another.
_SAME = """
    floor ceil trunc exp2 sqrt rint copysign nextafter sin cos tan log2 exp cosh sinh tanh log log10 log1p expm1 hypot cbrt fmod isnan isinf
    signbit fabs abs
"""
_OTHERS = {
    **{f"a{name}": f"arc{name}" for name in ("cos", "sin", "tan", "cosh", "sinh", "tanh", "tan2")},
    **{"pow": "power", "fast_powf": "power", "nearbyint": "rint"},
    **{f"fast_{name}f": name for name in ("sin", "cos", "tan", "log", "log2", "log10", "exp", "tanh")},
}
RESTORING = {"restore_value", "reset_to_zero", "pre_hook"}  # options of the autotuner
POINTER_STEPS = 16  # from an address to its pointer
WARP_SIZE = 32
SHARED_BYTES = 227 << 10
REGISTER_COUNT = 65536
# Of each kernel: numbers by which occupancy can be computed.
KERNEL_REGISTERS, KERNEL_SHARED_BYTES = 32, 1024


def install_libdevice() -> None:
    """Replace the stubs, until the process ends; nothing where Triton is not there."""
    try:
        np, tl = (importlib.import_module(name) for name in ("numpy", "triton.language"))
        handle: Any = importlib.import_module("triton.runtime.interpreter").TensorHandle
        modules = [importlib.import_module(name) for name in LIBDEVICE_MODULES]
    except ImportError:
        return
    for name, function in _functions(np).items():
        replacement = _on_tensors(name, function, np, tl, handle)
        for module in modules:
            setattr(module, name, replacement)


def _functions(np: Any) -> dict[str, Callable[..., Any]]:
    def one_by_one(function: Callable[[float], float]) -> Callable[[Any], Any]:
        lifted = np.frompyfunc(function, 1, 1)
        return lambda values: lifted(values).astype(np.float64)

    return {
        **{name: getattr(np, name) for name in _SAME.split()},
        **{name: getattr(np, numpy_name) for name, numpy_name in _OTHERS.items()},
        **{name: one_by_one(getattr(math, name)) for name in ("erf", "erfc", "lgamma")},
        "tgamma": one_by_one(math.gamma),
        **dict.fromkeys(("exp10", "fast_exp10f"), lambda values: np.power(10.0, values)),
        "rsqrt": lambda values: 1.0 / np.sqrt(values),
        "rcbrt": lambda values: 1.0 / np.cbrt(values),
        "normcdf": one_by_one(lambda value: 0.5 * math.erfc(-value / math.sqrt(2.0))),
        # Away from zero, unlike rint.
        "round": lambda values: np.copysign(np.floor(np.abs(values) + 0.5), values),
        "fma": lambda a, b, c: a * b + c,
        "fdim": lambda a, b: np.maximum(a - b, 0.0),
        "remainder": lambda a, b: a - b * np.rint(a / b),
        "fast_dividef": lambda a, b: a / b,
    }


def _on_tensors(name: str, function: Callable[..., Any], np: Any, tl: Any, handle: Any) -> Callable[..., Any]:
    """The function for the interpreter's tensors, or plain numbers next to one."""

    def call(*arguments: Any, **named: Any) -> Any:
        tensors = [argument for argument in arguments if isinstance(argument, tl.tensor)]
        scalar = tensors[0].dtype
        types = [argument.dtype for argument in tensors]
        if any(dtype not in (tl.float32, tl.float64, tl.int32) for dtype in types) or scalar is tl.int32:
            raise ValueError(f"libdevice.{name} takes float32 and float64, and is given {', '.join(map(str, types))}")
        values = [np.asarray(argument.handle.data if isinstance(argument, tl.tensor) else argument, np.float64) for argument in arguments]
        with np.errstate(all="ignore"):
            result = np.asarray(function(*values))
        result_type = tl.int32 if result.dtype == np.bool_ else scalar
        data = result.astype({tl.int32: np.int32, tl.float32: np.float32, tl.float64: np.float64}[result_type])
        shape = [int(size) for size in data.shape] if any(argument.type.is_block() for argument in tensors) else []
        # A number is an array of one.
        return tl.tensor(handle(data, result_type), tl.block_type(result_type, shape) if shape else result_type)

    return call


def speed_up_interpreter() -> None:
    """Replace what is slow, until the process ends; nothing where Triton is not there, or is another than this knows."""
    try:
        interpreter: Any = importlib.import_module("triton.runtime.interpreter")
        patch, scope_class = interpreter._patch_lang, interpreter._LangPatchScope
        builder, numpy_type, block_type = interpreter.interpreter_builder, interpreter._get_np_dtype, interpreter.tl.block_type
        debugged, checks = builder.options.debug, builder.options.sanitize_overflow
        converted, handle, language, numpy = interpreter._implicit_cvt, interpreter.TensorHandle, interpreter.tl, interpreter.np
    except (ImportError, AttributeError):
        return
    interpreter._patch_lang = _once_a_launch(patch, scope_class)
    interpreter._get_np_dtype = _remembering_types(numpy_type, block_type)

    # converted, which makes arguments what a kernel gets; a float becomes a float32.
    def convert(argument: Any) -> Any:
        if not isinstance(argument, float):
            return converted(argument)
        return language.tensor(handle(numpy.array([argument], dtype=numpy.float32), language.float32), language.float32)

    interpreter._implicit_cvt = convert
    if checks and not debugged:
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


def _once_a_launch(patch: Callable[[Any], Any], scope_class: Callable[[], Any]) -> Callable[[Any], Any]:
    """patch, but for functions that it was called for since the launch began; a launch ends by restoring the scope that it began with."""
    patched: set[Any] = set()

    def patch_lang(function: Any) -> Any:
        if function in patched:
            return scope_class()  # with nothing to restore
        scope = patch(function)
        if not patched:
            restore = scope.restore

            def end_launch() -> None:
                patched.clear()
                restore()

            scope.restore = end_launch
        patched.add(function)
        return scope

    return patch_lang


def _remembering_types(numpy_type: Callable[[Any], Any], block_type: Any) -> Callable[[Any], Any]:
    """numpy_type, which makes a table of all types at each call; a block's is that of its elements."""
    types: dict[str, Any] = {}

    def remembered(of: Any) -> Any:
        name = (of.element_ty if isinstance(of, block_type) else of).name
        if name not in types:
            types[name] = numpy_type(of)
        return types[name]

    return remembered


def tuned_in_place(text: str) -> Iterator[str]:
    """Yield a sentence on each kernel that the autotuner runs several times, though it writes what it reads: pointers are followed
    through sums and plain assignments."""
    for function in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)):
        tuners = [call for call in function.decorator_list if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("autotune")]
        options = {option.arg: option.value for call in tuners for option in call.keywords}
        if not tuners or RESTORING & options.keys() or len(getattr(options.get("configs"), "elts", "many")) < 2:
            continue
        values = {ast.unparse(node.targets[0]): node.value for node in ast.walk(function) if isinstance(node, ast.Assign)}
        used = collections.defaultdict[str, set[str]](set)
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call) and node.args):
            pointer = call.args[0]
            for _ in range(POINTER_STEPS):
                pointer = pointer.left if isinstance(pointer, ast.BinOp) else values.get(ast.unparse(pointer), pointer)
            used[ast.unparse(call.func).rpartition(".")[2]].add(ast.unparse(pointer))
        if names := (used["load"] & used["store"] | used["atomic_add"]) & {argument.arg for argument in function.args.args}:
            yield f"{function.name}: each run that tunes it changes what it reads; give autotune restore_value={sorted(names)}"


def install(torch: Any, *, capability: tuple[int, int], cores: int) -> None:
    """Make it the active driver, and prepare the interpreter; nothing where Triton is not there."""
    with contextlib.suppress(ImportError):
        set_driver(torch, capability=capability, cores=cores)
        # Let launches and `warmup` return a kernel, as they do where one is compiled; the interpreter returns nothing.
        with contextlib.suppress(ImportError):
            function: Any = importlib.import_module("triton.runtime.interpreter").InterpretedFunction
            interpret = function.run

            def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> _CompiledKernel:
                interpret(self, *arguments, grid=grid, warmup=warmup, **named)
                return _CompiledKernel(self, {**dict(zip(self.arg_names, arguments, strict=False)), **named})

            function.run = run
        install_libdevice()
        speed_up_interpreter()


def set_driver(torch: Any, *, capability: tuple[int, int], cores: int) -> None:
    """Make it the active driver. Raises ImportError without Triton."""
    driver: Any = importlib.import_module("triton.runtime").driver
    target: Any = importlib.import_module("triton.backends.compiler").GPUTarget
    properties = {
        "multiprocessor_count": cores,
        "warpSize": WARP_SIZE,
        "max_shared_mem": SHARED_BYTES,
        "max_num_regs": REGISTER_COUNT,
        "sm_clock_rate": 1_000_000,
        "mem_clock_rate": 1_000_000,
        "mem_bus_width": 64,
    }
    gpu = target("cuda", capability[0] * 10 + capability[1], WARP_SIZE)
    driver.set_active(
        SimpleNamespace(
            get_current_device=lambda: 0,
            set_current_device=lambda device: None,
            get_current_stream=lambda device=None: 0,
            get_device_capability=lambda device=None: capability,
            get_current_target=lambda: gpu,
            get_active_torch_device=lambda: torch.device("cuda", 0),
            get_device_interface=lambda: torch.cuda,
            get_empty_cache_for_benchmark=lambda: torch.empty(1),
            clear_cache=lambda cache: None,
            get_benchmarker=lambda: _bench,
            utils=SimpleNamespace(get_device_properties=lambda device=None: properties),
        )
    )


def _bench(kernel: Callable[[], object], *, quantiles: Sequence[float] = (0.5,), **named: object) -> list[float]:
    """Return one launch's milliseconds, for every quantile: an interpreter's times choose nothing that matters."""
    begun_ns = time.perf_counter_ns()
    kernel()
    return [(time.perf_counter_ns() - begun_ns) / 1e6] * len(quantiles)


class _CompiledKernel:
    """A kernel for certain arguments. given: those that it was made with, by name, for what a launch leaves out."""

    n_regs, n_spills, n_max_threads = KERNEL_REGISTERS, 0, 1024

    def __init__(self, kernel: Any, named: Mapping[str, Any]) -> None:
        self._kernel, self._given = kernel, named
        self.name = kernel.__name__
        self.asm: Mapping[str, str] = collections.defaultdict(str)
        self.metadata = SimpleNamespace(
            name=self.name,
            shared=KERNEL_SHARED_BYTES,
            num_warps=named.get("num_warps", 4),
            num_stages=named.get("num_stages", 3),
            num_ctas=named.get("num_ctas", 1),
        )

    def _init_handles(self) -> None:
        """Nothing is loaded."""

    def __getitem__(self, grid: Any) -> Callable[..., object]:
        def launch(*arguments: Any) -> object:
            later = self._kernel.arg_names[len(arguments) :]
            return self._kernel[grid](*arguments, **{name: self._given[name] for name in later if name in self._given})

        return launch
