"""References: the judge's half of a format.  Trusted: those who write problems are.

A format promises: `task(spec, where)` executes the problem's code once, on the device that torch calls `where`, and returns what judging
needs of it. It may be called again with the spec that it returned, in another process, and has to come to the same. A format whose server
half does not know a problem's arguments may have `describe(spec, where)`, which says no more than those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import ModuleType

import torch

from sandbox.judge import ReferenceFailed as ReferenceFailed
from sandbox.judge import ReferenceTooLarge as ReferenceTooLarge
from sandbox.judge.references import native
from sandbox.judge.tolerance import Comparison
from sandbox.protocol import wire
from sandbox.protocol.entry_points import entry_points, load

Tensors = list[torch.Tensor]
Reference = Callable[[Tensors], Tensors]
Draw = Callable[[wire.Workload, str], Tensors]
Compare = Callable[[wire.Workload, Tensors, Tensors, Tensors, Tensors], list[Comparison]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightCheck:
    """A weight that the problem's model starts with as one constant. changed: the reference with other values in it; of a drawn weight that
    constant."""

    name: str
    drawn: bool
    changed: Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A problem, ready to be judged.

    spec: with inputs and outputs known, and each workload's axes. reference: a workload's inputs to its expected outputs; it keeps nothing
    from call to call and changes no input. reference64: the same in double precision, from inputs in double; None: reference does.
    draw: a workload's inputs from a 128-bit key in hex, where the device is and with the workload's strides; None: from the distributions.
    compare: (workload, inputs, outputs, expected, masks of what was not written) by the format's own rule; None: by the tolerance.
    state: what a runner of `wire.Convention.MODEL` gets, as `torch.save` writes it of plain values and tensors.
    templates: see wire.RunnerJob; as many as workloads, in their order.
    scratch: numbers of the inputs that a kernel may write to, as the reference does.
    weights: for admission, which tries kernels that ignore them.
    described: what the format's server half can't know of the arguments; None: it knows all.
    """

    spec: wire.ProblemSpec
    reference: Reference
    reference64: Reference | None = None
    draw: Draw | None = None
    compare: Compare | None = None
    state: bytes = field(default=b"", repr=False)
    templates: tuple[str, ...] = ()
    scratch: tuple[int, ...] = ()
    described: wire.Described | None = None
    weights: tuple[WeightCheck, ...] = ()


GROUP = "grader.references"
_modules: dict[str, str] = {}


def register(format_name: str, module: str) -> None:
    """Name the module of a format's half where installed packages can't be asked: in a box that has a copy of it."""
    _modules[format_name] = module


@lru_cache(maxsize=64)
def half_of(format_name: str) -> ModuleType:
    """The judge's half of a format: native's, or the one of an installed package. ReferenceFailed where there is none."""
    if format_name == native.NAME:
        return native
    if format_name in _modules:
        return import_module(_modules[format_name])
    if (point := entry_points(GROUP).get(format_name)) is None:
        raise ReferenceFailed(f"no installed package has an entry point {format_name!r} of {GROUP}; install the format's package")
    module: ModuleType = load(point, ModuleType)
    return module


def load_task(spec: wire.ProblemSpec, where: str) -> Task:
    """A problem's task on the device that torch calls where."""
    try:
        task = half_of(spec.format).task(spec, where)
        reference, unrounded = task if isinstance(task, tuple) else (task, None)
        return task if isinstance(task, Task) else Task(spec=spec, reference=reference, reference64=unrounded)
    except ReferenceFailed as failure:
        raise type(failure)(f"problem {spec.problem_id!r}: {failure}") from failure
    except Exception as error:
        raise ReferenceFailed(f"reference of {spec.problem_id!r}: {type(error).__name__}: {error}") from error


@contextmanager
def blamed(action: str) -> Iterator[None]:
    """Say of an exception that the problem's own code raised it; not where the device or its memory did."""
    try:
        yield
    except (ReferenceFailed, torch.OutOfMemoryError, torch.AcceleratorError):
        raise
    except Exception as error:
        raise ReferenceFailed(f"{action} raised {type(error).__name__}: {error}") from error


@contextmanager
def redact_reference_errors(*, hidden: bool) -> Iterator[None]:
    """Quote no error of the reference on a hidden workload: it may tell its size."""
    try:
        yield
    except ReferenceFailed:
        if not hidden:
            raise
        raise ReferenceFailed("the reference fails on a hidden workload; `grader-cli problems check` says how") from None
