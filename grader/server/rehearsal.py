"""Fills a competition with made-up users and submissions, so that an organiser sees boards, freeze, final and export before the day.

Submissions, facts and verdicts are written through the ledger, as a server writes them. Only the times are simulated.
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from grader.config import LEDGER_NAME
from grader.errors import SettingsInvalid
from grader.ledger import Ledger
from grader.model import Caller, Competition, NewSubmission, Problem, Scope, SourceFile
from grader.problems.competition_file import CompetitionFile
from grader.problems.competition_store import FILE_NAME, Competitions, problem_for
from grader.problems.store import Problems
from grader.server.simulated_grading import SimulatedOutcome, facts, order_line
from grader.verdict.fold import fold
from sandbox.protocol import wire

MARK = "REHEARSAL"
NAME, ORGANISER = "rehearsal", "organiser"
RECORD_NAME, SOURCE_NAME = "rehearsal.json", "source.toml"
ORGANISER_KEY, USER_KEY = "organiser.key", "user.key"
USER_COUNT = 12
WINDOW = timedelta(hours=48)  # before the rehearsal was made
FROZEN_FOR = timedelta(hours=1)
GRADED_IN = timedelta(seconds=40)
LEASE_S = 60.0
# What the users reach before the freeze. Equal figures differ by less than an interval, and share a rank.
SPEEDUPS = (4.0, 4.0, 3.2, 2.6, 2.6, 2.6, 2.1, 1.8, 1.5, 1.2, 1.05, 0.8)
FLAKY, COMPILER, UNRESOLVED = 2, 10, 11  # places in SPEEDUPS of whom something special becomes
LATE = {3: 5.0, 7: 3.2}  # what these reach after the freeze: the first is the new leader
WITHDRAWN, WITHDRAWN_SPEEDUP = 5, 6.0  # whose submission organisers withdraw, and what it would lead the board with
WITHDRAWN_REASON = "it answers with a stored result"
# When after the start what is announced.
ANNOUNCEMENTS = (
    (timedelta(hours=1), "Welcome. Limits and rules are on the page of the competition."),
    (timedelta(hours=40), "The board freezes an hour before the end.\nThe final runs the best again, on one device."),
)
_TIMES = re.compile(r"^\s*(?:title|start|end|freeze)\s*=.*$\n?", re.MULTILINE)
_TABLE = re.compile(r"^\s*\[", re.MULTILINE)

_COMPETITION = """\
name = "rehearsal"
title = "A competition"
statement = "Two made-up problems. Nothing that is submitted here is built or run."
problems = ["double", "row_sum"]
devices = ["cuda"]
visibility = "after_end"
secret_seed = "00112233445566778899aabbccddeeff"
start = 2000-01-01T00:00:00Z
end = 2000-01-02T00:00:00Z

[[secret]]
problem = "double"
axes = { n = { low = 1000000, high = 2000000 } }
"""
_PROBLEMS = {
    "double": (
        'name = "double"\ntitle = "Twice a vector"\naxes = ["n"]\ninputs = [{ name = "x", shape = ["n"] }]\n'
        'outputs = [{ name = "y", shape = ["n"] }]\nworkloads = [{ id = "n1048576", axes = { n = 1048576 } }]\n',
        "def reference(x):\n    return 2 * x\n",
    ),
    "row_sum": (
        'name = "row_sum"\ntitle = "Sums of rows"\naxes = ["rows", "cols"]\ninputs = [{ name = "x", shape = ["rows", "cols"] }]\n'
        'outputs = [{ name = "y", shape = ["rows"] }]\nworkloads = [{ id = "wide", axes = { rows = 64, cols = 4096 } }]\n',
        "def reference(x):\n    return x.sum(dim=1)\n",
    ),
}


class RehearsalStage(StrEnum):
    """When in the competition's life the rehearsal is."""

    OPEN = "open"
    FROZEN = "frozen"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedSubmission:
    """One submission that the rehearsal makes: by which user, when, and what becomes of it."""

    user: str
    problem_id: str
    create_time: datetime
    outcome: SimulatedOutcome
    speedup: float
    withdrawn: str = ""  # why, where organisers withdraw it


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalRecord:
    """What a rehearsal's directory was made with. Written once it is filled."""

    seed: int
    began: datetime
    problem_dirs: tuple[Path, ...]
    submission_count: int = 0

    @classmethod
    def read(cls, directory: Path) -> RehearsalRecord | None:
        """The record that is there; None in a new or empty directory. SettingsInvalid in any other."""
        path = directory / RECORD_NAME
        if path.is_file():
            found = json.loads(path.read_text("utf-8"))
            roots, began = tuple(map(Path, found["problem_dirs"])), datetime.fromisoformat(found["began"])
            return cls(seed=found["seed"], began=began, problem_dirs=roots, submission_count=found["submission_count"])
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            text = f"{directory} is there already and is not a finished rehearsal; name a new directory, or remove it"
            raise SettingsInvalid("directory", text)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return None

    def write(self, directory: Path) -> None:
        """Write it down: the directory can be served again from now on."""
        found = {
            "seed": self.seed,
            "began": self.began.isoformat(),
            "problem_dirs": [str(one) for one in self.problem_dirs],
            "submission_count": self.submission_count,
        }
        (directory / RECORD_NAME).write_text(json.dumps(found, indent=2) + "\n", "utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A directory that is ready to be served."""

    directory: Path
    competition: Competition
    record: RehearsalRecord


@dataclass(slots=True)
class _ScheduledClock:
    """The ledger's clock while a rehearsal is filled."""

    time: datetime

    def __call__(self) -> datetime:
        return self.time


async def prepare(
    directory: Path,
    *,
    stage: RehearsalStage,
    now: datetime,
    seed: int | None = None,
    file: Path | None = None,
    problem_dirs: Sequence[Path] = (),
) -> Rehearsal:
    """Make a rehearsal in the directory, or set one that is there to another stage. file: an organiser's own competition; None: ours.

    SettingsInvalid where the directory holds something else, ProblemInvalid where the competition's file is wrong.
    """
    record = RehearsalRecord.read(directory)
    if record is not None and seed not in (None, record.seed):
        raise SettingsInvalid("seed", f"{directory} was made with --seed {record.seed}; leave --seed out, or name a new directory")
    made = record is None
    if record is None:
        began = now.astimezone(UTC).replace(second=0, microsecond=0)
        roots = tuple(one.absolute() for one in problem_dirs) if file is not None else (_write_problems(directory),)
        _write(directory / SOURCE_NAME, _COMPETITION if file is None else _own_text(file, Problems.load(roots)))
        record = RehearsalRecord(seed=1 if seed is None else seed, began=began, problem_dirs=roots)
    problems = Problems.load(record.problem_dirs)
    _write(directory / FILE_NAME, timed_text((directory / SOURCE_NAME).read_text("utf-8"), stage, record.began, now))
    (competition,) = Competitions.load([directory / FILE_NAME], problems).all()
    if made:
        record = replace(record, submission_count=await _fill(directory, competition, problems, record))
        record.write(directory)
    return Rehearsal(directory=directory, competition=competition, record=record)


def schedule(competition: Competition, began: datetime, seed: int) -> list[RehearsedSubmission]:
    """Every submission of a rehearsal, oldest first. The same for the same seed."""
    rng = random.Random(seed)
    users = [f"{NAME}-{number + 1:02}" for number in range(USER_COUNT)]
    rng.shuffle(users)
    early, late = began - WINDOW + timedelta(hours=1), began - FROZEN_FOR
    made: list[RehearsedSubmission] = []

    def add(
        user: str, problem_id: str, begin: datetime, end: datetime, outcome: SimulatedOutcome, speedup: float, withdrawn: str = ""
    ) -> None:
        time = begin + timedelta(seconds=rng.randrange(int((end - begin).total_seconds())))
        made.append(
            RehearsedSubmission(user=user, problem_id=problem_id, create_time=time, outcome=outcome, speedup=speedup, withdrawn=withdrawn)
        )

    half = early + (late - early) / 2
    for place, user in enumerate(users):
        for problem_id in competition.problem_ids:
            speedup = SPEEDUPS[place] * rng.uniform(0.998, 1.002)
            first = {COMPILER: SimulatedOutcome.REJECTED, UNRESOLVED: SimulatedOutcome.UNRESOLVED}.get(place)
            first = first or (SimulatedOutcome.WRONG if place % 2 else SimulatedOutcome.ACCEPTED)
            add(user, problem_id, early, half, first, 0.6 * speedup)
            add(user, problem_id, half, late, SimulatedOutcome.FLAKY if place == FLAKY else SimulatedOutcome.ACCEPTED, speedup)
            if place in LATE:
                last = began - timedelta(minutes=5)
                add(user, problem_id, late, last, SimulatedOutcome.ACCEPTED, LATE[place] * rng.uniform(0.998, 1.002))
    first_problem = competition.problem_ids[0]
    add(users[WITHDRAWN], first_problem, half, late, SimulatedOutcome.ACCEPTED, WITHDRAWN_SPEEDUP, WITHDRAWN_REASON)
    return sorted(made, key=lambda one: (one.create_time, one.user, one.problem_id))


def timed_text(text: str, stage: RehearsalStage, began: datetime, now: datetime) -> str:
    """A competition's file with the title and the times of a rehearsal. SettingsInvalid where something else would change."""
    before = CompetitionFile.model_validate(tomllib.loads(text))
    cut = found.start() if (found := _TABLE.search(text)) else len(text)
    start, frozen = began - WINDOW, began - FROZEN_FOR
    later = max(now, began).astimezone(UTC).replace(microsecond=0) + WINDOW
    freeze, end = {
        RehearsalStage.OPEN: (later - WINDOW / 2, later),
        RehearsalStage.FROZEN: (frozen, later),
        RehearsalStage.ENDED: (frozen, began),
    }[stage]
    title = before.title if before.title.startswith(MARK) else f"{MARK}: {before.title}"[:200]
    times = "".join(f"{key} = {time.isoformat()}\n" for key, time in (("start", start), ("freeze", freeze), ("end", end)))
    made = f"title = {json.dumps(title, ensure_ascii=False)}\n" + times + _TIMES.sub("", text[:cut]) + text[cut:]
    try:
        after = CompetitionFile.model_validate(tomllib.loads(made))
    except (tomllib.TOMLDecodeError, ValidationError):
        after = None
    changes = {"title": title, "start": start, "freeze": freeze, "end": end}
    if after != before.model_copy(update=changes):
        raise SettingsInvalid("competition", "has 'title' or a time in a form that can't be replaced; write each on one line of its own")
    return made


async def _fill(directory: Path, competition: Competition, problems: Problems, record: RehearsalRecord) -> int:
    """Write every submission down as a server would have, at its own time; the number of them."""
    clock = _ScheduledClock(record.began)
    planned = schedule(competition, record.began, record.seed)
    async with Ledger.open(directory / LEDGER_NAME, now=clock) as ledger:
        for path, user, scopes in (
            (ORGANISER_KEY, ORGANISER, frozenset(Scope)),
            (USER_KEY, f"{NAME}-01", frozenset({Scope.SUBMIT, Scope.READ})),
        ):
            _, text = await ledger.keys.create(user, scopes, note=MARK)
            _write(directory / path, f"{text}\n")
        announcements = deque((competition.start_time + after_start, text) for after_start, text in ANNOUNCEMENTS)
        for number, one in enumerate(planned, 1):
            while announcements and announcements[0][0] <= one.create_time:
                clock.time, text = announcements.popleft()
                await ledger.competition_actions.announce(competition.competition_id, text, ORGANISER)
            problem = problem_for(competition, problems.get(one.problem_id))
            clock.time = one.create_time
            await ledger.submit(_submission(one, number, competition, problem), problem)
            lease = await ledger.lease(NAME, ttl_s=LEASE_S, device_kinds=competition.device_kinds)
            assert lease is not None, "what was just submitted is next"
            found = tuple(facts(lease, record.seed))
            clock.time = one.create_time + GRADED_IN
            await ledger.settle(lease, fold(found, lease.ranking), found)
            if one.withdrawn:
                organiser = Caller(user=ORGANISER)
                await ledger.competition_actions.withdraw(lease.submission.submission_id, competition, organiser, one.withdrawn)
    return len(planned)


def _submission(one: RehearsedSubmission, number: int, competition: Competition, problem: Problem) -> NewSubmission:
    language = problem.languages[number % len(problem.languages)]
    mark = "#" if language == "python" else "//"
    lines = (f"{MARK}: this source is made up, and nothing is built or run.", order_line(one.outcome, one.speedup), f"{one.user}, {number}")
    content = "".join(f"{mark} {line}\n" for line in lines)
    return NewSubmission(
        problem_id=one.problem_id,
        language=language,
        sources=(SourceFile(path="kernel.py" if language == "python" else "kernel.cu", content=content),),
        device_kind=competition.device_kinds[0],
        mode=wire.Mode.RANKED,
        user=one.user,
        competition_id=competition.competition_id,
    )


def _own_text(file: Path, problems: Problems) -> str:
    """The text of an organiser's file, once it is known to load. ProblemInvalid names what is wrong with it."""
    found = Competitions.load([file], problems).all()
    if len(found) != 1:
        raise SettingsInvalid("competition", f"{file} holds {len(found)} competitions; name one {FILE_NAME}")
    return (file if file.is_file() else file / FILE_NAME).read_text("utf-8")


def _write_problems(directory: Path) -> Path:
    root = directory / "made-up-problems"
    for name, (text, reference) in _PROBLEMS.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        _write(root / name / "problem.toml", text)
        _write(root / name / "reference.py", reference)
    return root


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    path.chmod(0o600)
