"""Finds every mistake of a `competition.toml` at once, where loading it ends at the first.  Quotes no secret."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from extensions.competitions.competition_file import FIELDS_ONLY, CompetitionFile, Secret, TomlKey, disagreements, key_of, line_of, sentence
from extensions.competitions.secret_workloads import SecretInvalid, secret_workloads
from extensions.competitions.store import check_baseline, read_toml
from grader.errors import ProblemInvalid, ProblemNotFound
from grader.formats import formats
from grader.model import Problem
from grader.problems.store import Problems
from sandbox.protocol.devices import DeviceKind

# Instead of what is wrong or missing, so that the rest can be looked at.
_STAND_INS: dict[str, Any] = {
    "name": "x",
    "title": "x",
    "problems": ["x"],
    "start": datetime(2000, 1, 1, tzinfo=UTC),
    "end": datetime(2000, 1, 2, tzinfo=UTC),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetitionMistake:
    """Something that is wrong in a competition's file. line: None where it can't be found; key: as TOML names it, "" for the file."""

    path: Path
    message: str
    key: str = ""
    line: int | None = None

    def __str__(self) -> str:
        where = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


def check(path: Path, problems: Problems) -> list[CompetitionMistake]:
    """Everything that is wrong with the file, in the order of its lines; none where a server takes it."""
    try:
        data = read_toml(path)
    except ProblemInvalid as error:
        return [CompetitionMistake(path=path, message=error.message)]
    mistakes = dict.fromkeys(_mistakes(path, data, problems))
    return sorted(mistakes, key=lambda mistake: mistake.line or 0)


def _mistakes(path: Path, data: dict[str, Any], problems: Problems) -> Iterator[CompetitionMistake]:
    wrong: set[str] = set()
    places = list(range(len(data["secret"]))) if isinstance(data.get("secret"), list) else []
    try:
        file = CompetitionFile.model_validate(data, context=FIELDS_ONLY)
    except ValidationError as error:
        keys = [key_of(details) for details in error.errors()]
        for key, details in zip(keys, error.errors(), strict=True):
            yield _mistake(path, key, sentence(key, details))
        wrong = {str(key[0]) for key in keys if key}
        rest = {key: value for key, value in data.items() if key not in wrong}
        spoiled = {key[1] for key in keys if key[:1] == ("secret",) and len(key) > 1}
        places = [place for place in places if (spoiled and place not in spoiled) or "secret" in rest]
        file = CompetitionFile.model_validate(
            _STAND_INS | rest | {"secret": [data["secret"][index] for index in places]}, context=FIELDS_ONLY
        )
        wrong |= _STAND_INS.keys() - rest.keys()
    for disagreement in disagreements(file):
        if not wrong & set(disagreement.keys):
            yield _mistake(path, disagreement.keys[:1], disagreement.message)
    if "problems" in wrong:
        return
    by_id: dict[str, Problem] = {}
    for index, problem_id in enumerate(file.problems):
        try:
            by_id[problem_id] = problems.get(problem_id)
        except ProblemNotFound as error:
            yield _mistake(path, ("problems", index), str(error))
            continue
        if "baseline" not in wrong and (text := check_baseline(file, by_id[problem_id])):
            yield _mistake(path, ("problems", index), text)
    for index, secret in zip(places, file.secret, strict=True):
        if secret.problem in by_id:
            try:
                secret_workloads(secret, by_id[secret.problem], "", 0, file.secret_seed)
            except SecretInvalid as error:
                yield _mistake(path, ("secret", index, error.key), str(error))


def _mistake(path: Path, key: TomlKey, message: str) -> CompetitionMistake:
    return CompetitionMistake(path=path, key=".".join(str(part) for part in key), line=line_of(path, key), message=message)


_DAYS_BEFORE, _DAYS_LONG = 1, 2
_HEAD = """\
# A competition. Every key is described in docs/competitions.md; `grader-cli competitions check {path}` finds mistakes.
# This file holds secrets: keep it readable for its owner only (chmod 600).

name = {name}  # what `--competition` takes: lower case letters, digits, _ and -
title = {title}  # one line, for lists and pages
statement = ""  # your rules, for people

# What is competed on. `grader-cli problems list` has the ids.
problems = {problems}

# "cuda", "cuda:H200" (a part of the GPU's name) or "emulated" (practice, not official). The first is the default.
devices = ["cuda"]

# Times without quotes, with an offset such as +02:00, or Z for UTC. At `end` it is over; from `freeze` to `end` users see a frozen board.
start = {start}
freeze = {freeze}
end = {end}

hourly_limit = 10  # submissions of each user; 0: only the server's own limit
daily_limit = 60

score = "speedup"  # over PyTorch, larger is better; or "time", smaller is better
baseline = "eager"  # or "compile", "max-autotune"
tie_rule = "share"  # entries whose intervals overlap share a rank; "earliest" lists the earlier one first
visibility = "private"  # "after_end": everybody sees all sources and reports after the end
processes = 3  # fresh processes for each submission

# Draws the secret sizes below. It is random: do not change it during the competition, and publish it afterwards if you like.
secret_seed = "{seed}"
"""
_SECRET = """
# A secret workload: users see its outcome only. The seed draws a size from `low` to `high`; choose a range over which kernels rank alike.
[[secret]]
problem = {problem}
device = "cuda"
axes = {{ {axes} }}
"""


def template(name: str, problems: Sequence[Problem], now: datetime, seed: str, path: Path) -> str:
    """The text of a new file."""
    start = (now + timedelta(days=_DAYS_BEFORE)).replace(hour=18, minute=0, second=0, microsecond=0)
    end = start + timedelta(days=_DAYS_LONG)
    text = _HEAD.format(
        path=path,
        name=_quoted(name),
        title=_quoted(name[:1].upper() + name[1:]),
        problems=f"[{', '.join(_quoted(problem.problem_id) for problem in problems)}]",
        start=start.isoformat(),
        freeze=(end - timedelta(hours=1)).isoformat(),
        end=end.isoformat(),
        seed=seed,
    )
    return text + "".join(_secret(problem, seed) for problem in problems)


def _secret(problem: Problem, seed: str) -> str:
    """A secret workload like the problem's first public one on a GPU; "" where its format takes none."""
    like = problem.first_shown(DeviceKind.CUDA)
    if like is None or not like.axes or not getattr(formats().get(problem.spec.format), "SECRET_SIZES", False):
        return ""
    axes = {axis: {"low": max(size // 2, 1), "high": max(size, 1)} for axis, size in like.axes.items()}
    try:
        secret_workloads(
            Secret.model_validate({"problem": problem.problem_id, "axes": axes, "device": DeviceKind.CUDA}), problem, "", 0, seed
        )
    except SecretInvalid:
        return ""
    shown = ", ".join(f"{axis} = {{ low = {bounds['low']}, high = {bounds['high']} }}" for axis, bounds in axes.items())
    return _SECRET.format(problem=_quoted(problem.problem_id), axes=shown)


_quoted = partial(json.dumps, ensure_ascii=False)
