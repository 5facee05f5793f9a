"""The hook that the emulated device calls before and after each launch, where one is set; see native/emu/launch.h there."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

SYMBOL = "grader_launch_hook"
LaunchHook = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t, ctypes.c_int)


def set_hook(libraries: Iterable[ctypes.CDLL], hook: Any) -> None:
    """Have libraries call a `LaunchHook`, or nothing for None; one of a real device has no such place. The caller keeps the hook alive."""
    for library in libraries:
        try:
            place = ctypes.c_void_p.in_dll(library, SYMBOL)
        except ValueError:
            continue
        place.value = None if hook is None else ctypes.cast(hook, ctypes.c_void_p).value
