"""Says what a competition's file may change while a server runs, and how two readings of the files differ.  Pure.  Shows no secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from extensions.competitions.model import Competition, Phase, Visibility
from grader.errors import ReloadRefused
from grader.rules.quotas import shown_time

# What competitors rely on from the start: another value would change what is graded, compared or shown of them.
FIXED = (*("start", "problems", "mode", "score", "baseline", "processes", "tie_rule", "visibility"), *("secret", "secret_seed"))
UNSHOWN = ("statement", "secret", "secret_seed")  # long, or secret


class ChangeKind(StrEnum):
    """Change of a competition when the files were read again."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """A key of the file that differs. before and after: "" for what is not shown."""

    key: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.key}: {self.before} -> {self.after}" if self.before or self.after else f"{self.key}: changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetitionChange:
    """How a competition differs. keys: those that differ; empty where it was added or removed."""

    competition_id: str
    kind: ChangeKind
    keys: tuple[KeyChange, ...] = ()


def changes(before: Mapping[str, Competition], after: Mapping[str, Competition]) -> list[CompetitionChange]:
    """Compare two readings, by id."""
    differences = []
    for competition_id in sorted(before.keys() | after.keys()):
        old, current = before.get(competition_id), after.get(competition_id)
        if old is None or current is None:
            kind = ChangeKind.ADDED if old is None else ChangeKind.REMOVED
            differences.append(CompetitionChange(competition_id=competition_id, kind=kind))
        elif keys := _keys(old, current):
            differences.append(CompetitionChange(competition_id=competition_id, kind=ChangeKind.CHANGED, keys=keys))
    return differences


def check_fair(before: Mapping[str, Competition], after: Mapping[str, Competition], now: datetime) -> None:
    """ReloadRefused where a competition that has begun would be another one for those who take part; it names all that is wrong."""
    wrong = [
        text for old in before.values() if old.phase(now) is not Phase.UPCOMING for text in _unfair(old, after.get(old.competition_id), now)
    ]
    if wrong:
        raise ReloadRefused("; ".join(wrong))


def _unfair(old: Competition, current: Competition | None, now: datetime) -> Iterator[str]:
    about, ended = f"competition {old.competition_id!r}", old.phase(now) is Phase.ENDED
    if current is None:
        if not ended:
            yield f"the file of {about}, which is running, is gone; put it back"
        return
    if fixed := [change.key for change in _keys(old, current) if change.key in FIXED]:
        names = ", ".join(f"'{key}'" for key in fixed)
        yield f"{about} has begun, so {names} can't change any more; write what was there before"
    if current.device_kinds[: len(old.device_kinds)] != old.device_kinds:
        yield f"{about} has begun, so 'devices' can only get more at its end; write those that were there first, in their order"
    if current.end_time < old.end_time and current.end_time <= now:
        yield f"'end' of {about} would be over by now, and later submissions would leave its boards; write a time to come, or the old one"
    if ended and current.end_time > now and old.visibility is Visibility.AFTER_END:
        yield f"{about} has ended, and everybody has seen all sources since, so 'end' can't be a time to come; make a new competition"


def _keys(old: Competition, current: Competition) -> tuple[KeyChange, ...]:
    before, after = _values(old), _values(current)
    differing = [key for key in before if before[key] != after[key]]
    return tuple(
        KeyChange(key=key) if key in UNSHOWN else KeyChange(key=key, before=_shown(before[key]), after=_shown(after[key]))
        for key in differing
    )


def _values(competition: Competition) -> dict[str, object]:
    return {
        "title": competition.title,
        "statement": competition.statement,
        "problems": competition.problem_ids,
        "devices": competition.device_kinds,
        "start": competition.start_time,
        "end": competition.end_time,
        "freeze": competition.freeze_time,
        "mode": competition.mode.value,
        "hourly_limit": competition.hourly_limit,
        "daily_limit": competition.daily_limit,
        "score": competition.ranking.score_kind.value,
        "baseline": competition.ranking.baseline,
        "processes": competition.ranking.process_count,
        "tie_rule": competition.tie_rule.value,
        "visibility": competition.visibility.value,
        "secret": competition.secret_workloads,
        "secret_seed": competition.secret_seed,
    }


def _shown(value: object) -> str:
    match value:
        case datetime():
            return shown_time(value)
        case tuple():
            return ", ".join(map(str, value))
        case None:
            return "none"
    return str(value)
