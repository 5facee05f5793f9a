"""Distributions of inputs, as problem.toml writes them.  Parsed here, drawn in `sandbox/judge/inputs.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from sandbox.protocol import wire

_Structure = Literal[
    "lower_triangular", "upper_triangular", "symmetric", "banded", "diagonal", "sparse", "permutation", "one_hot", "sorted"
]  # fmt: skip
_Kind = Literal["normal", "uniform", "integers", "heavy_tail", "constant", "index", "sorted", "permutation", "probabilities"]
_SCALED = ("normal", "heavy_tail")
_BY_AXIS = ("index", "sorted", "uniform")
_SQUARE = ("symmetric", "permutation")
_LEAST_RANK = {"sparse": 1, "one_hot": 1, "sorted": 1}  # of the others: 2
_STRUCTURE_KEYS = {"bandwidth": "banded", "density": "sparse"}
_EXTRAS = {
    "scale_spread": _SCALED,
    "offset": _SCALED,
    "needles": _SCALED,
    "needle_factor": _SCALED,
    "parts": ("mixture",),
}
_WHOLE = {"int64": 2**63, "int32": 2**31, "int16": 2**15, "int8": 2**7, "uint8": 2**8, "bool": 2}  # the first number that does not fit
_EXACT = 2**53  # an input without axes travels as a double
_High = Annotated[
    Annotated[float, Tag("number")] | Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$"), Tag("axis")],
    Discriminator(lambda value: "axis" if isinstance(value, str) else "number"),
]


class Part(BaseModel):
    """A distribution that is no mixture. What is None is as `wire.Distribution` has it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

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


class DistributionSchema(Part):
    """Where an input's values come from."""

    kind: _Kind | Literal["mixture"] = "normal"  # type: ignore[assignment]
    parts: list[Part] | None = Field(default=None, min_length=2, max_length=8)
    structure: _Structure | None = None
    bandwidth: int | None = Field(default=None, ge=0, le=2**31 - 1)
    density: float | None = Field(default=None, gt=0, le=1)

    @model_validator(mode="after")
    def _a_mixture_has_parts(self) -> DistributionSchema:
        if self.kind == "mixture" and self.parts is None:
            raise ValueError("a mixture needs 'parts', such as [{ weight = 0.9, scale = 1.0 }, { weight = 0.1, scale = 100.0 }]")
        if self.weight is not None:
            raise ValueError("'weight' is for the parts of a mixture; leave it out")
        return self

    @model_validator(mode="after")
    def _structure_has_its_keys(self) -> DistributionSchema:
        for key, structure in _STRUCTURE_KEYS.items():
            given = getattr(self, key) is not None
            if given and self.structure != structure:
                raise ValueError(f"{key!r} is a key of the structure {structure!r}; leave it out, or set structure = {structure!r}")
            if not given and self.structure == structure:
                raise ValueError(f"the structure {structure!r} needs {key!r}; add it")
        return self

    def check_shape(self, shape: Sequence[int]) -> None:
        """ValueError where a tensor of this shape can't have the structure."""
        if self.structure is None:
            return
        least = _LEAST_RANK.get(self.structure, 2)
        if len(shape) < least:
            raise ValueError(f"the structure {self.structure!r} is for tensors of {least} or more axes; this one has {len(shape)}")
        if self.structure in _SQUARE and shape[-1] != shape[-2]:
            raise ValueError(f"the structure {self.structure!r} is for square matrices; these are {shape[-2]} x {shape[-1]}")

    def check(self, dtype: str, axes: Mapping[str, int]) -> None:
        """ValueError where no tensor of this dtype can be drawn from it at a workload's axes."""
        for one in (self, *(self.parts or ())):
            if (one.kind != "constant" or dtype in _WHOLE) and not _is_finite(one):
                raise ValueError(f"'low' and 'high' of the kind {one.kind!r} have to be finite; only a constant float may be inf or nan")
            if isinstance(one.high, str) and one.high not in axes:
                raise ValueError(f"'high' is {one.high!r}, which is not in axes; add it there, or give a number")
            if one.kind == "uniform" and isinstance(one.high, str) and dtype in _WHOLE:
                raise ValueError(f"the whole numbers of {dtype} below an axis are of the kind 'index'; take that instead of 'uniform'")
            if one.kind == "uniform" and dtype in _WHOLE:
                text = f"the kind 'uniform' is for floats, and {dtype} is none"
                raise ValueError(f"{text}; take 'integers', from 'low' to 'high', both of them, or 'index', from 'low' to below 'high'")
            if one.kind == "probabilities" and dtype in _WHOLE:
                raise ValueError(f"probabilities are floats; give the tensor another dtype than {dtype}, or another distribution")
            if one.kind == "index" or (one.kind == "sorted" and dtype in _WHOLE):
                _check_index(one, dtype, axes)

    def check_scalar(self, dtype: str) -> None:
        """ValueError where an input without axes may be drawn as a whole number that would not reach the kernel as it is."""
        if dtype not in _WHOLE:
            return
        for one in (self, *(self.parts or ())):
            for key, bound in (("low", one.low), ("high", one.high)):
                if not isinstance(bound, str) and abs(bound) > _EXACT:
                    text = f"{key!r} is {bound:.0f}; an integer without axes is given exactly up to 2 ** 53 only"
                    raise ValueError(f"{text}; take a nearer one, or give the input an axis")

    def on_wire(self) -> wire.Distribution:
        """As the judge gets it."""
        return _on_wire(self, tuple(_on_wire(part) for part in self.parts or ()))


def _is_finite(one: Part) -> bool:
    return math.isfinite(one.low) and (isinstance(one.high, str) or math.isfinite(one.high))


def _check_index(one: Part, dtype: str, axes: Mapping[str, int]) -> None:
    high = axes[one.high] if isinstance(one.high, str) else one.high
    if one.low != int(one.low) or high != int(high):
        raise ValueError(f"'low' and 'high' of the kind {one.kind!r} are whole numbers; it has {one.low:g} and {high:g}")
    if high <= one.low:
        raise ValueError(f"the kind {one.kind!r} needs a whole number from {one.low:g} to below {high:g}; make 'high' larger")
    limit = _WHOLE.get(dtype)
    if limit is not None and (high > limit or one.low < (0 if dtype in ("uint8", "bool") else -limit)):
        raise ValueError(f"whole numbers from {one.low:g} to below {high:g} do not fit into {dtype}; take a wider one")


def _on_wire(of: Part, parts: tuple[wire.Distribution, ...] = ()) -> wire.Distribution:
    given = of.model_dump(exclude_none=True, exclude={"parts"})
    if isinstance(of.high, str):
        given["high_axis"] = given.pop("high")
    return wire.Distribution(**given, parts=parts)
