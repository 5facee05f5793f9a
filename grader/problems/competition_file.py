"""What `competition.toml` may say, key by key.  No message quotes what is secret."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationInfo, model_validator

from grader import devices
from sandbox.protocol.devices import DeviceKind

_AXIS_LIMIT = 2**31 - 1
_SECRET_LIMIT = 64
FIELDS_ONLY = "fields only"  # a context of validation: each key by itself

CompetitionIdentifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]


def _zoned(value: object) -> object:
    if not isinstance(value, datetime):
        raise ValueError("is not a time; write a date, a time and an offset without quotes, such as 2026-05-01T18:00:00+02:00")
    if value.utcoffset() is None:
        raise ValueError(
            f"{value.isoformat()} has no offset from UTC; write {value.isoformat()}Z, or one such as {value.isoformat()}+02:00"
        )
    return value


_Time = Annotated[datetime, BeforeValidator(_zoned)]


class _StrictSecretTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class SizeRange(_StrictSecretTable):
    """A size that the secret seed draws."""

    low: int = Field(ge=0, le=_AXIS_LIMIT)
    high: int = Field(ge=0, le=_AXIS_LIMIT)
    step: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _not_empty(self) -> SizeRange:
        if self.high < self.low:
            raise ValueError("'high' is below 'low'; exchange them")
        return self

    def drawn(self, seed: str, place: str) -> int:
        """The size for one place: the same for everybody who knows the seed, and not to be guessed by those who do not."""
        number = int.from_bytes(hmac.new(seed.encode(), place.encode(), hashlib.sha256).digest(), "big")
        return self.low + self.step * (number % ((self.high - self.low) // self.step + 1))


def _size_or_range(value: object) -> str:
    return "range" if isinstance(value, dict | SizeRange) else "size"


_Size = Annotated[
    Annotated[int, Field(ge=0, le=_AXIS_LIMIT), Tag("size")] | Annotated[SizeRange, Tag("range")], Discriminator(_size_or_range)
]


class Secret(_StrictSecretTable):
    """One or more workloads of a problem that are never disclosed. What is left out is as the problem has it."""

    problem: str
    axes: dict[str, _Size] = Field(min_length=1, max_length=16)
    count: int = Field(default=1, ge=1, le=16)
    device: Annotated[DeviceKind, Field(strict=False)] | None = None
    moved_bytes: Annotated[int, Field(ge=0, lt=2**63)] | str | None = None
    flops: Annotated[int, Field(ge=0, lt=2**63)] | str | None = None

    @model_validator(mode="after")
    def _several_differ(self) -> Secret:
        if self.count > 1 and not any(isinstance(size, SizeRange) for size in self.axes.values()):
            raise ValueError("'count' is for axes that are drawn, such as n = { low = 1000, high = 5000 }; leave it out, or draw one")
        return self


class CompetitionFile(_StrictSecretTable):
    """All of it."""

    name: CompetitionIdentifier
    title: str = Field(min_length=1, max_length=200)
    statement: str = ""
    problems: list[str] = Field(min_length=1, max_length=100)
    devices: list[str] = Field(default=["cuda"], min_length=1, max_length=16)
    start: _Time
    end: _Time
    freeze: _Time | None = None
    mode: Literal["ranked"] = "ranked"  # the one that has scores
    hourly_limit: int = Field(default=0, ge=0, le=1_000_000)
    daily_limit: int = Field(default=0, ge=0, le=1_000_000)
    score: Literal["speedup", "time"] = "speedup"
    baseline: Literal["eager", "compile", "max-autotune"] = "eager"
    tie_rule: Literal["share", "earliest"] = "share"
    visibility: Literal["private", "after_end"] = "private"
    processes: int = Field(default=3, ge=1, le=10)
    secret_seed: str = Field(default="", pattern=r"^([0-9a-f]{32,128})?$")
    secret: list[Secret] = []

    @model_validator(mode="after")
    def _agrees(self, info: ValidationInfo) -> CompetitionFile:
        """What keys say of each other; left to the caller where the context is FIELDS_ONLY."""
        if info.context != FIELDS_ONLY:
            for one in disagreements(self):
                raise ValueError(one.message)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Keys that contradict each other. keys: the first is where it is changed."""

    keys: tuple[str, ...]
    message: str


def disagreements(file: CompetitionFile) -> Iterator[Disagreement]:
    """All of them, in the order of the keys."""
    if file.end <= file.start:
        yield Disagreement(keys=("end", "start"), message="'end' is not after 'start'; fix one")
    if file.freeze is not None and not file.start <= file.freeze < file.end:
        yield Disagreement(keys=("freeze", "start", "end"), message="'freeze' is not between 'start' and 'end'; fix it, or leave it out")
    if len(set(file.problems)) != len(file.problems):
        yield Disagreement(keys=("problems",), message="'problems' names one twice; leave one out")
    for kind in file.devices:
        if not devices.well_formed(kind):
            yield Disagreement(keys=("devices",), message=f"'devices' has {kind!r}, which is not a device; write {devices.FORMS}")
    if devices.EMULATED in file.devices and file.baseline != "eager":
        text = f"'baseline' is {file.baseline!r}, which the emulated device does not have; take 'eager'"
        yield Disagreement(keys=("baseline", "devices"), message=text)
    for one in file.secret:
        if one.problem not in file.problems:
            text = f"'secret' is of {one.problem!r}, which is not in 'problems'; add it there"
            yield Disagreement(keys=("secret", "problems"), message=text)
    if file.secret and not file.secret_seed:
        text = "'secret_seed' is missing, which keeps the secret workloads; write 32 hex digits, such as `openssl rand -hex 16` prints"
        yield Disagreement(keys=("secret_seed",), message=text)
    counts = [sum(one.count for one in file.secret if one.problem == problem) for problem in file.problems]
    if max(counts) > _SECRET_LIMIT:
        text = f"'secret' makes more than {_SECRET_LIMIT} workloads of one problem; leave some out"
        yield Disagreement(keys=("secret", "problems"), message=text)
