"""The judge's half of flashinfer: `run(*inputs)` of the definition's reference, its inputs, and the two rules of comparison.

Random data are as theirs, but from the trial's key: normal floats, integers from -1024 to 1023. SOL makes some inputs by their names, so
that a reference stays finite; so does this, except that nothing is all ones or zeros: a kernel that ignores such an input would pass.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from grader_extensions.formats import nests, problem_code
from sandbox.judge.inputs import shape_of
from sandbox.judge.references import Draw, Reference, ReferenceFailed, Task, Tensors
from sandbox.judge.tolerance import Comparison, is_narrow, numbers, same_bytes
from sandbox.protocol import wire

RUN = "run"
_LOWEST, _HIGHEST = -1024, 1024
_PROBE = "0" * 32
_SMALLEST = 1e-8  # what FlashInfer adds to a divisor
_ROUNDING = 1e-9


def task(spec: wire.ProblemSpec, where: str) -> Task:
    """Execute the reference's text once, and run it at the smallest workload: what it returns, and whether it changes its inputs."""
    module = problem_code.executed(spec, where, {"reference": spec.reference}, "reference", (RUN,)).load("reference")
    function = getattr(module, RUN)
    spec = replace(spec, workloads=tuple(_with_strides(workload, where, vars(module)) for workload in spec.workloads))
    scalars = tuple(not tensor.shape for tensor in spec.inputs)

    @problem_code.with_own_code
    def run(inputs: Tensors) -> Tensors:
        result = function(*[tensor.item() if scalar else tensor for tensor, scalar in zip(inputs, scalars, strict=True)])
        return _outputs(result, spec, inputs)

    def draw(workload: wire.Workload, key: str) -> Tensors:
        arguments = json.loads(workload.arguments)
        with problem_code.seeded(key, where):
            custom = _custom(workload, where, vars(module))
            drawn = [_input(of, workload, where, custom, arguments) for of in spec.inputs]
        return [nests.with_strides(tensor, workload.strides.get(of.name, ())) for tensor, of in zip(drawn, spec.inputs, strict=True)]

    changed = _changed(spec, run, draw, where)

    @problem_code.with_own_code
    def reference(inputs: Tensors) -> Tensors:
        return run([tensor.clone() if index in changed else tensor for index, tensor in enumerate(inputs)] if changed else inputs)

    def compare(workload: wire.Workload, inputs: Tensors, outputs: Tensors, expected: Tensors, unwritten: Tensors) -> list[Comparison]:
        rule = Rule(**json.loads(workload.arguments)["rule"])
        _check(expected, spec, workload)
        return [rule.compare(out, ref, mask) for out, ref, mask in zip(outputs, expected, unwritten, strict=True)]

    return Task(spec=spec, reference=reference, draw=draw, compare=compare, scratch=tuple(sorted(changed)))


def _changed(spec: wire.ProblemSpec, run: Reference, draw: Draw, where: str) -> frozenset[int]:
    """Which inputs the reference writes to."""
    smallest = min(spec.workloads, key=lambda workload: math.prod(max(size, 1) for size in workload.axes.values()))
    inputs = draw(smallest, _PROBE)
    copies = [tensor.clone() for tensor in inputs]
    with problem_code.contained(f"{RUN} at {smallest.workload_id!r}", where), problem_code.seeded(_PROBE, where):
        expected = run(copies)
    _check(expected, spec, smallest)
    return frozenset(index for index, (copy, before) in enumerate(zip(copies, inputs, strict=True)) if not same_bytes(copy, before))


def _outputs(result: object, spec: wire.ProblemSpec, inputs: Tensors) -> Tensors:
    """Return the outputs of run, by name, in order, or alone; numbers become tensors."""
    if isinstance(result, dict):
        if missing := [output.name for output in spec.outputs if output.name not in result]:
            raise ReferenceFailed(f"{RUN} returned no {missing[0]!r}; return every output")
        result = [result[output.name] for output in spec.outputs]
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(results) != len(spec.outputs):
        raise ReferenceFailed(f"{RUN} returned {len(results)} outputs; the definition has {len(spec.outputs)}")
    where = next((tensor.device for tensor in inputs if tensor.dim()), torch.device("cpu"))
    return [_tensor(item, of, where) for item, of in zip(results, spec.outputs, strict=True)]


def _tensor(value: object, of: wire.TensorSpec, where: torch.device) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach().to(where).contiguous()
    if isinstance(value, (bool, int, float)):
        return torch.tensor(value, dtype=getattr(torch, of.dtype), device=where)
    raise ReferenceFailed(f"{RUN} returned a {type(value).__name__} for {of.name!r}; return a tensor")


def _check(expected: Tensors, spec: wire.ProblemSpec, workload: wire.Workload) -> None:
    for ref, of in zip(expected, spec.outputs, strict=True):
        shape, dtype = shape_of(of, workload.axes), getattr(torch, of.dtype)
        if tuple(ref.shape) != shape or ref.dtype != dtype:
            text = f"{RUN} returned {ref.dtype} {list(ref.shape)} for {of.name!r}; the definition says {dtype} {list(shape)}"
            raise ReferenceFailed(text)


def _custom(workload: wire.Workload, where: str, names: dict[str, Any]) -> dict[str, object]:
    """Return the inputs that the definition's own function makes, by name; nothing where the workload has no such inputs."""
    arguments = json.loads(workload.arguments)
    message = arguments["inputs"]
    if arguments["custom"] is None or not any(entry["type"] == "custom" for entry in message.values()):
        return {}
    scalars = {name: entry["value"] for name, entry in message.items() if entry["type"] == "scalar"}
    with problem_code.contained(arguments["custom"], where):
        custom = names[arguments["custom"]]({**workload.axes, **scalars}, torch.device(where))
    if not isinstance(custom, dict):
        raise ReferenceFailed(f"{arguments['custom']} returned a {type(custom).__name__}; return a dict of inputs by name")
    return custom


def _with_strides(workload: wire.Workload, where: str, names: dict[str, Any]) -> wire.Workload:
    """The workload with the strides of what the definition's own function makes, learned without memory where that can be done."""
    for making in (FakeTensorMode(allow_non_fake_inputs=True), nullcontext()):
        with suppress(ReferenceFailed), problem_code.seeded(_PROBE, where), making:
            return replace(workload, strides=nests.strides_of(_custom(workload, where, names)))
    return workload  # a trial says what is wrong


def _input(of: wire.TensorSpec, workload: wire.Workload, where: str, custom: dict[str, object], arguments: dict[str, Any]) -> torch.Tensor:
    shape, message = shape_of(of, workload.axes), arguments["inputs"][of.name]
    dtype: torch.dtype = getattr(torch, of.dtype)
    match message["type"]:
        case "scalar":
            return torch.tensor(message["value"]).to(dtype)
        case "custom":
            return _made(of, custom.get(of.name), shape, dtype, where, arguments["custom"])
        case "safetensors":
            return _stored(message, shape, dtype).to(where)
    by_name = _by_name(of.name, shape, where) if arguments["by_name"] and of.shape and of.dtype in _WIDE else None
    drawn = by_name.to(dtype) if by_name is not None else _random(shape, dtype, where)
    return drawn if of.shape else drawn.cpu()


def _made(of: wire.TensorSpec, value: object, shape: tuple[int, ...], dtype: torch.dtype, where: str, maker: str) -> torch.Tensor:
    if not of.shape and isinstance(value, (bool, int, float)):
        return torch.tensor(value).to(dtype)
    if not isinstance(value, torch.Tensor):
        raise ReferenceFailed(f"{maker} made a {type(value).__name__} of {of.name!r}; make it a {'tensor' if of.shape else 'number'}")
    if tuple(value.shape) != shape or value.dtype != dtype:
        text = f"{maker} made {value.dtype} {list(value.shape)} of {of.name!r}; the definition says {dtype} {list(shape)}"
        raise ReferenceFailed(text)
    return nests.moved(value, where if of.shape else "cpu")


def _stored(message: dict[str, Any], shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    path = Path(message["path"])
    try:
        with path.open("rb") as file:
            file.seek(message["begin"])
            data = bytearray(file.read(message["end"] - message["begin"]))
    except OSError as error:
        raise ReferenceFailed(f"{path} can't be read any more: {error}") from error
    if hashlib.sha256(data).hexdigest() != message["digest"]:
        raise ReferenceFailed(f"{path} has changed since the problem was read; read it again")
    return torch.frombuffer(data, dtype=dtype).view(shape) if data else torch.empty(shape, dtype=dtype)


def _random(shape: tuple[int, ...], dtype: torch.dtype, where: str) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, device=where).bool()
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, device=where, dtype=dtype)
    if not dtype.is_floating_point:
        return torch.randint(_LOWEST, _HIGHEST, shape, device=where, dtype=dtype)
    if dtype.itemsize == 1:
        return torch.randn(shape, device=where).clamp_(-2.0, 2.0).to(dtype)
    return torch.randn(shape, device=where, dtype=dtype)


_WIDE = {"float64", "float32", "float16", "bfloat16"}


def _by_name(name: str, shape: tuple[int, ...], where: str) -> torch.Tensor | None:
    """Draw an input as SOL does by its name: values that its role can have; None where it has none."""
    bare = name.rstrip("0123456789")
    normal: Callable[[], torch.Tensor] = lambda: torch.randn(shape, device=where)  # noqa: E731
    if bare.endswith(("norm_weight", "norm_bias")):
        return normal() * 0.1 + (1.0 if bare.endswith("weight") else 0.0)
    if bare in ("causal_mask", "attention_mask") and len(shape) > 1 and shape[-1] == shape[-2]:
        return torch.full(shape, torch.finfo(torch.float16).min, device=where).triu(1)
    if bare in ("x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask"):
        return torch.randint(0, 2, shape, device=where).float()
    if bare in ("cos", "cos_cached", "rope_cos", "sin", "sin_cached", "rope_sin"):
        return (torch.cos if "cos" in bare else torch.sin)(normal().clamp_(-math.pi, math.pi))
    if f"_{bare}".endswith(("_rstd", "_std", "_variance", "_var")):
        return normal().abs() + 0.1
    if name in ("A", "A_log", "g"):
        low, high = {"A": (-1.0, -0.001), "A_log": (-5.0, -1.0), "g": (-5.0, 0.0)}[name]
        return torch.rand(shape, device=where) * (high - low) + low
    if name == "A_cumsum":
        return (torch.rand(shape, device=where) * -0.1).cumsum(-1)
    if name in ("attn_weights", "attention_weights", "routing_weights"):
        return torch.softmax(normal(), -1)
    if len(shape) > 1 and f"_{bare}".endswith(("_weight", "_weights", "_proj", "_projs", "_weight_matrix")):
        return normal() / math.sqrt(max(shape[-1], 1))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """kind: "flashinfer" or "sol". ratio: of the elements that have to be right. cap: no element may be further off, whatever the ratio.
    negative_inf: whether minus infinity is right where the reference has it."""

    kind: str
    atol: float
    rtol: float
    ratio: float
    cap: float | None
    negative_inf: bool

    def compare(self, output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor) -> Comparison:
        """Compare one output; unwritten elements are wrong, and none of them is forgiven."""
        out, ref = numbers(output), numbers(reference)
        agreed = (out == ref) & ref.isneginf() if self.negative_inf else torch.zeros_like(unwritten)
        if bool((~ref.isfinite() & ~(ref.isneginf() & self.negative_inf)).any()):
            text = "set allow_negative_inf if that is meant" if self.kind == "sol" else "no kernel could be right there"
            raise ReferenceFailed(f"the reference's output is not finite; {text}")
        certain = (output.is_floating_point() and not is_narrow(output.dtype)) or output.dtype == torch.bool
        unwritten = unwritten if certain else unwritten & (out != ref)  # the sentinel may be the right answer
        nonfinite = ~out.isfinite() & ~agreed & ~unwritten
        error, size = (out - ref).abs(), ref.abs()
        if self.kind == "flashinfer":
            divisor = size + _SMALLEST
            far = (error > self.atol) & (error / divisor > self.rtol)
        else:
            divisor = size.clamp_min(max(self.atol, _SMALLEST))
            far = error > self.atol + self.rtol * size
        beyond = ~agreed & (far | ~error.isfinite())
        finite = out.isfinite() & ref.isfinite() & ~unwritten
        unwritten_count, mismatched_count = int(unwritten.sum()), int((beyond | unwritten).sum())
        if mismatched_count <= math.floor((1.0 - self.ratio) * (out.numel() - int(agreed.sum())) + _ROUNDING):  # forgiven
            over = 0 if self.cap is None else int(((error > self.cap) & ~agreed).sum())
            mismatched_count = max(over, unwritten_count)
        if self.kind == "sol" and bool((ref != 0).any()) and not bool((out != 0).any()):
            mismatched_count = int((ref != 0).sum())  # a kernel that did nothing, where most of the answer is small
        return Comparison(
            element_count=output.numel(),
            mismatched_count=mismatched_count,
            unwritten_count=unwritten_count,
            nonfinite_count=int(nonfinite.sum()),
            max_absolute_error=_largest(error[finite]),
            max_relative_error=_largest((error / divisor)[finite]),
        )


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
