"""The store of competitions: reads `competition.toml`, and makes of each problem the one that a competition grades by.

What is secret stays in here and in the problem that a judge gets: no message of this module quotes a size, a seed or a secret's id.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grader.errors import CompetitionNotFound, ProblemInvalid, ProblemNotFound
from grader.formats import formats
from grader.formats.arithmetic import ExpressionInvalid, evaluate
from grader.model import Competition, Problem, Ranking, ScoreKind, TieRule, Visibility
from grader.problems.competition_file import CompetitionFile, Secret, key_of, line_of, sentence
from grader.problems.store import Problems
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind
from sandbox.protocol.signatures import rule_of

FILE_NAME = "competition.toml"


@dataclass(frozen=True, slots=True)
class _LoadedFiles:
    """Result of reading all files."""

    by_id: dict[str, Competition] = field(default_factory=dict)
    files: dict[str, tuple[CompetitionFile, Path]] = field(default_factory=dict)
    problems: dict[tuple[str, str], Problem] = field(default_factory=dict)


class Competitions:
    """Competitions by id. One store is shared by all who ask, so that what is read again is there for all at once."""

    def __init__(self) -> None:
        self._loaded = _LoadedFiles()
        self.read_again: Callable[[], Competitions] = Competitions

    @classmethod
    def load(cls, paths: Iterable[Path], problems: Problems) -> Competitions:
        """Read every competition at or directly below the paths; a wrong one raises ProblemInvalid, which names file, line and key.

        `read_again()` returns what the same paths hold then, in another store. ProblemInvalid, and OSError, as when they were read first.
        """
        store, named = cls(), tuple(paths)
        store.read_again = partial(cls.load, named, problems)
        for path in named:
            for file in _files(path):
                store._add(file, problems)
        return store

    def replace(self, fresh: Competitions) -> None:
        """Have what another store has, all at once."""
        self._loaded = fresh._loaded

    def get(self, competition_id: str) -> Competition:
        """The competition of that id, or CompetitionNotFound."""
        try:
            return self._loaded.by_id[competition_id]
        except KeyError:
            raise CompetitionNotFound(competition_id, tuple(sorted(self._loaded.by_id)[:20])) from None

    def all(self) -> tuple[Competition, ...]:
        """Every competition, by id."""
        return tuple(self._loaded.by_id[key] for key in sorted(self._loaded.by_id))

    def secret_files(self) -> tuple[Path, ...]:
        """The files that hold secrets, which nobody but their owner should read."""
        return tuple(path for _, (file, path) in sorted(self._loaded.files.items()) if file.secret_seed)

    def redrawn(self, competition_id: str, rejudge_id: str) -> Competition:
        """The competition with secret sizes drawn from a seed of this rejudge's own, for a final.

        The rejudge's id is made when it is asked for, so nobody knew the seed before, also not who knows the file's.
        ProblemInvalid where the file's expressions have no value at these sizes.
        """
        file, path = self._loaded.files[self.get(competition_id).competition_id]
        if not file.secret_seed:
            return self.get(competition_id)
        seed = hmac.new(file.secret_seed.encode(), f"rejudge/{rejudge_id}".encode(), hashlib.sha256).hexdigest()
        return _competition(
            file, path, {problem_id: self._loaded.problems[competition_id, problem_id] for problem_id in file.problems}, seed
        )

    def _add(self, path: Path, problems: Problems) -> None:
        data = read_toml(path)
        try:
            file = CompetitionFile.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            raise _invalid(path, key_of(first), sentence(key_of(first), first)) from None
        pinned = {}
        for index, problem_id in enumerate(file.problems):
            try:
                pinned[problem_id] = problems.pin(problem_id)  # nobody's import changes it while this server runs
            except ProblemNotFound as error:
                raise _invalid(path, ("problems", index), str(error)) from None
        competition = _competition(file, path, pinned, file.secret_seed)
        before = self._loaded.files.get(competition.competition_id)
        if before is not None and before[1].resolve() != path.resolve():
            raise _invalid(path, ("name",), f"{competition.competition_id!r} is the name of {before[1]} too; rename one")
        loaded = self._loaded
        loaded.by_id[competition.competition_id], loaded.files[competition.competition_id] = competition, (file, path)
        loaded.problems.update({(competition.competition_id, problem_id): problem for problem_id, problem in pinned.items()})


def problem_for(competition: Competition, problem: Problem) -> Problem:
    """The problem as this competition grades it: with its secret workloads, hidden, and its ranking.

    Its digest is keyed by the secret seed: digests are shown, and from a plain one sizes could be found by trying.
    """
    secret = competition.secret_workloads.get(problem.problem_id, ())
    decides = [problem.digest, competition.competition_id, asdict(competition.ranking), [asdict(workload) for workload in secret]]
    digest = hmac.new(competition.secret_seed.encode(), json.dumps(decides, sort_keys=True).encode(), hashlib.sha256).hexdigest()
    spec = replace(problem.spec, workloads=(*problem.spec.workloads, *secret), digest=digest)
    return replace(problem, spec=spec, ranking=competition.ranking, competition_id=competition.competition_id)


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


def read_toml(path: Path) -> dict[str, Any]:
    """The data of a file. ProblemInvalid where it is not TOML."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ProblemInvalid(str(path), f"can't be read: {error.strerror}; name a {FILE_NAME} that this user may read") from None
    except UnicodeDecodeError as error:
        raise ProblemInvalid(str(path), f"is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ProblemInvalid(str(path), f"is not TOML: {error}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists without end
        raise ProblemInvalid(str(path), "is not TOML that can be read: a number is too long, or it nests too deep") from None


def _invalid(path: Path, key: tuple[str | int, ...], message: str) -> ProblemInvalid:
    """Return what is wrong, where: file, line if it is known, key."""
    line = line_of(path, key)
    where = str(path) if line is None else f"{path}:{line}"
    name = ".".join(str(part) for part in key)
    return ProblemInvalid(where, f"{name}: {message}" if name else message)


def _competition(file: CompetitionFile, path: Path, problems: dict[str, Problem], secret_seed: str) -> Competition:
    secret: dict[str, list[wire.Workload]] = {}
    for index, table in enumerate(file.secret):
        drawn = secret.setdefault(table.problem, [])
        try:
            drawn += secret_workloads(table, problems[table.problem], f"{file.name}/{table.problem}/{index}", len(drawn), secret_seed)
        except SecretInvalid as wrong:
            raise _invalid(path, ("secret", index, wrong.key), str(wrong)) from None
    for index, problem_id in enumerate(file.problems):
        if text := check_baseline(file, problems[problem_id]):
            raise _invalid(path, ("problems", index), text)
    return Competition(
        competition_id=file.name,
        title=file.title,
        statement=file.statement,
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


def check_baseline(file: CompetitionFile, problem: Problem) -> str:
    """Why the problem has no times of the competition's baseline; "" where it has."""
    if file.baseline != "max-autotune" or "max-autotune" in problem.spec.baselines:
        return ""
    return f"{problem.problem_id!r} is not timed against 'max-autotune'; add it to the problem's baselines"


class SecretInvalid(ValueError):
    """Mistake in a key of a `[[secret]]`. Never quotes its values."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)


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


def first_shown(problem: Problem, device_kind: str | None) -> wire.Workload | None:
    """The first public workload that is run on this kind of device, or on any."""
    shown = (workload for workload in problem.spec.workloads if not workload.hidden)
    return next((workload for workload in shown if device_kind is None or workload.device_kind in ("", device_kind)), None)


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
