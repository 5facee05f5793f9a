"""Modules of installed packages that run in boxes: the toolchain of a device, quicker headers, compilers that only look at kernels.

A package names a module by an entry point of the group `grader.box_modules`; its README says what the module of each name
promises. The server binds the module's package read-only into every box and names it in VARIABLE, for a box has no entry points.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sandbox.protocol.entry_points import EntryPointInvalid, entry_points

GROUP = "grader.box_modules"
VARIABLE = "GRADER_BOX_MODULES"  # in a box: NAME=MODULE, separated by commas
EMULATED = "emulated"
WORD, MODULE = re.compile(r"\w+"), re.compile(r"\w+(\.\w+)+")
MISSING = "the emulated device needs the package kernel-grader-extensions; install it, or grade on a GPU"


@lru_cache(maxsize=1)
def box_modules() -> Mapping[str, str]:
    """Return the modules' full names: in a box those that the server names, elsewhere those that are installed. EntryPointInvalid."""
    if VARIABLE in os.environ:
        return dict(word.split("=", 1) for word in os.environ[VARIABLE].split(",") if "=" in word)
    points = entry_points(GROUP)
    for name, point in points.items():
        if not WORD.fullmatch(name) or not MODULE.fullmatch(point.value):
            raise EntryPointInvalid(point, f"is no module inside a package, or {name!r} is not one word", "name a module of a package")
    return {name: point.value for name, point in points.items()}


def variable() -> dict[str, str]:
    """Return the variable of a box's environment that names the modules."""
    return {VARIABLE: ",".join(f"{name}={module}" for name, module in box_modules().items())}


def emulated() -> Any:
    """Import the emulated device's toolchain. RuntimeError where no package brings it."""
    module = box_module(EMULATED)
    if module is None:
        raise RuntimeError(MISSING)
    return module


def has_emulated() -> bool:
    """Return whether a package brings the emulated device."""
    return EMULATED in box_modules()


def box_module(name: str) -> Any:
    """Import a module; None where no package brings it."""
    module = box_modules().get(name)
    return None if module is None else importlib.import_module(module)
