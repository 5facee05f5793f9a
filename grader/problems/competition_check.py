"""Finds every mistake of a `competition.toml` at once, where loading it ends at the first.  Quotes no secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grader.errors import ProblemInvalid, ProblemNotFound
from grader.model import Problem
from grader.problems.competition_file import FIELDS_ONLY, CompetitionFile, disagreements
from grader.problems.competition_messages import TomlKey, key_of, sentence
from grader.problems.competition_store import SecretInvalid, check_baseline, read_toml, secret_workloads
from grader.problems.store import Problems
from grader.problems.toml_locations import line_of

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
    found = dict.fromkeys(_mistakes(path, data, problems))
    return sorted(found, key=lambda one: one.line or 0)


def _mistakes(path: Path, data: dict[str, Any], problems: Problems) -> Iterator[CompetitionMistake]:
    wrong: set[str] = set()
    places = list(range(len(data["secret"]))) if isinstance(data.get("secret"), list) else []
    try:
        file = CompetitionFile.model_validate(data, context=FIELDS_ONLY)
    except ValidationError as error:
        keys = [key_of(one) for one in error.errors()]
        for key, one in zip(keys, error.errors(), strict=True):
            yield _mistake(path, key, sentence(key, one))
        wrong = {str(key[0]) for key in keys if key}
        rest = {key: value for key, value in data.items() if key not in wrong}
        spoiled = {key[1] for key in keys if key[:1] == ("secret",) and len(key) > 1}
        places = [place for place in places if (spoiled and place not in spoiled) or "secret" in rest]
        file = CompetitionFile.model_validate(_STAND_INS | rest | {"secret": [data["secret"][one] for one in places]}, context=FIELDS_ONLY)
        wrong |= _STAND_INS.keys() - rest.keys()
    for disagreement in disagreements(file):
        if not wrong & set(disagreement.keys):
            yield _mistake(path, disagreement.keys[:1], disagreement.message)
    if "problems" not in wrong:
        yield from _of_problems(path, file, problems, places, known_baseline="baseline" not in wrong)


def _of_problems(
    path: Path, file: CompetitionFile, problems: Problems, places: Sequence[int], *, known_baseline: bool
) -> Iterator[CompetitionMistake]:
    """What does not fit the problems that it is about. places: where in the file each of its secrets is."""
    found: dict[str, Problem] = {}
    for index, problem_id in enumerate(file.problems):
        try:
            found[problem_id] = problems.get(problem_id)
        except ProblemNotFound as error:
            yield _mistake(path, ("problems", index), str(error))
            continue
        if known_baseline and (text := check_baseline(file, found[problem_id])):
            yield _mistake(path, ("problems", index), text)
    for index, secret in zip(places, file.secret, strict=True):
        if secret.problem in found:
            try:
                secret_workloads(secret, found[secret.problem], "", 0, file.secret_seed)
            except SecretInvalid as error:
                yield _mistake(path, ("secret", index, error.key), str(error))


def _mistake(path: Path, key: TomlKey, message: str) -> CompetitionMistake:
    return CompetitionMistake(path=path, key=".".join(str(part) for part in key), line=line_of(path, key), message=message)
