"""Schema of `competition.toml`, key by key, and the workloads of its secrets.  No message quotes a size, a seed or the id of a secret."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import ErrorDetails

from grader import devices
from grader.formats import formats
from grader.formats.arithmetic import ExpressionInvalid, evaluate
from grader.formats.validation_messages import describe
from grader.model import Problem
from grader_extensions.competitions.model import Competition
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind


def line_of(path: Path, key: tuple[str | int, ...]) -> int | None:
    """The line on which the key of a table, or of a table in an array of tables, is set; else that of the table; None where it can't
    tell, for it reads lines and no TOML."""
    if not key:
        return None
    lines = path.read_text("utf-8").splitlines()
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
_SIZE = f"write a whole number from 0 to {_AXIS_LIMIT}"
_SECRET_LIMIT = 64


def _zoned(value: object) -> object:
    if not isinstance(value, datetime):
        raise ValueError("is not a time; write a date, a time and an offset without quotes, such as 2026-05-01T18:00:00+02:00")
    if value.utcoffset() is None:
        raise ValueError(
            f"{value.isoformat()} has no offset from UTC; write {value.isoformat()}Z, or one such as {value.isoformat()}+02:00"
        )
    return value


_TIME = "write a time with an offset and without quotes, such as 2026-05-01T18:00:00+02:00"
_Time = Annotated[datetime, BeforeValidator(_zoned), Field(description=_TIME)]
_Limit = Annotated[int, Field(ge=0, le=1_000_000, description="write a whole number from 0 to 1000000")]


class _StrictSecretTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class SizeRange(_StrictSecretTable):
    """A size that the secret seed draws."""

    low: int = Field(ge=0, le=_AXIS_LIMIT, description=_SIZE)
    high: int = Field(ge=0, le=_AXIS_LIMIT, description=_SIZE)
    step: int = Field(default=1, ge=1, description="write a whole number, 1 or more")

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


_Amount = Annotated[
    Annotated[int, Field(ge=0, lt=2**63)] | str | None,
    Field(description="write a whole number, or arithmetic over the axes in quotes, such as '8 * n'"),
]


class Secret(_StrictSecretTable):
    """Workloads of a problem that are never disclosed. What is left out is as the problem has it."""

    problem: str = Field(description="write the id of one of 'problems'")
    axes: dict[str, _Size] = Field(
        min_length=1, max_length=16, description="write a size for every axis of the problem, such as axes = { n = 70000 }"
    )
    count: int = Field(default=1, ge=1, le=16, description="write a whole number from 1 to 16")
    device: Annotated[DeviceKind, Field(strict=False)] | None = Field(
        default=None, description='write "cuda" or "emulated", or leave it out'
    )
    moved_bytes: _Amount = None
    flops: _Amount = None

    @model_validator(mode="after")
    def _several_differ(self) -> Secret:
        if self.count > 1 and not any(isinstance(size, SizeRange) for size in self.axes.values()):
            raise ValueError("'count' is for axes that are drawn, such as n = { low = 1000, high = 5000 }; leave it out, or draw one")
        return self


LOGO_LIMIT_BYTES = 256 * 1024


def read_logo(path: Path) -> tuple[bytes, str]:
    """A competition's logo and its media type; ValueError where the file is none."""
    try:
        with path.open("rb") as file:
            content = file.read(LOGO_LIMIT_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path.name!r} can't be read: {error.strerror}; put it beside this file") from None
    webp = content[:4] == b"RIFF" and content[8:12] == b"WEBP"
    if len(content) > LOGO_LIMIT_BYTES or not (webp or content.startswith(b"\x89PNG\r\n\x1a\n")):  # no SVG: it may hold scripts
        raise ValueError(f"{path.name!r} is not a PNG or WebP file of at most {LOGO_LIMIT_BYTES >> 10} KiB; convert it")
    return content, "image/webp" if webp else "image/png"


class CompetitionFile(_StrictSecretTable):
    """All of it, each key by itself; `disagreements` looks at them together. description: what to write instead of a wrong value."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description='write lower case letters, digits, _ and -, beginning with a letter, such as name = "spring"',
    )
    title: str = Field(min_length=1, max_length=200, description="write one line of 1 to 200 characters in quotes")
    statement: str = Field(default="", description="write text in quotes")
    problems: list[str] = Field(
        min_length=1, max_length=100, description='write a list of 1 to 100 ids of problems, such as problems = ["vector_add"]'
    )
    devices: list[str] = Field(default=["cuda"], min_length=1, max_length=16, description=f"write a list of 1 to 16 of: {devices.FORMS}")
    start: _Time
    end: _Time
    freeze: _Time | None = Field(default=None, description=_TIME)
    mode: Literal["ranked"] = Field(default="ranked", description='write mode = "ranked", or leave it out')  # the one that has scores
    hourly_limit: _Limit = 0
    daily_limit: _Limit = 0
    score: Literal["speedup", "time"] = Field(default="speedup", description='write "speedup" or "time"')
    baseline: Literal["eager", "compile", "max-autotune"] = Field(default="eager", description='write "eager", "compile" or "max-autotune"')
    tie_rule: Literal["share", "earliest"] = Field(default="share", description='write "share" or "earliest"')
    visibility: Literal["private", "after_end"] = Field(default="private", description='write "private" or "after_end"')
    processes: int = Field(default=3, ge=1, le=10, description="write a whole number from 1 to 10")
    color: str = Field(
        default="", pattern=r"^(#[0-9a-f]{6})?$", description='write # and six hex digits in lower case, such as color = "#0b5cad"'
    )
    logo: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$",
        description='write the name of a PNG or WebP file beside this one, such as logo = "logo.png"',
    )
    secret_seed: str = Field(
        default="",
        pattern=r"^([0-9a-f]{32,128})?$",
        description="write 32 to 128 hex digits in lower case and in quotes, such as `openssl rand -hex 16` prints",
    )
    secret: list[Secret] = Field(default=[], description="begin each secret workload with a line [[secret]], below all other keys")


def disagreements(file: CompetitionFile) -> Iterator[tuple[tuple[str, ...], str]]:
    """Keys that contradict each other, of which the first is where it is changed, and how; in the order of the keys."""
    if file.end <= file.start:
        yield ("end", "start"), "'end' is not after 'start'; fix one"
    if file.freeze is not None and not file.start <= file.freeze < file.end:
        yield ("freeze", "start", "end"), "'freeze' is not between 'start' and 'end'; fix it, or leave it out"
    if len(set(file.problems)) != len(file.problems):
        yield ("problems",), "'problems' names one twice; leave one out"
    for kind in file.devices:
        if not devices.well_formed(kind):
            yield ("devices",), f"'devices' has {kind!r}, which is not a device; write {devices.FORMS}"
    if devices.EMULATED in file.devices and file.baseline != "eager":
        text = f"'baseline' is {file.baseline!r}, which the emulated device does not have; take 'eager'"
        yield ("baseline", "devices"), text
    for table in file.secret:
        if table.problem not in file.problems:
            text = f"'secret' is of {table.problem!r}, which is not in 'problems'; add it there"
            yield ("secret", "problems"), text
        if table.device is not None and table.device not in {choice.partition(":")[0] for choice in file.devices}:
            yield ("secret", "devices"), f"'secret' is run on {table.device} only, and 'devices' has none; add it there, or leave this out"
    if file.secret and not file.secret_seed:
        text = "'secret_seed' is missing, which keeps the secret workloads; write 32 hex digits, such as `openssl rand -hex 16` prints"
        yield ("secret_seed",), text
    counts = [sum(table.count for table in file.secret if table.problem == problem) for problem in file.problems]
    if max(counts) > _SECRET_LIMIT:
        text = f"'secret' makes more than {_SECRET_LIMIT} workloads of one problem; leave some out"
        yield ("secret", "problems"), text


TomlKey = tuple[str | int, ...]
_TAG_INDEX = 4  # secret, 0, axes, n, and then the kind of size, which is no key
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
            remedy = _remedy(SizeRange, last)
        case ("secret", _, name, *_):
            remedy = _remedy(Secret, name)
        case (name, *_):
            remedy = _remedy(CompetitionFile, name)
        case _:
            remedy = ""
    return text if ";" in text or not remedy else f"{text}; {remedy}"


def _remedy(table: type[BaseModel], key: str | int) -> str:
    return table.model_fields[str(key)].description or "" if key in table.model_fields else ""


def problem_for(competition: Competition, problem: Problem) -> Problem:
    """The problem as this competition grades it: with its secret workloads, hidden, and its ranking.

    Its digest is keyed by the secret seed: digests are shown, and from a plain one sizes could be found by trying.
    """
    secret = competition.secret_workloads.get(problem.problem_id, ())
    decides = [problem.digest, competition.competition_id, asdict(competition.ranking), [asdict(workload) for workload in secret]]
    digest = hmac.new(competition.secret_seed.encode(), json.dumps(decides, sort_keys=True).encode(), hashlib.sha256).hexdigest()
    spec = replace(problem.spec, workloads=(*problem.spec.workloads, *secret), digest=digest)
    return replace(problem, spec=spec, ranking=competition.ranking, competition_id=competition.competition_id)


class SecretInvalid(ValueError):
    """Mistake in a key of a `[[secret]]`. Never quotes its values."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)


def first_shown(problem: Problem, device_kind: str | None) -> wire.Workload | None:
    """The first public workload that is run on this kind of device, or on any."""
    shown = (workload for workload in problem.spec.workloads if not workload.hidden)
    return next((workload for workload in shown if device_kind is None or workload.device_kind in ("", device_kind)), None)


def secret_workloads(secret: Secret, problem: Problem, place: str, before: int, seed: str) -> list[wire.Workload]:
    """The workloads that one `[[secret]]` stands for. Whatever it does not say is as in the workload `like`, the first that is shown."""
    like = first_shown(problem, secret.device)
    if like is None:
        raise SecretInvalid("problem", f"{problem.problem_id!r} shows no workload that this one could be like; add one")
    if not getattr(formats().get(problem.spec.format), "SECRET_SIZES", False) or not like.axes:
        raise SecretInvalid(
            "problem", f"{problem.problem_id!r} is of the format {problem.spec.format}, which takes no other sizes; leave this out"
        )
    if set(secret.axes) != set(like.axes):
        raise SecretInvalid("axes", f"must give exactly the axes {sorted(like.axes)}")
    if secret.device is None and (differs := _differs_by_device(problem)):
        text = f"is left out, and the {differs} of {problem.problem_id!r} differs between devices"
        kinds = " or ".join(f'"{kind}"' for kind in DeviceKind)
        raise SecretInvalid("device", f"{text}; write device = {kinds}, and a [[secret]] for each that is competed on")
    return [_workload(secret, problem, like, f"{place}/{number}", before + number + 1, seed) for number in range(secret.count)]


def _differs_by_device(problem: Problem) -> str:
    """Return what a secret without a device would have from the wrong one; "" where the first workloads of the devices agree."""
    firsts = [workload for kind in DeviceKind if (workload := first_shown(problem, kind)) is not None]
    if any((workload.tolerance or problem.spec.tolerance) != (firsts[0].tolerance or problem.spec.tolerance) for workload in firsts):
        return "tolerance"
    return "distribution of inputs" if any(workload.distributions != firsts[0].distributions for workload in firsts) else ""


def _workload(secret: Secret, problem: Problem, like: wire.Workload, place: str, number: int, seed: str) -> wire.Workload:
    axes = {name: size if isinstance(size, int) else size.drawn(seed, f"{place}/{name}") for name, size in secret.axes.items()}
    arguments = like.arguments
    if arguments:  # of reference_kernels: its generator takes the sizes from here
        case = json.loads(arguments)["case"]
        arguments = json.dumps({"case": {**case, **axes}})
    workload_ids = {workload.workload_id for workload in problem.spec.workloads}
    return replace(
        like,
        workload_id=next(name for name in (f"secret-{number}", f"secret-of-competition-{number}") if name not in workload_ids),
        axes=axes,
        hidden=True,
        arguments=arguments,
        device_kind=secret.device or "",
        moved_bytes=_amount("moved_bytes", secret.moved_bytes if secret.moved_bytes is not None else problem.moved_bytes, axes),
        flops=_amount("flops", secret.flops if secret.flops is not None else problem.flops, axes),
    )


def _amount(key: str, expression: int | str, axes: dict[str, int]) -> int | None:
    if isinstance(expression, int):
        return expression
    try:
        return evaluate(expression, axes) if expression else None
    except ExpressionInvalid:  # its message quotes the axes
        text = "has no value at these axes; write axes, whole numbers, + - * // % ** and parentheses, and keep it under 2 ** 63"
        raise SecretInvalid(key, text) from None
