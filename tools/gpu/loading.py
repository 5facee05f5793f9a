"""Loads artifacts into this process as anybody would: raw CUDA by ctypes, extensions of torch by import.  For processes of their own."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MODULE = "kernel"  # what the builder calls every extension


def extension(artifact: Path) -> Any:
    """The extension's module."""
    import torch  # noqa: F401  its libraries must be there first

    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(artifact))
    spec = importlib.util.spec_from_loader(MODULE, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def raw_call(artifact: Path, inputs: Sequence[Any], outputs: Sequence[Any], axes: Sequence[int]) -> Callable[[], None]:
    """A launch of a raw kernel on these tensors, on the default stream."""
    function = ctypes.CDLL(str(artifact)).solve
    function.restype = None
    pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (*inputs, *outputs)]
    arguments = [*pointers, *(ctypes.c_int64(axis) for axis in axes), ctypes.c_void_p(None)]

    def call() -> None:
        function(*arguments)

    return call
