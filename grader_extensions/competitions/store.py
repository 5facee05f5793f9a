"""The store of competitions: reads `competition.toml`, and makes of each problem the one that a competition grades by.

What is secret stays in here and in the problem that a judge gets: no message of this module quotes a size, a seed or a secret's id.
"""

from __future__ import annotations

import hashlib
import hmac
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from grader import devices
from grader.api.resource_names import COMPETITIONS, PROBLEMS, full_name, parse
from grader.config import Settings
from grader.errors import (
    CompetitionClosed,
    CompetitionNotFound,
    FieldViolation,
    InvalidSubmission,
    NoSuchDevice,
    ProblemInvalid,
    ProblemNotFound,
    UserBanned,
)
from grader.extensions import SubmitTerms
from grader.ledger.tables import bans
from grader.model import NewSubmission, Problem, Ranking, ScoreKind
from grader.problems.store import Problems
from grader.rules.quotas import Quota, for_server, shown_time
from grader.v1.grader_service_pb2 import SubmitRequest
from grader_extensions.competitions.competition_file import (
    CompetitionFile,
    SecretInvalid,
    TomlKey,
    disagreements,
    first_shown,
    key_of,
    line_of,
    problem_for,
    read_logo,
    secret_workloads,
    sentence,
)
from grader_extensions.competitions.leaderboard import Standings
from grader_extensions.competitions.model import Competition, Phase, TieRule, Visibility
from grader_extensions.competitions.recent import Recent
from sandbox.protocol import wire
from sandbox.protocol.signatures import rule_of

FILE_NAME = "competition.toml"
# Instead of what is wrong or missing, so that the rest can be looked at.
_STAND_INS: dict[str, Any] = {
    "name": "x",
    "title": "x",
    "problems": ["x"],
    "start": datetime(2000, 1, 1, tzinfo=UTC),
    "end": datetime(2000, 1, 2, tzinfo=UTC),
}
Mistake = tuple[TomlKey, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadedFile:
    """A file, what was made of it, and its problems, which no import changes while this server runs."""

    competition: Competition
    file: CompetitionFile
    path: Path
    problems: dict[str, Problem]


class Competitions:
    """Competitions by id. One store is shared by all who ask, so that what is read again is there for all at once. recent: their boards,
    and other answers that pages and calls share. standings: what boards were last made of, by competition and problem, the oldest first."""

    def __init__(self, problems: Problems | None = None) -> None:
        self.recent, self.standings = Recent(), dict[tuple[str, str], Standings]()
        self._loaded, self._problems = dict[str, _LoadedFile](), problems or Problems()
        self.read_again: Callable[[], Competitions] = Competitions

    @classmethod
    def load(cls, paths: Iterable[Path], problems: Problems) -> Competitions:
        """Read every competition at or directly below the paths; a wrong one raises ProblemInvalid, which names file, line and key.

        `read_again()` returns what the same paths hold then, in another store. ProblemInvalid, and OSError, as when they were read first.
        """
        store, named = cls(problems), tuple(paths)
        store.read_again = partial(cls.load, named, problems)
        for path in named:
            for file in _files(path):
                store._add(file)
        return store

    def replace(self, fresh: Competitions) -> None:
        """Have what another store has, all at once."""
        self._loaded = fresh._loaded
        self.recent.clear()

    def get(self, competition_id: str) -> Competition:
        """The competition of that id, or CompetitionNotFound."""
        try:
            return self._loaded[competition_id].competition
        except KeyError:
            raise CompetitionNotFound(competition_id, tuple(sorted(self._loaded)[:20])) from None

    def all(self) -> tuple[Competition, ...]:
        """Every competition, by id."""
        return tuple(loaded.competition for _, loaded in sorted(self._loaded.items()))

    def terms(self, request: SubmitRequest, device_kinds: Sequence[str]) -> SubmitTerms:
        """Return the terms of the competition that a request names; CallRefused where it can't be for any, or does not have its device."""
        if request.allow_cached_result:
            raise InvalidSubmission([FieldViolation("allow_cached_result", "a competition grades every submission; leave it out")])
        competition = self.get(parse(COMPETITIONS, request.submission.competition, "competition"))
        kind = request.submission.device_kind or competition.device_kinds[0]
        if kind not in competition.device_kinds:
            choices = ", ".join(competition.device_kinds)
            text = f"{kind!r} is not a device of competition {competition.competition_id!r}; leave it out, or take one of: {choices}"
            raise InvalidSubmission([FieldViolation("device_kind", text)])
        return SubmitTerms(
            problem=partial(_problem, competition, self._problems),
            competition_id=competition.competition_id,
            device_kind=kind,
            check=partial(_check_mode, competition, device_kinds, kind),
            admit=partial(check_admission, competition),
            quotas=_quotas(competition),
        )

    def quotas(self, now: datetime) -> list[Quota]:
        """Return what competitions that take submissions allow each user."""
        competitions = [competition for competition in self.all() if competition.phase(now) in (Phase.OPEN, Phase.FROZEN)]
        return [quota for competition in competitions for quota in _quotas(competition)]

    def readable(self, now: datetime) -> frozenset[str]:
        """Return the competitions whose submissions everybody may see by now."""
        ended = (competition for competition in self.all() if competition.phase(now) is Phase.ENDED)
        return frozenset(competition.competition_id for competition in ended if competition.visibility is Visibility.AFTER_END)

    def ended(self, before: datetime) -> tuple[str, ...]:
        """Return the competitions that ended before a time."""
        return tuple(competition.competition_id for competition in self.all() if competition.end_time < before)

    def redrawn(self, competition_id: str, rejudge_id: str) -> Competition:
        """The competition with secret sizes drawn from a seed of this rejudge's own, for a final.

        The rejudge's id is made when it is asked for, so nobody knew the seed before, also not who knows the file's.
        ProblemInvalid where the file's expressions have no value at these sizes.
        """
        competition, loaded = self.get(competition_id), self._loaded[competition_id]
        if not competition.secret_seed:
            return competition
        seed = hmac.new(competition.secret_seed.encode(), f"rejudge/{rejudge_id}".encode(), hashlib.sha256).hexdigest()
        return _competition(loaded.file, loaded.path, loaded.problems, seed)

    def _add(self, path: Path) -> None:
        file, mistakes = read_competition(path, self._problems)
        if file is None:
            raise mistakes[0]
        if (before := self._loaded.get(file.name)) is not None and before.path.resolve() != path.resolve():
            text = f"{file.name!r} is the name of {before.path} too; rename one"
            raise mistake_at(path, ("name",), text, line_of(path, ("name",)))
        pinned = {problem_id: self._problems.pin(problem_id) for problem_id in file.problems}
        competition = _competition(file, path, pinned, file.secret_seed)
        self._loaded[file.name] = _LoadedFile(competition=competition, file=file, path=path, problems=pinned)


def _problem(competition: Competition, problems: Problems, problem_id: str) -> Problem:
    if problem_id not in competition.problem_ids:
        choices = ", ".join(full_name(PROBLEMS, choice) for choice in competition.problem_ids)
        text = f"{problem_id!r} is not a problem of competition {competition.competition_id!r}; take one of: {choices}"
        raise InvalidSubmission([FieldViolation("problem", text)])
    return problem_for(competition, problems.get(problem_id))


def _check_mode(competition: Competition, device_kinds: Sequence[str], kind: str, submission: NewSubmission, problem: Problem) -> None:
    if submission.mode is not competition.mode and first_shown(problem, kind.partition(":")[0]) is None:
        text = f"only MODE_{competition.mode.name} runs hidden workloads, and {kind!r} has no other here; take that mode"
        raise InvalidSubmission([FieldViolation("mode", text)])
    if not devices.is_offered(kind, device_kinds):
        raise NoSuchDevice(kind, tuple(offer for offer in competition.device_kinds if devices.is_offered(offer, device_kinds)))


def check_admission(competition: Competition, connection: sa.Connection, now: datetime, user: str) -> None:
    """CompetitionClosed, with the time, before the start and from the end on; UserBanned."""
    match competition.phase(now):
        case Phase.UPCOMING:
            raise CompetitionClosed(competition.competition_id, Phase.UPCOMING, shown_time(competition.start_time))
        case Phase.ENDED:
            raise CompetitionClosed(competition.competition_id, Phase.ENDED, shown_time(competition.end_time))
    query = sa.select(bans.c.reason).where(bans.c.competition_id == competition.competition_id, bans.c.user_name == user)
    if (reason := connection.execute(query).scalar_one_or_none()) is not None:
        raise UserBanned(competition.competition_id, reason)


def _quotas(competition: Competition) -> tuple[Quota, ...]:
    return for_server(competition.hourly_limit, competition.daily_limit, competition.competition_id)


def submit_policy(settings: Settings, problems: Problems, report: Callable[[str, str], None]) -> Competitions:
    """Read the competitions that a server is to have, and report how many there are, and whether others can read their secrets."""
    competitions = Competitions.load(settings.competitions, problems)
    if settings.competitions:
        loaded = f"{len(competitions.all())} loaded"
        secret_files = [loaded.path for _, loaded in sorted(competitions._loaded.items()) if loaded.file.secret_seed]
        readable = [str(path) for path in secret_files if path.stat().st_mode & 0o077]  # nobody but their owner should read them
        if readable:
            remedy = f"run: chmod 600 {' '.join(map(shlex.quote, readable))}"
            report(f"{loaded}; other users of this host can read secrets in {', '.join(readable)}", remedy)
        else:
            report(loaded, "")
    return competitions


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if (path / FILE_NAME).is_file():
        return [path / FILE_NAME]
    paths = sorted(path.glob(f"*/{FILE_NAME}")) if path.is_dir() else []
    empty = path.is_dir() and not any(path.iterdir())  # the first competition is still to come
    if not paths and not empty:
        raise ProblemInvalid(str(path), f"holds no competition; name a {FILE_NAME}, its directory, or a directory that holds such")
    return paths


def _competition(file: CompetitionFile, path: Path, problems: dict[str, Problem], secret_seed: str) -> Competition:
    secret: dict[str, list[wire.Workload]] = {}
    for index, table in enumerate(file.secret):
        drawn = secret.setdefault(table.problem, [])
        try:
            drawn += secret_workloads(table, problems[table.problem], f"{file.name}/{table.problem}/{index}", len(drawn), secret_seed)
        except SecretInvalid as wrong:
            key = ("secret", index, wrong.key)
            raise mistake_at(path, key, str(wrong), line_of(path, key)) from None
    return Competition(
        competition_id=file.name,
        title=file.title,
        statement=file.statement,
        color=file.color,
        logo=path.parent / file.logo if file.logo else None,
        problem_ids=tuple(file.problems),
        start_time=file.start.astimezone(UTC),
        end_time=file.end.astimezone(UTC),
        freeze_time=file.freeze.astimezone(UTC) if file.freeze else None,
        device_kinds=tuple(file.devices),
        mode=wire.Mode(file.mode),
        hourly_limit=file.hourly_limit,
        daily_limit=file.daily_limit,
        ranking=Ranking(process_count=file.processes, score_kind=ScoreKind(file.score), baseline=file.baseline),
        tie_rule=TieRule(file.tie_rule),
        visibility=Visibility(file.visibility),
        rules={problem_id: rule_of(problem.spec) for problem_id, problem in problems.items()},
        secret_workloads={problem_id: tuple(workloads) for problem_id, workloads in secret.items()},
        secret_seed=secret_seed,
    )


def read_competition(path: Path, problems: Problems) -> tuple[CompetitionFile | None, list[ProblemInvalid]]:
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
        located = [(line_of(path, key), key, message) for key, message in dict.fromkeys(_mistakes(data, problems, path))]
        mistakes = [mistake_at(path, key, message, line) for line, key, message in sorted(located, key=lambda mistake: mistake[0] or 0)]
        return None if mistakes else CompetitionFile.model_validate(data), mistakes
    return None, [mistake_at(path, (), text, None)]


def _mistakes(data: dict[str, Any], problems: Problems, path: Path) -> Iterator[Mistake]:
    wrong: set[str] = set()
    places = list(range(len(data["secret"]))) if isinstance(data.get("secret"), list) else []
    try:
        file = CompetitionFile.model_validate(data)
    except ValidationError as error:
        keys = [key_of(details) for details in error.errors()]
        for key, details in zip(keys, error.errors(), strict=True):
            yield key, sentence(key, details)
        wrong = {str(key[0]) for key in keys if key}
        rest = {key: value for key, value in data.items() if key not in wrong}
        spoiled = {key[1] for key in keys if key[:1] == ("secret",) and len(key) > 1}
        places = [place for place in places if (spoiled and place not in spoiled) or "secret" in rest]
        file = CompetitionFile.model_validate(_STAND_INS | rest | {"secret": [data["secret"][index] for index in places]})
        wrong |= _STAND_INS.keys() - rest.keys()
    for conflicting, message in disagreements(file):
        if not wrong & set(conflicting):
            yield conflicting[:1], message
    if file.logo:
        try:
            read_logo(path.parent / file.logo)
        except ValueError as error:
            yield ("logo",), str(error)
    if "problems" in wrong:
        return
    by_id: dict[str, Problem] = {}
    for index, problem_id in enumerate(file.problems):
        try:
            by_id[problem_id] = problems.get(problem_id)
        except ProblemNotFound as error:
            yield ("problems", index), str(error)
            continue
        if "baseline" not in wrong and file.baseline == "max-autotune" and file.baseline not in by_id[problem_id].spec.baselines:
            text = f"{problem_id!r} is not timed against 'max-autotune'; add it to the problem's baselines"
            yield ("problems", index), text
    for index, secret in zip(places, file.secret, strict=True):
        if secret.problem in by_id:
            try:
                secret_workloads(secret, by_id[secret.problem], f"{file.name}/{secret.problem}/{index}", 0, file.secret_seed)
            except SecretInvalid as error:
                yield ("secret", index, error.key), str(error)


def mistake_at(path: Path, key: TomlKey, message: str, line: int | None) -> ProblemInvalid:
    """Make the error of a key of a file, or of all of it: file, line if it is known, key."""
    where = str(path) if line is None else f"{path}:{line}"
    return ProblemInvalid(where, f"{'.'.join(map(str, key))}: {message}" if key else message)
