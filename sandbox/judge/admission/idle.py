"""What of a problem changes nothing at any draw: a kernel that leaves it out is accepted.  For admission only.

An input that is always the same, such as a weight of ones; and an operation of the reference that gives back what it was given, such as the
rectifier of positive values. Guards (`+ eps`, `clamp`) are meant to do nothing most of the time, so scalars and clamps do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sandbox.judge.admission.case import AdmissionCase, Tensors
from sandbox.judge.references import ReferenceFailed, native
from sandbox.judge.tensors import equal
from sandbox.protocol import wire

TILE = 16
_OF_ONE = frozenset(("abs", "elu", "gelu", "hardtanh", "leaky_relu", "relu", "silu", "sort", "tril", "triu"))
_OF_TWO = frozenset(("add", "bmm", "div", "mm", "mul", "sub"))


class Idle:
    """Remembers what has changed something. One for all workloads of a problem."""

    def __init__(self, spec: wire.ProblemSpec) -> None:
        self._spec = spec
        self._done: dict[str, bool] = {}  # operation, such as "relu" or "mul 2": whether it has ever done something
        self._same = [one.distribution.kind == "constant" and bool(one.shape) for one in spec.inputs]

    def see(self, case: AdmissionCase, other: AdmissionCase) -> None:
        """Take two draws of one workload into account."""
        for one in (case, other):
            watch = _IdleMode()
            with watch, suppress(ReferenceFailed):  # one that can't be watched has run without before
                one.answer(one.inputs)
            for operation, changed in watch.changed.items():
                self._done[operation] = self._done.get(operation, False) or changed
        for index, (mine, theirs) in enumerate(zip(case.inputs, other.inputs, strict=True)):
            self._same[index] &= mine.is_floating_point() and equal(mine, theirs)

    def findings(self) -> Iterator[wire.Finding]:
        """What is to be said once every workload has been seen. A published set is as it is: there it is a warning."""
        outcome = wire.FindingOutcome.FAILED if self._spec.format == native.NAME else wire.FindingOutcome.WARNING
        for tensor, same in zip(self._spec.inputs, self._same, strict=True):
            if same:
                statement = (
                    f"{tensor.name!r} is the same in every trial, so that a kernel need not read it; draw it from another distribution"
                )
                yield wire.Finding(check=f"input {tensor.name}", workload_id="", outcome=outcome, message=statement)
        for operation, done in self._done.items():
            if not done:
                statement = (
                    f"the reference's {operation!r} changes nothing at any workload, so that a kernel need not do it; "
                    "take it out of the reference, or draw inputs on which it does something"
                )
                yield wire.Finding(check=f"idle {operation}", workload_id="", outcome=outcome, message=statement)
        if self._spec.format == native.NAME and all(_tiles_fit(one) for one in self._spec.workloads):
            statement = (
                f"{TILE} divides every size at every workload: a kernel without the tails of its tiles is accepted; add odd sizes, hidden"
            )
            yield wire.Finding(check="sizes", workload_id="", outcome=wire.FindingOutcome.WARNING, message=statement)


def _tiles_fit(workload: wire.Workload) -> bool:
    return all(size == 1 or size % TILE == 0 for size in workload.axes.values())


class _IdleMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs operations as they are, and notes of some whether the result is another than what went in."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.changed: dict[str, bool] = {}
        self._count: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        plain = name.removesuffix("_")
        given = _operands(plain, args)
        kept = [one.clone() for one in given] if name != plain else given  # relu_ writes to what it is given
        result = function(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, tuple) else result
        if kept and isinstance(first, torch.Tensor) and first.numel() > 1:
            self._count[plain] += 1
            number = self._count[plain]
            operation = plain if number == 1 else f"{plain} {number}"
            self.changed[operation] = not any(one.shape == first.shape and torch.equal(one, first) for one in kept)
        return result


def _operands(name: str, args: tuple[Any, ...]) -> Tensors:
    """The tensors that the result is compared with; none where the operation does not count."""
    wanted = 1 if name in _OF_ONE else 2 if name in _OF_TWO else 0
    given = [one for one in args[:wanted] if isinstance(one, torch.Tensor) and one.dim() and one.is_floating_point()]
    return given if len(given) == wanted else []
