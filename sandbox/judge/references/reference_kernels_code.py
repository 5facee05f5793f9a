"""What only the code of a reference_kernels problem knows: its functions, and the tensors that they make of each case."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch

from sandbox.judge import references
from sandbox.judge.references import seeds, sources
from sandbox.judge.references.nests import tensors_of
from sandbox.judge.tensors import dtype_name, same_bytes
from sandbox.protocol import pytree, wire
from sandbox.protocol.gate import RANK_LIMIT, TENSOR_LIMIT

NAME = "reference_kernels"
GENERATE, REFERENCE, CHECK, SEED = "generate_input", "ref_kernel", "check_implementation", "seed"
OUTPUT_DTYPES = {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}
INPUT_DTYPES = {*OUTPUT_DTYPES, "float8_e4m3fn", "float8_e5m2"}
BLANK, KEPT = "blank", "kept"
Both = Callable[[list[torch.Tensor]], tuple[Any, Any]]  # of all tensors: the data, and the output


@dataclass(frozen=True, kw_only=True)
class Code:
    """The functions of reference.py."""

    where: str
    generate: Callable[..., Any]
    reference: Callable[[Any], Any]
    check: Callable[[Any, Any], Any]

    @classmethod
    def of(cls, spec: wire.ProblemSpec, where: str) -> Code:
        """Execute reference.py, and of the other files those that it imports."""
        # Their deterministic contexts take it for set: without it torch refuses cuBLAS there. It is torch's own default on Hopper.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        texts = {name.removesuffix(".py"): text for name, text in json.loads(spec.reference).items()}
        with sources.contained("reference.py", where), seeds.seeded(spec.digest, where):
            module = sources.Modules(texts, f"{NAME}_{spec.digest[:12]}", where).load("reference")
        for name in (GENERATE, REFERENCE, CHECK):
            if not callable(getattr(module, name, None)):
                raise references.ReferenceFailed(f"reference.py defines no function {name!r}; define it")
        return cls(where=where, generate=getattr(module, GENERATE), reference=getattr(module, REFERENCE), check=getattr(module, CHECK))

    def data(self, case: dict[str, Any], key: str) -> Any:
        """What generate_input makes of a case and a key. Memory that it leaves unwritten is NaN, so that it shows if a kernel does too."""
        parameters = inspect.signature(self.generate).parameters.values()
        seeded = any(one.name == SEED or one.kind is one.VAR_KEYWORD for one in parameters)
        own = {SEED: int(key[:8], 16) >> 1} if seeded else {}  # 31 bits, which every generator takes
        with sources.contained(GENERATE, self.where), seeds.seeded(key, self.where), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
            return self.generate(**{**case, **own})

    def accepts(self, make: Both, inputs: list[torch.Tensor], outputs: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
        """Whether the problem's own check does. It is the problem's fault if that does not accept the reference's output either."""
        if self._accepts(make, inputs, outputs):
            return True
        try:
            sound = self._accepts(make, inputs, expected, certain=True)
        except references.ReferenceFailed as failure:
            raise references.ReferenceFailed(f"{failure}, given the output of {REFERENCE}; fix {CHECK}") from failure
        if not sound:
            raise references.ReferenceFailed(f"{CHECK} does not accept what {REFERENCE} returns for the same data; fix one of them")
        return False

    def _accepts(self, make: Both, inputs: list[torch.Tensor], outputs: list[torch.Tensor], certain: bool = False) -> bool:
        copies = [one.clone() for one in (*inputs, *outputs)]
        try:
            with sources.contained(CHECK, self.where), seeds.seeded(CHECK, self.where):
                message = self.check(*make(copies))
        except references.ReferenceFailed:
            if certain:
                raise
            return False  # a check that stumbles over an answer has not accepted it
        verdict = message[0] if isinstance(message, (tuple, list)) and len(message) == 2 else message
        if isinstance(verdict, str):
            return not verdict
        if isinstance(verdict, (bool, numpy.bool_, torch.Tensor)):
            return bool(verdict)
        text = f"{CHECK} returned a {type(message).__name__}; return (right, message), or a message that is empty if right"
        raise references.ReferenceFailed(text)


def described(spec: wire.ProblemSpec, code: Code) -> wire.ProblemSpec:
    """The spec with inputs, outputs and templates, from running every case once."""
    seen = [_CaseRun.of(code, workload, f"{spec.digest}{index}") for index, workload in enumerate(spec.workloads)]
    by_shapes = {tuple(one.shape for one in case.inputs): case.around() for case in seen}
    marked = any(by_shapes[tuple(one.shape for one in case.inputs)] != case.around() for case in seen)
    workloads = []
    for index, (workload, case) in enumerate(zip(spec.workloads, seen, strict=True)):
        inputs = [*case.inputs, *([marker(index, "meta")] if marked else [])]
        if len(inputs) + len(case.outputs) > TENSOR_LIMIT:
            text = f"{len(inputs)} tensors in data and {len(case.outputs)} in the output of {case.name!r}; {TENSOR_LIMIT} can be sent"
            raise references.ReferenceFailed(text)
        arguments = {
            "case": json.loads(workload.arguments)["case"],
            "template": flat((case.data, inputs[-1] if marked else None, case.result), workload.workload_id)[1],
            "scratch": case.scratch,
            "mark": index if marked else None,
        }
        axes = {**_sizes("x", inputs), **_sizes("y", case.outputs)}
        workloads.append(replace(workload, axes=axes, arguments=json.dumps(arguments)))
        seen[index] = replace(case, inputs=inputs)
    return replace(
        spec,
        inputs=_specs("x", [(one.name, one.inputs) for one in seen], GENERATE),
        outputs=_specs("y", [(one.name, one.outputs) for one in seen], REFERENCE),
        workloads=tuple(workloads),
        axes=(),
    )


@dataclass(frozen=True, kw_only=True)
class _CaseRun:
    """One run of a case: its data and result, the tensors in them, and which inputs the reference wrote to."""

    name: str
    data: Any
    result: Any
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    scratch: dict[int, str]

    @classmethod
    def of(cls, code: Code, workload: wire.Workload, seed: str) -> _CaseRun:
        """Run the case."""
        name, key = workload.workload_id, hashlib.sha256(seed.encode()).hexdigest()[:32]
        data = code.data(json.loads(workload.arguments)["case"], key)
        tensors, text = flat(data, f"{GENERATE} at {name!r}")
        check_inputs(tensors, name)
        inputs, build = [moved(one, code.where) for one in tensors], pytree.builder(json.loads(text))

        def run(given: list[torch.Tensor]) -> Any:
            with sources.contained(f"{REFERENCE} at {name!r}", code.where), seeds.seeded(key, code.where):
                return code.reference(build(given))

        given = [one.clone() for one in inputs]
        result = run(given)
        outputs = [one.detach().clone() for one in flat(result, f"{REFERENCE} at {name!r}")[0]]
        _check_outputs(outputs, name)
        written = [index for index, (one, before) in enumerate(zip(given, inputs, strict=True)) if not same_bytes(one, before)]
        scratch = dict.fromkeys(written, KEPT)
        if written:
            blank = [_poisoned(one) if index in written else one.clone() for index, one in enumerate(inputs)]
            again = tensors_of(run(blank))
            scratch = dict.fromkeys(written, BLANK if all(same_bytes(*pair) for pair in zip(again, outputs, strict=True)) else KEPT)
        # All cases are looked at together, and only for their shapes.
        sizes = [[torch.empty_like(one, device="meta") for one in tensors] for tensors in (inputs, outputs)]
        nested = pytree.builder(json.loads(flat(result, name)[1]))(sizes[1])
        return cls(name=name, data=build(sizes[0]), result=nested, inputs=sizes[0], outputs=sizes[1], scratch=scratch)

    def around(self) -> tuple[str, str, dict[int, str]]:
        """What the shapes of the inputs do not show."""
        return flat(self.data, self.name)[1], flat(self.result, self.name)[1], self.scratch


def _specs(letter: str, cases: list[tuple[str, list[torch.Tensor]]], maker: str) -> tuple[wire.TensorSpec, ...]:
    """The tensors' specs, which have to be the same in every case but for the sizes."""
    first_name, first = cases[0]
    kinds = [(dtype_name(one), one.dim()) for one in first]
    for name, tensors in cases[1:]:
        if (found := [(dtype_name(one), one.dim()) for one in tensors]) != kinds:
            text = f"{maker} makes tensors of dtype and rank {kinds} at {first_name!r} but {found} at {name!r}"
            raise references.ReferenceFailed(f"{text}; make problems of their own of these")
    return tuple(
        wire.TensorSpec(name=f"{letter}{index}", dtype=dtype, shape=tuple(f"{letter}{index}_{dim}" for dim in range(rank)))
        for index, (dtype, rank) in enumerate(kinds)
    )


def _sizes(letter: str, tensors: list[torch.Tensor]) -> dict[str, int]:
    return {f"{letter}{index}_{dim}": size for index, one in enumerate(tensors) for dim, size in enumerate(one.shape)}


def flat(value: object, what: str) -> tuple[list[torch.Tensor], str]:
    """The tensors of a nest and the text around them; what made it is blamed for what can't be sent."""
    try:
        return pytree.flatten(value, torch.is_tensor)
    except pytree.NestInvalid as invalid:
        raise references.ReferenceFailed(f"what {what} makes can't be sent to a kernel: {invalid}") from invalid


def check_inputs(tensors: list[torch.Tensor], name: str) -> None:
    """Raise ReferenceFailed if one of them can't be sent."""
    for index, one in enumerate(tensors):
        where = f"tensor {index} of {GENERATE} at {name!r}"
        if dtype_name(one) not in INPUT_DTYPES or one.layout != torch.strided:
            raise references.ReferenceFailed(f"{where} is {one.layout} of {one.dtype}, which can't be sent to a kernel")
        if not 1 <= one.dim() <= RANK_LIMIT:
            raise references.ReferenceFailed(f"{where} has {one.dim()} dimensions; give it 1 to {RANK_LIMIT}, or make it a plain number")
        if not one.is_contiguous():
            raise references.ReferenceFailed(f"{where} has strides {one.stride()}; only contiguous tensors are sent: add .contiguous()")


def _check_outputs(tensors: list[torch.Tensor], name: str) -> None:
    if not tensors:
        raise references.ReferenceFailed(f"{REFERENCE} at {name!r} returns no tensor; return what is to be compared")
    for index, one in enumerate(tensors):
        if dtype_name(one) not in OUTPUT_DTYPES or one.dim() > RANK_LIMIT:
            text = f"is of {one.dtype} with {one.dim()} dimensions; outputs are of {', '.join(sorted(OUTPUT_DTYPES))}"
            raise references.ReferenceFailed(f"tensor {index} of {REFERENCE} at {name!r} {text}, of at most {RANK_LIMIT} dimensions")


def marker(index: int, where: str) -> torch.Tensor:
    """Tells cases apart whose data has the same shapes: by its own."""
    return torch.zeros(index + 1, dtype=torch.uint8, device=where)


def moved(one: torch.Tensor, where: str) -> torch.Tensor:
    """A plain tensor on the device."""
    return one.detach().to(where).contiguous()


def _poisoned(one: torch.Tensor) -> torch.Tensor:
    """Other values than a generator leaves there: neither NaN nor zero."""
    return torch.full_like(one, 3)
