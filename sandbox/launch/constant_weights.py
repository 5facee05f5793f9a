"""Draws the weights that a model starts with as one constant, such as the ones and zeros of a norm: a kernel need not read those.

Judge and runner each make their model through this, and come to the same values without names: what is drawn depends on the constant, the
number of elements and, of running statistics, the name. So a weight may have another name, order or shape in a submission, and may be
folded into others while the model is made. Torch is imported in functions: a runner has it loaded only where a submission needs it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

# Of a constant other than zero they are shares: a variance stays positive, and nothing grows much in a deep model.
LEAST, SPREAD = 0.25, 0.5  # a value nearer to the constant could pass for it: a single one, in half precision
PARAMETER, STATISTICS = "parameter", ("running_mean", "running_var")
OF_TORCH = "torch.nn."


class Constant(NamedTuple):
    """Weights that are the same to us. kind: `PARAMETER` or the name of a statistic."""

    kind: str
    value: float
    element_count: int


@dataclass(kw_only=True)
class ConstantWeights:
    """Draws constants while models are made. only: those that the problem's own model has; None: all. arguments: numbers that the model is
    made with: a weight of one element that is one of them may be read from there."""

    seed: str
    only: frozenset[Constant] | None = None
    arguments: frozenset[float] = frozenset()
    _drawn_scalars: set[float] = field(default_factory=set)  # a single element is always constant, and is drawn once
    _constants: dict[int, tuple[torch.Tensor, Constant]] = field(default_factory=dict)

    def make(self, construct: Callable[[], Any]) -> Any:
        """Return what construct makes. A module's weights are drawn when they or it are registered, and once more at the end: code that
        follows a layer in a constructor sees what forward will see."""
        import torch

        with self._hooks():
            model = construct()
        if isinstance(model, torch.nn.Module):
            self._draw_all(model)
        return model

    def constants_of(self, model: torch.nn.Module) -> dict[str, Constant]:
        """Return the weights that were drawn of a model, by name."""
        weights = ((name, self._drawn_constant(tensor)) for name, tensor in weights_of(model))
        return {name: constant for name, constant in weights if constant is not None}

    def draw(self, constant: Constant, like: torch.Tensor) -> torch.Tensor:
        """Values in place of a constant, as a tensor like this one."""
        import torch

        text = f"{self.seed} {constant.kind} {constant.element_count} {constant.value == 0}"
        generator = torch.Generator("cpu").manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little"))
        noise = torch.rand(constant.element_count, generator=generator, dtype=torch.float32, device="cpu").mul_(2).sub_(1)
        noise = noise.mul(SPREAD - LEAST).add_(torch.copysign(torch.tensor(LEAST), noise))
        drawn = noise.add_(1).mul_(constant.value) if constant.value else noise
        return drawn.view(like.shape).to(like.device, like.dtype)

    @contextmanager
    def _hooks(self) -> Iterator[None]:
        from torch.nn.modules import module as hooks

        def parameter(module: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
            if not type(module).__module__.startswith(OF_TORCH):  # torch's own fill theirs later
                self._draw(PARAMETER, tensor)

        def buffer(module: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
            if name in STATISTICS:
                self._draw(name, tensor)

        def submodule(module: torch.nn.Module, name: str, child: torch.nn.Module | None) -> None:
            if child is not None:
                self._draw_all(child)

        handles = (
            hooks.register_module_parameter_registration_hook(parameter),
            hooks.register_module_buffer_registration_hook(buffer),
            hooks.register_module_module_registration_hook(submodule),
        )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _draw_all(self, model: torch.nn.Module) -> None:
        for name, tensor in weights_of(model):
            self._draw(kind_of(name, tensor), tensor)

    def _draw(self, kind: str, tensor: torch.Tensor | None) -> None:
        import torch

        constant = constant_of(kind, tensor)
        if tensor is None or constant is None or (self.only is not None and constant not in self.only):
            return
        if constant.element_count == 1 and (constant.value in self._drawn_scalars | self.arguments or self._drawn_constant(tensor)):
            return
        with torch.no_grad():
            tensor.copy_(self.draw(constant, tensor))
        if constant.element_count == 1:
            self._drawn_scalars.add(float(tensor.detach()))
        self._constants[id(tensor)] = (tensor, constant)

    def _drawn_constant(self, tensor: torch.Tensor) -> Constant | None:
        """The constant in whose place the tensor has drawn values, also after a cast; None where it has others."""
        import torch

        _, constant = self._constants.get(id(tensor), (None, None))
        return constant if constant is not None and torch.equal(tensor, self.draw(constant, tensor)) else None


def weights_of(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and running statistics, by name."""
    yield from model.named_parameters()
    yield from ((name, tensor) for name, tensor in model.named_buffers() if name.rpartition(".")[2] in STATISTICS)


def kind_of(name: str, tensor: torch.Tensor) -> str:
    """The kind of a weight with this name."""
    import torch

    return PARAMETER if isinstance(tensor, torch.nn.Parameter) else name.rpartition(".")[2]


def constant_of(kind: str, tensor: torch.Tensor | None) -> Constant | None:
    """The constant that all elements are; None where they differ, or it is no plain floating tensor that could hold other values."""
    import torch

    if tensor is None or torch.nn.parameter.is_lazy(tensor) or tensor.is_meta or not tensor.numel():
        return None
    if tensor.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        return None
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):  # elements overlap
        return None
    values = tensor.detach()
    first, last = (float(values[tuple(index)]) for index in ([0] * values.dim(), [-1] * values.dim()))
    if first != last or not math.isfinite(first) or not bool((values == first).all()):
        return None
    return Constant(kind, first, values.numel())
