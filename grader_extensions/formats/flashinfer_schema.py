"""Schema of definitions and their workloads, key by key: FlashInfer-Trace's, and SOL's superset of it.  Parsed, never executed."""

from __future__ import annotations

import ast
import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from grader.formats.arithmetic import LENGTH_LIMIT, ExpressionInvalid, evaluate
from grader.formats.validation_messages import StrictModel
from sandbox.protocol.signatures import C_TYPES

RUN = "run"
SAFE_DTYPES = {*C_TYPES} - {"uint8"}
TENSOR_LIMIT, RANK_LIMIT = 24, 8
LARGEST_AXIS = 2**31 - 1
LONGEST_NUMBER = 10  # in digits, of a shape
EXACT = 2**53  # scalars travel as doubles
_NAME = re.compile(r"\b[A-Za-z_]\w*")  # of an axis in an expression

_Text = Annotated[str, Field(min_length=1)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
_Size = Annotated[int, Field(ge=0, le=LARGEST_AXIS)]
_Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]
DType = Literal[
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1", "float4_e2m1fn_x2",
    "int64", "int32", "int16", "int8", "bool",
]  # fmt: skip


class Const(StrictModel):
    """An axis that never changes."""

    type: Literal["const"]
    value: _Size
    description: str | None = None


class Var(StrictModel):
    """An axis that each workload gives."""

    type: Literal["var"]
    description: str | None = None


class Expr(StrictModel):
    """An axis that follows from others; SOL's."""

    type: Literal["expr"]
    expression: Annotated[str, Field(min_length=1, max_length=LENGTH_LIMIT)]
    description: str | None = None


class TensorSchema(StrictModel):
    """An input or output. shape: names of axes and whole numbers; None is a scalar."""

    shape: list[_Text] | None
    dtype: DType
    description: str | None = None


def _parameters(arguments: ast.arguments) -> list[str]:
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]


class Definition(StrictModel):
    """definition.json."""

    name: _Text
    op_type: _Text | None = None
    axes: dict[_Name, Annotated[Const | Var | Expr, Field(discriminator="type")]] = Field(max_length=64)
    custom_inputs_entrypoint: _Name | None = None
    inputs: dict[_Name, TensorSchema] = Field(min_length=1, max_length=23)
    outputs: dict[_Name, TensorSchema] = Field(min_length=1, max_length=8)
    reference: _Text
    constraints: list[_Text] | None = None
    tags: list[str] | None = None
    description: str | None = None
    hf_id: str | None = None

    @model_validator(mode="after")
    def _names_agree(self) -> Definition:
        if both := set(self.inputs) & set(self.outputs):
            raise ValueError(f"{sorted(both)[0]!r} is an input and an output; rename one")
        for name, tensor in {**self.inputs, **self.outputs}.items():
            for axis in tensor.shape or ():
                number = axis.isdecimal() and axis.isascii() and len(axis) < LONGEST_NUMBER
                if not number and axis not in self.axes:
                    raise ValueError(f"the shape of {name!r} uses {axis!r}, which is not in axes; add it there")
        for text in self.constraints or ():
            try:
                ast.parse(text, mode="eval")
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                raise ValueError(f"constraint {text!r} is not an expression; fix it, or leave it out") from None
        return self

    @model_validator(mode="after")
    def _reference_fits(self) -> Definition:
        functions = _definitions(self.reference)
        if RUN not in functions:
            raise ValueError(f"reference has no top-level function {RUN!r}; define it")
        arguments, names = functions[RUN].args, _parameters(functions[RUN].args)
        if arguments.vararg is None and not len(names) - len(arguments.defaults) <= len(self.inputs) <= len(names):
            raise ValueError(f"reference's run({', '.join(names)}) does not take the {len(self.inputs)} inputs {', '.join(self.inputs)}")
        if self.custom_inputs_entrypoint is not None and self.custom_inputs_entrypoint not in functions:
            raise ValueError(f"custom_inputs_entrypoint: reference has no top-level function {self.custom_inputs_entrypoint!r}; define it")
        return self

    def parameters(self) -> list[str]:
        """Return run's names of its inputs."""
        return _parameters(_definitions(self.reference)[RUN].args)

    def sizes(self, var_sizes: dict[str, int]) -> dict[str, int]:
        """Every axis at a workload's var axes; ExpressionInvalid where one has no value."""
        sizes = {name: axis.value for name, axis in self.axes.items() if isinstance(axis, Const)} | var_sizes
        expressions = {name: axis.expression for name, axis in self.axes.items() if isinstance(axis, Expr)}
        needed = {name: set(_NAME.findall(expression)) for name, expression in expressions.items()}
        for name, names in needed.items():
            if unknown := sorted(names - self.axes.keys()):
                raise ExpressionInvalid(f"axis {name!r} uses {unknown[0]!r}, which is not in axes; add it there")
        while waiting := expressions.keys() - sizes.keys():
            ready = [name for name in waiting if needed[name] <= sizes.keys()]
            if not ready:
                raise ExpressionInvalid(f"axes {', '.join(sorted(waiting))} are defined by each other; give one of them a value")
            sizes |= {name: _at(name, expressions[name], sizes) for name in ready}
        return {name: sizes[name] for name in self.axes}


class Drawn(StrictModel):
    """Drawn anew for every trial; custom: by the definition's custom_inputs_entrypoint, which is SOL's."""

    type: Literal["random", "custom"]


class Scalar(StrictModel):
    """A number that never changes."""

    type: Literal["scalar"]
    value: bool | int | Annotated[float, Field(allow_inf_nan=False)]

    @field_validator("value")
    @classmethod
    def _travels(cls, value: bool | int | float) -> bool | int | float:
        if isinstance(value, int) and abs(value) > EXACT:
            raise ValueError(f"{value} is over 2 ** 53, beyond which scalars are not exact; write a smaller one")
        return value


class Safetensors(StrictModel):
    """A tensor of a file."""

    type: Literal["safetensors"]
    path: _Text
    tensor_key: _Text


class ToleranceSchema(StrictModel):
    """SOL's, of one workload."""

    max_atol: _Finite = 1e-2
    max_rtol: _Finite = 1e-2
    required_matched_ratio: Annotated[float, Field(gt=0, le=1)] = 0.99
    max_error_cap: _Finite | None = None
    allow_negative_inf: bool = False


class WorkloadSchema(StrictModel):
    """A line of workload.jsonl."""

    axes: dict[_Name, _Size]
    inputs: dict[_Name, Annotated[Drawn | Scalar | Safetensors, Field(discriminator="type")]]
    uuid: Annotated[str, Field(min_length=1, max_length=200)]
    tolerance: ToleranceSchema | None = None

    @model_validator(mode="after")
    def _custom_is_all(self) -> WorkloadSchema:
        kinds = {input_value.type for input_value in self.inputs.values()}
        if "custom" in kinds and kinds & {"random", "safetensors"}:
            raise ValueError("inputs has custom ones next to random ones or safetensors; make all of them custom")
        return self


class Row(StrictModel):
    """A line of a trace set: a trace without solution."""

    definition: str
    workload: WorkloadSchema
    solution: None = None
    evaluation: None = None


def _definitions(text: str) -> dict[str, ast.FunctionDef]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" at its line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ValueError(f"reference is not Python{line}: {error}; fix it") from None
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _at(axis: str, expression: str, sizes: dict[str, int]) -> int:
    try:
        value = evaluate(expression, sizes, with_signs=True)
    except ExpressionInvalid as wrong:
        raise ExpressionInvalid(f"axis {axis!r} {wrong}") from None
    if value > LARGEST_AXIS:
        raise ExpressionInvalid(f"axis {axis!r} is {value}; the largest is 2 ** 31 - 1")
    return value


def not_judged(definition: Definition) -> str | None:
    """Why a definition can't be judged here; None where it can."""
    tensors = {**definition.inputs, **definition.outputs}
    if definition.op_type == "sampling":
        return "op_type: 'sampling' is judged by the distribution of many samples, which is not done here; leave the problem out"
    if definition.name.startswith("dsa_topk_indexer"):
        return "name: dsa_topk_indexer problems are judged by the scores of what is chosen, which is not done here; leave the problem out"
    if len(tensors) > TENSOR_LIMIT:
        return f"inputs: there are {len(tensors)} inputs and outputs; {TENSOR_LIMIT} can be judged"
    for name, tensor in tensors.items():
        if tensor.dtype not in SAFE_DTYPES:  # the shape of float4 counts numbers, and torch's counts bytes
            dtypes = ", ".join(sorted(SAFE_DTYPES))
            return f"{name}.dtype: {tensor.dtype} can't be judged here; what can is of {dtypes}"
        if len(tensor.shape or ()) > RANK_LIMIT:
            return f"{name}.shape: has {len(tensor.shape or ())} dimensions; at most {RANK_LIMIT} can be judged"
    return None
