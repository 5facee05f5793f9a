"""The emulated device as a Python module sees it: tensors lie on the CPU, and say that they lie on a GPU.

For people who try their module without one. It protects nothing and hides nothing: the judge compares bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from sandbox.languages import emulated_torch, python_numba, python_triton
from sandbox.launch import scaled_mm

NAME = emulated_torch.NAME
_COMPILES = re.compile(r"\btorch\.compile\b")


def install(text: str, remark: Callable[[str], None] = lambda sentence: None) -> None:
    """Let torch, and Numba and Triton where the module's text names them, take this process for one with a GPU. remark: is called with
    what the author should know."""
    import torch
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    gpu = torch.device("cuda", 0)
    answers = {tensor.is_cuda.__get__: True, tensor.is_cpu.__get__: False, tensor.device.__get__: gpu, tensor.get_device: 0}  # type: ignore[attr-defined]
    stays = frozenset({tensor.cuda, tensor.pin_memory, tensor.record_stream})

    def placed(value: object) -> object:
        return emulated_torch.on_cpu(value, torch)

    class SubmissionOnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in answers:
                return answers[func]
            if func in stays:
                return args[0]
            if func is torch._scaled_mm:
                return scaled_mm.emulated(*args, **(kwargs or {}))
            if func is torch.device:
                return func(*args, **(kwargs or {}))
            named = {name: placed(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
            return func(*map(placed, args), **named)

    SubmissionOnCpu().__enter__()  # type: ignore[no-untyped-call]  # until the process ends
    emulated_torch.replace(torch)
    if _COMPILES.search(text):
        remark(emulated_torch.COMPILED)
    if "numba" in text and os.environ.get(python_numba.SIMULATOR) == "1":
        python_numba.install(torch)
    if "triton" in text:
        python_triton.install(torch, capability=emulated_torch.CAPABILITY, cores=len(os.sched_getaffinity(0)))
