"""Texts about a problem: how its entry is declared in a compiled language, and the rule for a right answer.  Data and text only."""

from __future__ import annotations

from dataclasses import replace

from sandbox.protocol import wire

C_TYPES = {
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
}
TORCH_SCALARS = {"float32": "double", "float64": "double", "float16": "double", "bfloat16": "double", "bool": "bool"}
CUDA, TORCH_EXTENSION, PYTHON = "cuda", "torch_extension", "python"
FUNCTION, FUNCTIONS = "solve", {TORCH_EXTENSION: "forward"}  # the entry's name where a problem's own is that of a class


def entry_in(spec: wire.ProblemSpec, language: str) -> str:
    """The name of the entry of a submission in this language that does not say another. A model is a Python class, and else a function."""
    if spec.convention is not wire.Convention.MODEL or language == PYTHON:
        return spec.entry
    return FUNCTIONS.get(language, FUNCTION)


def without_model(spec: wire.ProblemSpec) -> wire.ProblemSpec:
    """The problem as an entry that is no model takes it: weights are inputs after the others. Every size of every tensor is an axis; those
    of the weights come last, so that an entry that knows them can leave them out."""
    if spec.convention is not wire.Convention.MODEL:
        return spec
    axes = dict.fromkeys(str(axis) for tensor in (*spec.inputs, *spec.outputs, *spec.weights) for axis in tensor.shape)
    inputs = (*spec.inputs, *spec.weights)
    return replace(spec, inputs=inputs, weights=(), axes=tuple(axes), convention=wire.Convention.POSITIONAL)


def cuda_signature(spec: wire.ProblemSpec) -> str:
    """How the entry is declared in raw CUDA: inputs (() by value), outputs, axes, stream. "" where the arguments are not known yet."""
    plain = without_model(spec)
    call = replace(plain, outputs=plain.separate_outputs)
    return f'extern "C" void {entry_in(spec, CUDA)}({cuda_parameters(call)})' if plain.outputs else ""


def is_axis(tensor: wire.TensorSpec) -> bool:
    """Return whether an input is the size of the axis of its name, which raw CUDA gets as that axis only."""
    return tensor.shape == () and (tensor.distribution.kind, tensor.distribution.high_axis) == ("constant", tensor.name)


def cuda_parameters(call: wire.ProblemSpec | wire.EntryCall) -> str:
    """The parameters of an entry in raw CUDA that is no model, whose outputs are no inputs."""
    inputs = [
        f"{'' if tensor.inout or not tensor.shape else 'const '}{C_TYPES[tensor.dtype]}{'*' if tensor.shape else ''} {tensor.name}"
        for tensor in call.inputs
        if not is_axis(tensor)
    ]
    outputs = [f"{C_TYPES[output.dtype]}* {output.name}" for output in call.outputs]
    axes = [f"int64_t {axis}" for axis in call.axes]
    return ", ".join([*inputs, *outputs, *axes, "cudaStream_t stream"])


def torch_signature(spec: wire.ProblemSpec) -> str:
    """How the entry of a torch extension is declared: tensors and numbers in, other tensors returned. "" where that is not known yet."""
    plain = without_model(spec)
    if not plain.outputs:
        return ""
    count = len(plain.separate_outputs)
    result = "void" if count == 0 else "torch::Tensor" if count == 1 else "std::vector<torch::Tensor>"
    inputs = [f"{'torch::Tensor' if tensor.shape else TORCH_SCALARS.get(tensor.dtype, 'int64_t')} {tensor.name}" for tensor in plain.inputs]
    return f"{result} {FUNCTIONS[TORCH_EXTENSION]}({', '.join(inputs)})"


def declaration(spec: wire.ProblemSpec, language: str) -> str:
    """How the entry is declared in this language; "" where it is not known, or the language has no declarations."""
    declare = {CUDA: cuda_signature, TORCH_EXTENSION: torch_signature}.get(language)
    return declare(spec) if declare else ""


def rule_of(problem: wire.ProblemSpec) -> str:
    """The problem's rule: its format's own, or its tolerance, with what differs at workloads that are shown."""
    if problem.rule:
        return problem.rule
    tolerance, budget = problem.tolerance, problem.tolerance.budget_factor
    whole = ""
    if budget is not None:
        whole = f", rms error against float64 at most {budget:g} times PyTorch's + {tolerance.budget_floor:g} * rms(ref)"
    lower = ", lower precision allowed" if tolerance.allow_lower_precision else ""
    special = (f"{size.workload_id}: {_elements(size.tolerance)}" for size in problem.workloads if size.tolerance and not size.hidden)
    return "; ".join((f"{_elements(tolerance)}{whole}{lower}", *special))


def _elements(tolerance: wire.Tolerance) -> str:
    return f"|out - ref| <= {tolerance.atol:g} + {tolerance.rtol:g} * |ref|"
