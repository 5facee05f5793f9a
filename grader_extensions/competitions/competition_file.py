"""Schema of `competition.toml`, key by key.  No message quotes what is secret."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import ErrorDetails

from grader import devices
from grader.formats.validation_messages import describe
from sandbox.protocol.devices import DeviceKind


def line_of(path: Path, key: tuple[str | int, ...]) -> int | None:
    """The line on which the key of a table, or of a table in an array of tables, is set; else that of the table; None where it can't
    tell, for it reads lines and no TOML."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    if not key:
        return None
    first, begin, end = str(key[0]), 0, len(lines)
    headers = [index for index, text in enumerate(lines) if re.match(r"\s*\[", text)]
    tables = [index for index in headers if re.match(rf"\s*\[\[\s*{re.escape(first)}\s*\]\]", lines[index])]
    if len(key) > 1 and isinstance(key[1], int) and key[1] < len(tables):
        begin = tables[key[1]]
        below = re.compile(rf"\s*\[\s*{re.escape(first)}\.")  # `[secret.axes]` is of the `[[secret]]` before it
        end = next((index for index in headers if index > begin and not below.match(lines[index])), len(lines))
        line = _set_in(lines, begin + 1, end, str(key[2])) if len(key) > 2 else None
        return begin + 1 if line is None else line
    return _set_in(lines, 0, headers[0] if headers else len(lines), first)


def _set_in(lines: list[str], begin: int, end: int, key: str) -> int | None:
    pattern = re.compile(rf"\s*(\"{re.escape(key)}\"|{re.escape(key)})\s*[.=]|\s*\[.*\.{re.escape(key)}\s*\]")
    return next((index + 1 for index in range(begin, end) if pattern.match(lines[index])), None)


_AXIS_LIMIT = 2**31 - 1
_SECRET_LIMIT = 64

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


_Size = Annotated[
    Annotated[int, Field(ge=0, le=_AXIS_LIMIT), Tag("size")] | Annotated[SizeRange, Tag("range")],
    Discriminator(lambda value: "range" if isinstance(value, dict | SizeRange) else "size"),
]


class Secret(_StrictSecretTable):
    """Workloads of a problem that are never disclosed. What is left out is as the problem has it."""

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
    """All of it, each key by itself; `disagreements` looks at them together."""

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
    for table in file.secret:
        if table.problem not in file.problems:
            text = f"'secret' is of {table.problem!r}, which is not in 'problems'; add it there"
            yield Disagreement(keys=("secret", "problems"), message=text)
    if file.secret and not file.secret_seed:
        text = "'secret_seed' is missing, which keeps the secret workloads; write 32 hex digits, such as `openssl rand -hex 16` prints"
        yield Disagreement(keys=("secret_seed",), message=text)
    counts = [sum(table.count for table in file.secret if table.problem == problem) for problem in file.problems]
    if max(counts) > _SECRET_LIMIT:
        text = f"'secret' makes more than {_SECRET_LIMIT} workloads of one problem; leave some out"
        yield Disagreement(keys=("secret", "problems"), message=text)


TomlKey = tuple[str | int, ...]
_TAG_INDEX = 4  # secret, 0, axes, n, and then the kind of size, which is no key
_AMOUNT = "write a whole number, or arithmetic over the axes in quotes, such as '8 * n'"
_SIZE = "write a whole number from 0 to 2147483647"
_REMEDIES = {
    "name": 'write lower case letters, digits, _ and -, beginning with a letter, such as name = "spring"',
    "title": "write one line of 1 to 200 characters in quotes",
    "statement": "write text in quotes",
    "problems": 'write a list of 1 to 100 ids of problems, such as problems = ["vector_add"]',
    "devices": f"write a list of 1 to 16 of: {devices.FORMS}",
    **dict.fromkeys(("start", "end", "freeze"), "write a time with an offset and without quotes, such as 2026-05-01T18:00:00+02:00"),
    "mode": 'write mode = "ranked", or leave it out',
    **dict.fromkeys(("hourly_limit", "daily_limit"), "write a whole number from 0 to 1000000"),
    "score": 'write "speedup" or "time"',
    "baseline": 'write "eager", "compile" or "max-autotune"',
    "tie_rule": 'write "share" or "earliest"',
    "visibility": 'write "private" or "after_end"',
    "processes": "write a whole number from 1 to 10",
    "secret_seed": "write 32 to 128 hex digits in lower case and in quotes, such as `openssl rand -hex 16` prints",
    "secret": "begin each secret workload with a line [[secret]], below all other keys",
}
_SECRET_REMEDIES = {
    "problem": "write the id of one of 'problems'",
    "axes": "write a size for every axis of the problem, such as axes = { n = 70000 }",
    "count": "write a whole number from 1 to 16",
    "device": 'write "cuda" or "emulated", or leave it out',
    "moved_bytes": _AMOUNT,
    "flops": _AMOUNT,
}
_RANGE_REMEDIES = {"low": _SIZE, "high": _SIZE, "step": "write a whole number, 1 or more"}
_AXIS = "write a size, or a range such as { low = 1000, high = 5000 }"


def key_of(mistake: ErrorDetails) -> TomlKey:
    """The key as the file has it."""
    return tuple(part for index, part in enumerate(mistake["loc"]) if index != _TAG_INDEX)


def sentence(key: TomlKey, mistake: ErrorDetails) -> str:
    """Return a mistake with its remedy, without its key."""
    text = "is missing" if mistake["type"] == "missing" else describe(mistake, CompetitionFile)
    match key:
        case (_, _, "axes", _):
            remedy = _AXIS
        case ("secret", _, _, _, *_, last):
            remedy = _RANGE_REMEDIES.get(str(last), "")
        case ("secret", _, name, *_):
            remedy = _SECRET_REMEDIES.get(str(name), "")
        case (name, *_):
            remedy = _REMEDIES.get(str(name), "")
        case _:
            remedy = ""
    return text if ";" in text or not remedy else f"{text}; {remedy}"
