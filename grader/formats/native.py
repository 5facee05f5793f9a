"""The native format: a directory with problem.toml and reference.py."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from grader.errors import ProblemInvalid
from grader.formats.arithmetic import ExpressionInvalid, evaluate
from grader.formats.inside import require_inside
from grader.formats.validation_messages import StrictModel, describe
from grader.model import Problem, Sweep
from grader.rules.sweep import LARGEST_SIZE, SweepInvalid, check_bytes, sizes
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind
from sandbox.protocol.languages import languages

_Structure = Literal[
    "lower_triangular", "upper_triangular", "symmetric", "banded", "diagonal", "sparse", "permutation", "one_hot", "sorted"
]  # fmt: skip
_Kind = Literal["normal", "uniform", "integers", "heavy_tail", "constant", "index", "sorted", "permutation", "probabilities"]
_SCALED = ("normal", "heavy_tail")
_BY_AXIS = ("index", "sorted", "uniform")
_SQUARE = ("symmetric", "permutation")
_LEAST_RANK = {"sparse": 1, "one_hot": 1, "sorted": 1}  # of the others: 2
_STRUCTURE_KEYS = {"bandwidth": "banded", "density": "sparse"}
_EXTRAS = {**dict.fromkeys(("scale_spread", "offset", "needles", "needle_factor"), _SCALED), "parts": ("mixture",)}
_WHOLE = {"int64": 2**63, "int32": 2**31, "int16": 2**15, "int8": 2**7, "uint8": 2**8, "bool": 2}  # the first number that does not fit
_EXACT = 2**53  # an input without axes travels as a double
_High = Annotated[
    Annotated[float, Tag("number")] | Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$"), Tag("axis")],
    Discriminator(lambda value: "axis" if isinstance(value, str) else "number"),
]


class Part(StrictModel):
    """A distribution that is no mixture. What is None is as `wire.Distribution` has it."""

    kind: _Kind = "normal"
    low: float = 0.0
    high: _High = 1.0
    scale: float = Field(default=1.0, gt=0)
    scale_spread: float | None = Field(default=None, ge=0, le=16)
    offset: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    needles: int | None = Field(default=None, ge=0, le=4096)
    needle_factor: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    weight: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _keys_fit_the_kind(self) -> Part:
        for key, kinds in _EXTRAS.items():
            if getattr(self, key, None) is not None and self.kind not in kinds:
                raise ValueError(f"{key!r} means nothing to the kind {self.kind!r}, only to {' and '.join(kinds)}; leave it out")
        if isinstance(self.high, str) and self.kind not in _BY_AXIS:
            raise ValueError(f"'high' may name an axis for {', '.join(_BY_AXIS)} only; give the kind {self.kind!r} a number")
        return self

    def on_wire(self) -> wire.Distribution:
        """As the judge gets it."""
        fields = self.model_dump(exclude_none=True, exclude={"parts"})
        if isinstance(self.high, str):
            fields["high_axis"] = fields.pop("high")
        return wire.Distribution(**fields, parts=tuple(part.on_wire() for part in getattr(self, "parts", None) or ()))


class DistributionSchema(Part):
    """Where an input's values come from."""

    kind: _Kind | Literal["mixture"] = "normal"  # type: ignore[assignment]
    parts: list[Part] | None = Field(default=None, min_length=2, max_length=8)
    structure: _Structure | None = None
    bandwidth: int | None = Field(default=None, ge=0, le=2**31 - 1)
    density: float | None = Field(default=None, gt=0, le=1)

    @model_validator(mode="after")
    def _keys_belong_together(self) -> DistributionSchema:
        if self.kind == "mixture" and self.parts is None:
            raise ValueError("a mixture needs 'parts', such as [{ weight = 0.9, scale = 1.0 }, { weight = 0.1, scale = 100.0 }]")
        if self.weight is not None:
            raise ValueError("'weight' is for the parts of a mixture; leave it out")
        for key, structure in _STRUCTURE_KEYS.items():
            is_set = getattr(self, key) is not None
            if is_set and self.structure != structure:
                raise ValueError(f"{key!r} is a key of the structure {structure!r}; leave it out, or set structure = {structure!r}")
            if not is_set and self.structure == structure:
                raise ValueError(f"the structure {structure!r} needs {key!r}; add it")
        return self

    def check(self, dtype: str, shape: Sequence[int], axes: Mapping[str, int]) -> None:
        """ValueError where no tensor of this dtype and shape can be drawn from it at a workload's axes, or a number without axes would not
        reach the kernel as it is."""
        if not shape and dtype.startswith("float8"):
            raise ValueError(f"a number that goes by value is no {dtype}; take float32, or give it an axis")
        for part in (self, *(self.parts or ())):
            is_finite = math.isfinite(part.low) and (isinstance(part.high, str) or math.isfinite(part.high))
            if (part.kind != "constant" or dtype in _WHOLE) and not is_finite:
                raise ValueError(f"'low' and 'high' of the kind {part.kind!r} have to be finite; only a constant float may be inf or nan")
            if isinstance(part.high, str) and part.high not in axes:
                raise ValueError(f"'high' is {part.high!r}, which is not in axes; add it there, or give a number")
            if part.kind == "uniform" and isinstance(part.high, str) and dtype in _WHOLE:
                raise ValueError(f"the whole numbers of {dtype} below an axis are of the kind 'index'; take that instead of 'uniform'")
            if part.kind == "uniform" and dtype in _WHOLE:
                text = f"the kind 'uniform' is for floats, and {dtype} is none"
                raise ValueError(f"{text}; take 'integers', from 'low' to 'high', both of them, or 'index', from 'low' to below 'high'")
            if part.kind == "probabilities" and dtype in _WHOLE:
                raise ValueError(f"probabilities are floats; give the tensor another dtype than {dtype}, or another distribution")
            if part.kind == "index" or (part.kind == "sorted" and dtype in _WHOLE):
                _check_index(part, dtype, axes)
            for key, bound in (("low", part.low), ("high", part.high)):
                if not shape and dtype in _WHOLE and not isinstance(bound, str) and abs(bound) > _EXACT:
                    text = f"{key!r} is {bound:.0f}; an integer without axes is given exactly up to 2 ** 53 only"
                    raise ValueError(f"{text}; take a nearer one, or give the input an axis")
        least = _LEAST_RANK.get(self.structure, 2) if self.structure else 0
        if len(shape) < least:
            raise ValueError(f"the structure {self.structure!r} is for tensors of {least} or more axes; this one has {len(shape)}")
        if self.structure in _SQUARE and shape[-1] != shape[-2]:
            raise ValueError(f"the structure {self.structure!r} is for square matrices; these are {shape[-2]} x {shape[-1]}")


def _check_index(part: Part, dtype: str, axes: Mapping[str, int]) -> None:
    high = axes[part.high] if isinstance(part.high, str) else part.high
    if part.low != int(part.low) or high != int(high):
        raise ValueError(f"'low' and 'high' of the kind {part.kind!r} are whole numbers; it has {part.low:g} and {high:g}")
    if high <= part.low:
        raise ValueError(f"the kind {part.kind!r} needs a whole number from {part.low:g} to below {high:g}; make 'high' larger")
    limit = _WHOLE.get(dtype)
    if limit is not None and (high > limit or part.low < (0 if dtype in ("uint8", "bool") else -limit)):
        raise ValueError(f"whole numbers from {part.low:g} to below {high:g} do not fit into {dtype}; take a wider one")


NAME = "native"
FILE_NAME = "problem.toml"
LAYOUT = f"a directory with {FILE_NAME} and reference.py"
SECRET_SIZES = True
RANK_LIMIT, AXIS_LIMIT, OUTPUT_LIMIT = 8, 16, 8  # what the gate between judge and runner has room for

_Identifier = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]
_DType = Literal[
    "float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip
_Size = Annotated[
    Annotated[str, Tag("axis")] | Annotated[int, Field(ge=0, le=2**31 - 1), Tag("size")],
    Discriminator(lambda value: "axis" if isinstance(value, str) else "size"),
]


class _Output(StrictModel):
    name: _Identifier
    dtype: _DType = "float32"
    shape: list[_Size] = Field(max_length=RANK_LIMIT)


class _TensorTable(_Output):
    distribution: DistributionSchema = DistributionSchema()
    role: Literal["inout"] | None = None  # the entry changes it in place


class _ToleranceTable(StrictModel):
    atol: float = Field(default=1e-5, ge=0, allow_inf_nan=False)
    rtol: float = Field(default=1e-5, ge=0, allow_inf_nan=False)
    budget_factor: float = Field(default=32.0, gt=0)  # inf: no budget
    budget_floor: float = Field(default=2e-6, ge=0, allow_inf_nan=False)
    allow_lower_precision: bool | None = None

    def on_wire(self, override: _OwnTolerance | None = None) -> wire.Tolerance:
        """As the judge gets it, with what a workload says of its own."""
        fields: dict[str, Any] = {**self.model_dump(exclude_none=True), **(override.model_dump(exclude_none=True) if override else {})}
        has_budget = "budget_factor" in self.model_fields_set or (override is not None and override.budget_factor is not None)
        # The default budget rejects half precision.
        none = math.isinf(fields["budget_factor"]) or (bool(self.allow_lower_precision) and not has_budget)
        return wire.Tolerance(**{**fields, "budget_factor": None if none else fields["budget_factor"]})


class _OwnTolerance(StrictModel):
    """Differences from the problem's tolerance at one workload; None is the problem's."""

    atol: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    rtol: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    budget_factor: float | None = Field(default=None, gt=0)
    budget_floor: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class _WorkloadTable(StrictModel):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
    axes: dict[_Identifier, Annotated[int, Field(ge=0, le=2**31 - 1)]]
    hidden: bool = False
    device: Annotated[DeviceKind, Field(strict=False)] | None = None
    tolerance: _OwnTolerance | None = None
    distributions: dict[str, DistributionSchema] | None = None  # of inputs that are drawn from another one here


class _SweepRange(StrictModel):
    """Sizes to measure for a plot; decides no verdict of a submission that is no sweep."""

    axis: _Identifier
    start: int
    stop: int
    factor: float | None = None
    step: int | None = None
    axes: dict[_Identifier, Annotated[int, Field(ge=1, le=LARGEST_SIZE)]] = Field(default={})
    device: Annotated[DeviceKind, Field(strict=False)] | None = None

    def on_model(self) -> Sweep:
        """As the server has it."""
        fields = self.model_dump(exclude={"device"})
        return Sweep(**fields, device_kind=self.device or "")


class _ProblemFile(StrictModel):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
    title: str = Field(min_length=1, max_length=200)
    statement: str = ""
    entry: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")] = "solve"
    axes: list[_Identifier] = Field(max_length=AXIS_LIMIT)
    inputs: list[_TensorTable] = Field(min_length=1, max_length=16)
    outputs: list[_Output] = Field(default=[])
    workloads: list[_WorkloadTable] = Field(min_length=1)
    tolerance: _ToleranceTable = _ToleranceTable()
    trials: int = Field(default=3, ge=2, le=100)
    trial_s: float = Field(default=10.0, gt=0, le=600)
    moved_bytes: str | None = None
    flops: str | None = None
    libraries: Literal["allowed", "labelled", "forbidden"] | None = None
    baselines: list[Literal["max-autotune"]] | None = None  # next to eager and compile
    cascade: bool | None = None  # the emulated device first, before a GPU
    sweep: list[_SweepRange] = Field(default=[], max_length=16)

    @model_validator(mode="after")
    def _names_agree(self) -> _ProblemFile:
        axis_names = set(self.axes)
        if len(axis_names) != len(self.axes):
            raise ValueError("axes has a name twice; leave one out")
        tensors: list[_Output] = [*self.inputs, *self.outputs]
        for tensor in tensors:
            if unknown := [axis for axis in tensor.shape if isinstance(axis, str) and axis not in axis_names]:
                raise ValueError(f"the shape of {tensor.name!r} uses {unknown[0]!r}, which is not in axes; add it there")
        for workload in self.workloads:
            if set(workload.axes) != axis_names:
                raise ValueError(f"workload {workload.id!r} must give exactly the axes {sorted(axis_names)}")
        if by_value := [tensor.name for tensor in self.inputs if tensor.role and not tensor.shape]:
            raise ValueError(f"{by_value[0]!r} has no axes, so it goes by value and can't be changed in place; give it an axis")
        output_count = len(self.outputs) + sum(tensor.role is not None for tensor in self.inputs)
        if not 1 <= output_count <= OUTPUT_LIMIT:
            raise ValueError(f"a problem has 1 to {OUTPUT_LIMIT} outputs and inputs with role = 'inout'; this one has {output_count}")
        names = [tensor.name for tensor in tensors]
        if len(set(names)) != len(names):
            raise ValueError(f"two tensors are called {max(names, key=names.count)!r}; rename one (in place: role = 'inout')")
        if len({workload.id for workload in self.workloads}) != len(self.workloads):
            raise ValueError("two workloads have the same id; rename one")
        return self

    @model_validator(mode="after")
    def _distributions_can_be_drawn(self) -> _ProblemFile:
        inputs = {tensor.name: tensor for tensor in self.inputs}
        for workload in self.workloads:
            distributions = workload.distributions or {}
            if unknown := sorted(set(distributions) - set(inputs)):
                raise ValueError(f"workload {workload.id!r} has a distribution for {unknown[0]!r}; the inputs are {sorted(inputs)}")
            self._check_size(f"workload {workload.id!r}", workload.axes, distributions)
        return self

    def _check_size(self, where: str, axes: Mapping[str, int], distributions: Mapping[str, DistributionSchema]) -> None:
        for tensor in self.inputs:
            distribution = distributions.get(tensor.name, tensor.distribution)
            try:
                distribution.check(tensor.dtype, [axes[size] if isinstance(size, str) else size for size in tensor.shape], axes)
            except ValueError as wrong:
                raise ValueError(f"input {tensor.name!r} at {where}: {wrong}") from None

    @model_validator(mode="after")
    def _sweeps_can_be_run(self) -> _ProblemFile:
        for number, table in enumerate(self.sweep, 1):
            if table.axis not in self.axes:
                raise ValueError(f"sweep {number} has the axis {table.axis!r}, which is not in axes; add it there")
            if set(table.axes) != set(self.axes) - {table.axis}:
                other_axes = ", ".join(sorted(set(self.axes) - {table.axis})) or "none"
                raise ValueError(f"sweep {number} must give exactly the other axes: {other_axes}")
            try:
                swept = sizes(table.on_model())
            except SweepInvalid as wrong:
                raise ValueError(f"sweep {number}, {wrong.key}: {wrong}") from None
            for size in swept:
                self._check_size(f"sweep {number} at {table.axis} = {size}", {**table.axes, table.axis: size}, {})
        return self

    @model_validator(mode="after")
    def _expressions_have_values(self) -> _ProblemFile:
        for key, text in (("moved_bytes", self.moved_bytes), ("flops", self.flops)):
            for workload in self.workloads:
                try:
                    _amount(text, workload)
                except ExpressionInvalid as wrong:
                    raise ValueError(f"{key} {wrong}") from None
        return self


def matches(path: Path) -> bool:
    """Return whether a problem of this format lies at path."""
    return (path / FILE_NAME).is_file()


def load(path: Path, *, root: Path | None = None) -> Problem:
    """Read the problem in directory path. root: the set, outside of which no file is read; None: the directory itself."""
    toml_path, reference_path = path / "problem.toml", path / "reference.py"
    for file in (toml_path, reference_path):
        require_inside(file, root or path, file)
    try:
        text, reference = toml_path.read_text("utf-8"), reference_path.read_text("utf-8")
        parsed = _ProblemFile.model_validate(tomllib.loads(text))
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemInvalid(str(path), f"can't be read: {error}; a native problem is problem.toml and reference.py") from None
    except tomllib.TOMLDecodeError as error:
        raise ProblemInvalid(str(toml_path), f"is not TOML: {error}") from None
    except ValidationError as error:
        mistakes = error.errors()
        first = mistakes[0]
        if first["type"] == "missing":  # a key that is misspelt is missing as well; then the misspelt one is named
            unknown = (mistake for mistake in mistakes if mistake["type"] == "extra_forbidden")
            first = next((mistake for mistake in unknown if mistake["loc"][:-1] == first["loc"][:-1]), first)
        place = first["loc"]  # of a size and of 'high' the last part is which of two kinds it was taken for, and no key
        tagged = place[-3:-2] == ("shape",) or place[-2:-1] == ("high",)
        key = ".".join(map(str, place[:-1] if tagged else place))
        text = describe(first, _ProblemFile)
        raise ProblemInvalid(str(toml_path), f"{key}: {text}" if key else text) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists without end
        raise ProblemInvalid(str(toml_path), f"is not TOML that can be read: {error}") from None
    problem = Problem(
        problem_id=parsed.name,
        title=parsed.title,
        languages=tuple(languages()),
        spec=_spec(parsed, reference),
        statement=parsed.statement,
        moved_bytes=parsed.moved_bytes or "",
        flops=parsed.flops or "",
        sweeps=tuple(table.on_model() for table in parsed.sweep),
        cascade=parsed.cascade or False,
    )
    for number, sweep in enumerate(problem.sweeps, 1):
        try:
            for size, kind in itertools.product(sizes(sweep), [sweep.device_kind] if sweep.device_kind else DeviceKind):
                swept_amounts(problem, {**sweep.axes, sweep.axis: size}, sweep.axis, kind)
        except SweepInvalid as wrong:
            raise ProblemInvalid(str(toml_path), f"sweep {number}, {wrong.key}: {wrong}") from None
    return problem


def swept_amounts(problem: Problem, axes: Mapping[str, int], axis: str, kind: str) -> tuple[int | None, int | None]:
    """Return moved_bytes and flops at a size of a sweep. SweepInvalid where its tensors are too large, or one of both has no value."""
    check_bytes(problem.spec, axes, axis, kind)
    try:
        return tuple(evaluate(text, axes) if text else None for text in (problem.moved_bytes, problem.flops))  # type: ignore[return-value]
    except ExpressionInvalid as invalid:
        raise SweepInvalid("stop", f"at {axis} = {axes[axis]} moved_bytes or flops {invalid}") from None


def _spec(parsed: _ProblemFile, reference: str) -> wire.ProblemSpec:
    # Without None: what a problem does not say is no part of its digest, so that a new key does not make old problems other ones.
    canonical: dict[str, Any] = {
        **parsed.model_dump(mode="json", exclude={"title", "statement", "sweep"}, exclude_none=True),
        "reference": reference,
    }
    return wire.ProblemSpec(
        problem_id=parsed.name,
        format=NAME,
        entry=parsed.entry,
        inputs=tuple(_inputs(parsed, reference)),
        outputs=tuple(_tensor(table) for table in (*(table for table in parsed.inputs if table.role), *parsed.outputs)),
        workloads=tuple(_workload(parsed, workload) for workload in parsed.workloads),
        tolerance=parsed.tolerance.on_wire(),
        reference=reference,
        axes=tuple(parsed.axes),
        trial_count=parsed.trials,
        trial_s=parsed.trial_s,
        libraries=wire.Libraries(parsed.libraries or "allowed"),
        baselines=tuple(parsed.baselines or ()),
        digest=hashlib.sha256(json.dumps(canonical, sort_keys=True).encode()).hexdigest(),
    )


def _inputs(parsed: _ProblemFile, reference: str) -> Iterator[wire.TensorSpec]:
    """Yield the inputs, and as numbers among them the axes that `reference` asks for: by parameters more than inputs, of axes' names."""
    names = {tensor.name for tensor in parsed.inputs}
    asks = [name if name in {*parsed.axes} - names else "" for name in _parameters(reference)]
    if asks.count("") != len(names):
        asks = [""] * len(names)
    tensors = iter(parsed.inputs)
    for axis in asks:
        if axis:
            yield wire.TensorSpec(name=axis, dtype="int64", shape=(), distribution=wire.Distribution(kind="constant", high_axis=axis))
            continue
        tensor = next(tensors)
        yield replace(_tensor(tensor), distribution=tensor.distribution.on_wire(), inout=tensor.role is not None)


def _parameters(reference: str) -> list[str]:
    """The parameters of `def reference` that have no default; none where it can't be read, which the check says better."""
    try:
        functions = [node.args for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef) and node.name == "reference"]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = [parameter.arg for last in functions[-1:] for parameter in (*last.posonlyargs, *last.args)]
    return names[: len(names) - len(functions[-1].defaults)] if names else []


def _tensor(table: _Output) -> wire.TensorSpec:
    return wire.TensorSpec(name=table.name, dtype=table.dtype, shape=tuple(table.shape))


def _workload(parsed: _ProblemFile, table: _WorkloadTable) -> wire.Workload:
    return wire.Workload(
        workload_id=table.id,
        axes=table.axes,
        hidden=table.hidden,
        moved_bytes=_amount(parsed.moved_bytes, table),
        flops=_amount(parsed.flops, table),
        device_kind=table.device or "",
        tolerance=None if table.tolerance is None else parsed.tolerance.on_wire(table.tolerance),
        distributions={name: of.on_wire() for name, of in (table.distributions or {}).items()},
    )


def _amount(text: str | None, workload: _WorkloadTable) -> int | None:
    return None if text is None else evaluate(text, workload.axes)
