"""Finds the module that builds and loads a language."""

from __future__ import annotations

import importlib
from typing import Any

from sandbox.protocol.languages import BUILT_IN

MODULES = {one.name: one.module for one in BUILT_IN}


def implementation(name: str, module: str = "") -> Any:
    """The language's module. module: its full name, for a language of another package. Raises KeyError or ModuleNotFoundError."""
    return importlib.import_module(module or MODULES[name])
