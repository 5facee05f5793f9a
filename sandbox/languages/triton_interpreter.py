"""Makes Triton's interpreter quicker: it puts its own functions into the language once a launch, not once for each call of a function.

Triton 3.9 looks through all members of `triton.language` at each call of a jit function by another one, `tl.max` and `tl.sum` among them
(`triton/runtime/interpreter.py`, `InterpretedFunction.__call__`). That was half of the time of a row softmax.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def patch_once_a_launch() -> None:
    """Replace the interpreter's `_patch_lang`, until the process ends; nothing where Triton is not there, or is another than this knows."""
    try:
        interpreter: Any = importlib.import_module("triton.runtime.interpreter")
        patch, scope_class = interpreter._patch_lang, interpreter._LangPatchScope
    except (ImportError, AttributeError):
        return
    interpreter._patch_lang = _remembering(patch, scope_class)


def _remembering(patch: Callable[[Any], Any], scope_class: Callable[[], Any]) -> Callable[[Any], Any]:
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
