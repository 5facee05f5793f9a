"""Makes Triton's interpreter quicker, and a kernel's arguments what they are where it is compiled. Of Triton 3.9; another may not need it,
or not allow it.

A number of Python's type float is a float32 to a compiled kernel (`triton/runtime/jit.py`, `mangle_type`), with `.to(...)` and wider than
float16. The interpreter leaves it as it is, unlike integers and pointers. What a kernel computes is otherwise as it was.

It puts its own functions into the language once a launch, and not once for each call of a function: it looks through all members of
`triton.language` at each call of a jit function by another one, `tl.max` and `tl.sum` among them (`triton/runtime/interpreter.py`,
`InterpretedFunction.__call__`). It does not compute whether sums of integers overflow: where a kernel is not debugged, nobody reads
the answer (`triton/language/semantic.py`, `binary_op_sanitize_overflow_impl` and `device_assert`). And it remembers which type of NumPy is
which of Triton's.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any


def install() -> None:
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
    interpreter._implicit_cvt = _with_float32(converted, handle, language, numpy)
    if checks and not debugged:
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


def _with_float32(converted: Callable[[Any], Any], handle: Callable[..., Any], language: Any, numpy: Any) -> Callable[[Any], Any]:
    """converted, which makes arguments what a kernel gets; a float becomes a float32."""

    def convert(argument: Any) -> Any:
        if not isinstance(argument, float):
            return converted(argument)
        return language.tensor(handle(numpy.array([argument], dtype=numpy.float32), language.float32), language.float32)

    return convert


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
    found: dict[str, Any] = {}

    def remembered(of: Any) -> Any:
        name = (of.element_ty if isinstance(of, block_type) else of).name
        if name not in found:
            found[name] = numpy_type(of)
        return found[name]

    return remembered
