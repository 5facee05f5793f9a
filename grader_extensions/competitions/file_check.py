"""Reads a `competition.toml`, and finds every mistake of it at once.  Quotes no secret."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grader.errors import ProblemInvalid, ProblemNotFound
from grader.formats import formats
from grader.model import Problem
from grader.problems.store import Problems
from grader_extensions.competitions.competition_file import CompetitionFile, Secret, TomlKey, disagreements, key_of, line_of, sentence
from grader_extensions.competitions.secret_workloads import SecretInvalid, secret_workloads
from sandbox.protocol.devices import DeviceKind

FILE_NAME = "competition.toml"
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

    @property
    def error(self) -> ProblemInvalid:
        """The mistake as an error: file, line if it is known, key."""
        where = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return ProblemInvalid(where, f"{self.key}: {self.message}" if self.key else self.message)


def read_competition(path: Path, problems: Problems) -> tuple[CompetitionFile | None, list[CompetitionMistake]]:
    """Read a file; None, and everything that is wrong with it, in the order of its lines, where a server does not take it."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        text = f"can't be read: {error.strerror}; name a {FILE_NAME} that this user may read"
    except UnicodeDecodeError as error:
        text = f"is not UTF-8 (byte {error.start}); save it as UTF-8"
    except tomllib.TOMLDecodeError as error:
        text = f"is not TOML: {error}"
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists without end
        text = "is not TOML that can be read: a number is too long, or it nests too deep"
    else:
        mistakes = sorted(dict.fromkeys(_mistakes(path, data, problems)), key=lambda entry: entry.line or 0)
        return None if mistakes else CompetitionFile.model_validate(data), mistakes
    return None, [CompetitionMistake(path=path, message=text)]


def _mistakes(path: Path, data: dict[str, Any], problems: Problems) -> Iterator[CompetitionMistake]:
    wrong: set[str] = set()
    places = list(range(len(data["secret"]))) if isinstance(data.get("secret"), list) else []
    try:
        file = CompetitionFile.model_validate(data)
    except ValidationError as error:
        keys = [key_of(details) for details in error.errors()]
        for key, details in zip(keys, error.errors(), strict=True):
            yield mistake(path, key, sentence(key, details))
        wrong = {str(key[0]) for key in keys if key}
        rest = {key: value for key, value in data.items() if key not in wrong}
        spoiled = {key[1] for key in keys if key[:1] == ("secret",) and len(key) > 1}
        places = [place for place in places if (spoiled and place not in spoiled) or "secret" in rest]
        file = CompetitionFile.model_validate(_STAND_INS | rest | {"secret": [data["secret"][index] for index in places]})
        wrong |= _STAND_INS.keys() - rest.keys()
    for conflicting, message in disagreements(file):
        if not wrong & set(conflicting):
            yield mistake(path, conflicting[:1], message)
    if "problems" in wrong:
        return
    by_id: dict[str, Problem] = {}
    for index, problem_id in enumerate(file.problems):
        try:
            by_id[problem_id] = problems.get(problem_id)
        except ProblemNotFound as error:
            yield mistake(path, ("problems", index), str(error))
            continue
        if "baseline" not in wrong and file.baseline == "max-autotune" and file.baseline not in by_id[problem_id].spec.baselines:
            text = f"{problem_id!r} is not timed against 'max-autotune'; add it to the problem's baselines"
            yield mistake(path, ("problems", index), text)
    for index, secret in zip(places, file.secret, strict=True):
        if secret.problem in by_id:
            try:
                secret_workloads(secret, by_id[secret.problem], f"{file.name}/{secret.problem}/{index}", 0, file.secret_seed)
            except SecretInvalid as error:
                yield mistake(path, ("secret", index, error.key), str(error))


def mistake(path: Path, key: TomlKey, message: str) -> CompetitionMistake:
    """Return what is wrong with a key of a file."""
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
