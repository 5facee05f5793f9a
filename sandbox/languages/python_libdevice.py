"""Gives Triton's interpreter the mathematical functions of libdevice, which it has none of: by NumPy in float64, rounded once.

Like the library they take float32 and float64. What is missing here raises, and names itself.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
# As NumPy calls them; "" where libdevice's name is the same.
_SAME = """
    floor ceil trunc exp2 sqrt rint copysign nextafter sin cos tan log2 exp cosh sinh tanh log log10 log1p expm1 hypot cbrt fmod isnan isinf
    signbit fabs
"""
_OTHERS = {
    "abs": "abs",
    "acos": "arccos",
    "asin": "arcsin",
    "atan": "arctan",
    "acosh": "arccosh",
    "asinh": "arcsinh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "pow": "power",
    "fast_powf": "power",
    "nearbyint": "rint",
    **{f"fast_{name}f": name for name in ("sin", "cos", "tan", "log", "log2", "log10", "exp", "tanh")},
}


def install() -> None:
    """Replace the stubs, until the process ends; nothing where Triton is not there."""
    try:
        np, tl = (importlib.import_module(name) for name in ("numpy", "triton.language"))
        handle: Any = importlib.import_module("triton.runtime.interpreter").TensorHandle
        modules = [importlib.import_module(name) for name in MODULES]
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
        **{name: getattr(np, other) for name, other in _OTHERS.items()},
        **{name: one_by_one(getattr(math, name)) for name in ("erf", "erfc", "lgamma")},
        "tgamma": one_by_one(math.gamma),
        "exp10": lambda values: np.power(10.0, values),
        "fast_exp10f": lambda values: np.power(10.0, values),
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
        tensors = [one for one in arguments if isinstance(one, tl.tensor)]
        scalar = tensors[0].dtype
        if any(one.dtype not in (tl.float32, tl.float64, tl.int32) for one in tensors) or scalar is tl.int32:
            raise ValueError(f"libdevice.{name} takes float32 and float64, and is given {', '.join(str(one.dtype) for one in tensors)}")
        values = [np.asarray(one.handle.data if isinstance(one, tl.tensor) else one, np.float64) for one in arguments]
        with np.errstate(all="ignore"):
            result = np.asarray(function(*values))
        made = tl.int32 if result.dtype == np.bool_ else scalar
        data = result.astype({tl.int32: np.int32, tl.float32: np.float32, tl.float64: np.float64}[made])
        shape = [int(size) for size in data.shape] if any(one.type.is_block() for one in tensors) else []
        return tl.tensor(handle(data, made), tl.block_type(made, shape) if shape else made)  # a number is an array of one

    return call
