"""A file to begin with, for each language that a problem takes: it compiles, has the right signature, and writes nothing yet.  Pure.

Made from what every submitter sees of a problem: its entry, inputs and outputs. Never from a workload or the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grader.v1 import problem_pb2
from sandbox.protocol import wire
from sandbox.protocol.signatures import PYTHON, torch_signature, without_model

C_HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h", "float8_e4m3fn": "cuda_fp8.h", "float8_e5m2": "cuda_fp8.h"}
TORCH_DTYPES = {
    "float32": "kFloat32",
    "float16": "kFloat16",
    "bfloat16": "kBFloat16",
    "float64": "kFloat64",
    "int64": "kInt64",
    "int32": "kInt32",
    "int16": "kInt16",
    "int8": "kInt8",
    "uint8": "kUInt8",
    "bool": "kBool",
    "float8_e4m3fn": "kFloat8_e4m3fn",
    "float8_e5m2": "kFloat8_e5m2",
}
_PYTHON_SCALARS = {"bool": "bool"} | dict.fromkeys(("float32", "float64", "float16", "bfloat16"), "float")
_TODO = "Launch your kernels, and write every element."


def starter(spec: wire.ProblemSpec, language: str, *, cuda: str, title: str) -> str:
    """The text for one language; "" where the arguments are not known, or the language is none of ours. cuda: the signature in raw CUDA."""
    match language:
        case "cuda":
            lines = _cuda(without_model(spec), cuda)
        case "torch_extension":
            lines = _torch_extension(without_model(spec), torch_signature(spec))
        case "python":
            function = _python_function(spec.entry, spec.inputs, spec)
            if spec.convention is wire.Convention.MODEL:
                forward = _python_function("forward", spec.inputs, spec, first="self")
                function = [
                    f"class {spec.entry}(torch.nn.Module):",
                    "    def __init__(self, *arguments):",
                    "        super().__init__()",
                    "        # Make the layers of the problem's own Model, with the same names: they get its weights.",
                    "",
                    *(f"    {line}" if line else "" for line in forward),
                ]
            lines = ["import torch", "", "", *function]
        case _:
            lines = []
    return "\n".join([*_head(spec, title, "#" if language == PYTHON else "//"), *lines]) + "\n" if lines else ""


def with_roles(problem: wire.ProblemSpec | problem_pb2.Problem) -> Iterator[tuple[str, Any]]:
    """Each argument of a problem with its role: input, output, or inout, which is both."""
    yield from (("inout" if tensor.inout else "input", tensor) for tensor in problem.inputs)
    yield from (("output", tensor) for tensor in problem.outputs if tensor.name not in [item.name for item in problem.inputs if item.inout])


def _head(spec: wire.ProblemSpec, title: str, mark: str) -> list[str]:
    lines = [f"grader: problem={spec.problem_id}", title]
    lines += [f"{role} {item.name}: {item.dtype}, {' x '.join(map(str, item.shape)) or 'by value'}" for role, item in with_roles(spec)]
    return [f"{mark} {line}" for line in lines if line]


def _cuda(spec: wire.ProblemSpec, signature: str) -> list[str]:
    if not signature:
        return []
    dtypes = {tensor.dtype for tensor in (*spec.inputs, *spec.outputs)}
    headers = dict.fromkeys(("cstdint", "cuda_runtime.h", *(header for dtype, header in C_HEADERS.items() if dtype in dtypes)))
    outputs = " and ".join(output.name for output in spec.outputs)
    todo = f"    // Launch your kernels on the stream, and write every element of {outputs}."
    return [*(f"#include <{header}>" for header in headers), "", f"{signature} {{", todo, "}"]


def _torch_extension(spec: wire.ProblemSpec, signature: str) -> list[str]:
    if not signature:
        return []
    tensors = [tensor for tensor in spec.inputs if tensor.shape]
    options = f"{tensors[0].name}.options()" if tensors else "torch::TensorOptions().device(torch::kCUDA)"
    lines = []
    for output in spec.separate_outputs:
        sizes = [_size(axis, spec.inputs, "{name}.size({place})") for axis in output.shape]
        if "" in sizes or output.dtype not in TORCH_DTYPES:
            lines.append(f"torch::Tensor {output.name};  // {_words(output)}")
        else:
            lines.append(
                f"auto {output.name} = torch::empty({{{', '.join(sizes)}}}, {options}.dtype(torch::{TORCH_DTYPES[output.dtype]}));"
            )
    names = [output.name for output in spec.separate_outputs]
    lines += [f"// {_TODO}", *([f"return {names[0] if len(names) == 1 else '{' + ', '.join(names) + '}'};"] if names else [])]
    module = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }'
    return ["#include <torch/extension.h>", "", f"{signature} {{", *(f"    {line}" for line in lines), "}", "", module]


def _python_function(name: str, inputs: Sequence[wire.TensorSpec], spec: wire.ProblemSpec, first: str = "") -> list[str]:
    """A function's lines; one whose arguments only the problem's code knows takes them all."""
    receiver = [first] if first else []
    if spec.convention is wire.Convention.DATA:
        return [f"def {name}(data):", f"    # {_TODO}", "    raise NotImplementedError"]
    if not spec.outputs:
        return [f"def {name}({', '.join([*receiver, '*inputs'])}):", f"    # {_TODO}", "    raise NotImplementedError"]
    parameters = [
        *receiver,
        *(f"{tensor.name}: {'torch.Tensor' if tensor.shape else _PYTHON_SCALARS.get(tensor.dtype, 'int')}" for tensor in inputs),
    ]
    outputs = spec.separate_outputs
    if spec.convention is wire.Convention.DESTINATION or not outputs:
        parameters += [f"{output.name}: torch.Tensor" for output in outputs]
        return [f"def {name}({', '.join(parameters)}) -> None:", f"    # {_TODO}", "    pass"]
    lines, device = [], next((f"{tensor.name}.device" for tensor in inputs if tensor.shape), '"cuda"')
    for output in outputs:
        sizes = [_size(axis, inputs, "{name}.shape[{place}]") for axis in output.shape]
        if "" in sizes:
            lines.append(f"{output.name} = None  # {_words(output)}")
        else:
            shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
            lines.append(f"{output.name} = torch.empty({shape}, dtype=torch.{output.dtype}, device={device})")
    result = "torch.Tensor" if len(outputs) == 1 else "tuple[torch.Tensor, ...]"
    lines += [f"# {_TODO}", f"return {', '.join(tensor.name for tensor in outputs)}"]
    return [f"def {name}({', '.join(parameters)}) -> {result}:", *(f"    {line}" for line in lines)]


def _size(axis: str | int, inputs: Sequence[wire.TensorSpec], form: str) -> str:
    """How code gets the size of an axis from the inputs; "" where no input has it."""
    if isinstance(axis, int) or axis.isdecimal():
        return str(axis)
    for tensor in inputs:
        if axis in tensor.shape:
            return form.format(name=tensor.name, place=tensor.shape.index(axis))
    return axis if axis in [tensor.name for tensor in inputs] else ""


def _words(tensor_spec: wire.TensorSpec) -> str:
    return f"{tensor_spec.dtype} of shape ({', '.join(map(str, tensor_spec.shape))})"
