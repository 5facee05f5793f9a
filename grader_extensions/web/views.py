"""Data to what templates show.  Pure.  Submissions come as the API shows them, so that what it withholds is not here either."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from grader.model import ScoreKind
from grader.v1 import submission_pb2
from grader.views import figures, formatting
from grader.views.sanitize import one_line
from grader_extensions.competitions.leaderboard import Board
from grader_extensions.competitions.model import Competition, Phase, TieRule, Visibility
from grader_extensions.web.report.content import flags, when

PAGE_SIZE = 50
_PHASES = {Phase.UPCOMING: "not yet begun", Phase.OPEN: "open", Phase.FROZEN: "open, board frozen", Phase.ENDED: "ended"}


@dataclass(frozen=True, slots=True)
class PagePosition:
    """Where on a list of pages: page counts from 1."""

    page: int
    count: int

    @property
    def pages(self) -> int:
        """How many there are."""
        return max(-(-self.count // PAGE_SIZE), 1)

    @property
    def shown(self) -> slice:
        """The entries of this page."""
        return slice((self.page - 1) * PAGE_SIZE, self.page * PAGE_SIZE)


def competitions(all_competitions: Sequence[Competition], now: datetime, *, page: int = 1) -> dict[str, Any]:
    """The list of competitions: those that go on first, then those to come, then the ended, latest first."""
    order = {Phase.OPEN: 0, Phase.FROZEN: 0, Phase.UPCOMING: 1, Phase.ENDED: 2}
    listed = sorted(
        all_competitions,
        key=lambda competition: (order[competition.phase(now)], -competition.end_time.timestamp(), competition.competition_id),
    )
    place = PagePosition(page, len(listed))
    return {"competitions": [competition_head(competition, now) for competition in listed[place.shown]], "place": place}


def competition_head(competition: Competition, now: datetime) -> dict[str, Any]:
    """Return what every page shows of a competition: its name and its times."""
    return {
        "id": competition.competition_id,
        "title": competition.title or competition.competition_id,
        "colored": bool(competition.color),
        "logo": competition.logo is not None,
        "phase": competition.phase(now).value,
        "phase_words": _PHASES[competition.phase(now)],
        "start": when(competition.start_time),
        "end": when(competition.end_time),
        "before": remaining(competition.start_time - now),
        "left": remaining(competition.end_time - now),
        "problem_count": len(competition.problem_ids),
    }


def text_color(color: str) -> str:
    """Return black or white, whichever contrasts more with a colour: by WCAG 2.1 at least 4.58, which is at a luminance of 0.179."""
    channels = [int(color[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels)
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "#ffffff"


def remaining(time: timedelta) -> str:
    """How long until then, to the hour where it is days, else to the minute."""
    minutes = max(int(time.total_seconds()) // 60, 0)
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


# Lines of a running submission's page, one an event. Events come as the API sends them, with untrusted text.

LINES = 50  # of what happened so far


def line(event: submission_pb2.SubmissionEvent) -> dict[str, str]:
    """The state that the event moves to, the process and the stage that begin, and a result; each "" where there is none."""
    state, process, stage, text = "", "", "", ""
    match event.WhichOneof("event"):
        case "submission":
            state = formatting.state_name(event.submission).lower()
            stage = f"attempt {event.attempt}" if state == "running" and event.attempt > 1 else ""
        case "queue_position":
            stage = _place(event.queue_position)
        case "progress":
            process = _process(event) if event.progress.process_count > 1 else ""
            stage = f"{formatting.STAGES.get(event.progress.stage, 'working')} {event.progress.workload_id}".strip()
        case "build":
            text = f"build: {formatting.words(event.build, 'outcome')}"
        case "load":
            text = f"load: {formatting.words(event.load, 'outcome')}"
        case "trial":
            text = f"{event.trial.workload_id}: {formatting.words(event.trial, 'outcome')}"
        case "measurement" if not event.measurement.hidden:  # pages show no times of hidden workloads, which the API does
            text = f"{event.measurement.workload_id}: {formatting.median(event.measurement.certified)}"
        case "environment":
            text = f"on {event.environment.device or event.environment.device_kind}"
        case _:
            pass
    return {"state": state, "process": process, "stage": one_line(stage), "text": one_line(text)}


def _process(event: submission_pb2.SubmissionEvent) -> str:
    return f"process {event.progress.process} of {event.progress.process_count}"


def so_far(events: Iterable[submission_pb2.SubmissionEvent]) -> dict[str, Any]:
    """Return what has happened until now, for the page before its stream begins, which goes on after the event `after`."""
    lines: list[str] = []
    after, now = 0, {"process": "", "stage": "", "text": ""}
    for event in events:
        after, shown = max(after, event.sequence), line(event)
        for name in now:
            now[name] = shown[name] or now[name]
            if shown[name] and lines[-1:] != [shown[name]]:  # every trial of a workload says the same
                lines.append(shown[name])
    return {"after": after, "lines": lines[-LINES:], **now}


def stage_times(events: Iterable[submission_pb2.SubmissionEvent]) -> dict[str, float]:
    """Return the seconds of each stage of the last attempt, and of each process of ranked mode, by the times of events. For a report
    without a timeline: that of a competition that is not over."""
    lengths: dict[str, float] = {}
    name, begin_s, process = "queue", 0.0, ""
    for event in events:
        time_s, state = figures.seconds_of(event.event_time), formatting.state_name(event.submission).lower()
        next_name = ""
        match event.WhichOneof("event"):
            case "submission" if state == "queued":
                lengths, process, next_name = {}, "", "queue"
            case "submission" if state == "running":
                process, next_name = "", "start"
            case "submission":
                next_name = "end"
            case "progress":
                process = _process(event) if event.progress.process else process
                next_name = process or formatting.STAGES.get(event.progress.stage, "working")
        if next_name and time_s >= begin_s:
            if begin_s:
                lengths[name] = lengths.get(name, 0.0) + time_s - begin_s
            name, begin_s = next_name, time_s
    return {name: length for name, length in lengths.items() if length > 0}


def message(event: submission_pb2.SubmissionEvent) -> bytes:
    """The event as a server-sent one; b"" where there is nothing to show. JSON in ASCII has no line break, so no text can forge a field."""
    shown = line(event)
    if not any(shown.values()):
        return b""
    return f"id: {event.sequence}\ndata: {json.dumps(shown, ensure_ascii=True)}\n\n".encode()


def _place(position: submission_pb2.QueuePosition) -> str:
    ahead = f"{position.ahead_count} ahead in the queue" if position.ahead_count else "next in the queue"
    if not position.HasField("estimated_duration"):
        return f"{ahead}, but no worker is joined" if position.no_worker else ahead
    return f"{ahead}, about {position.estimated_duration.seconds} s"


# A board: each column with one unit and one number of decimals, so that its digits align.

_SHARED = "entries whose intervals overlap with that of the best of their group share its rank"
_TIES = {TieRule.SHARE: _SHARED, TieRule.EARLIEST: f"{_SHARED}, and the earliest is listed first"}
_VISIBILITIES = {
    Visibility.PRIVATE: "reports and sources are shown to their owners only",
    Visibility.AFTER_END: "reports and sources are shown to everybody once it has ended",
}


def board(
    competition: Competition,
    shown_board: Board,
    now: datetime,
    titles: Mapping[str, str],
    languages: Mapping[str, str],
    *,
    page: int = 1,
    linked: bool = False,
    reader: str = "",
) -> dict[str, Any]:
    """A competition with one of its boards. titles: of problems; languages: of submissions; linked: whether all submissions
    may be looked at, or the reader's only."""
    place = PagePosition(page, len(shown_board.entries))
    scores = [(entry.score.value, entry.score.low, entry.score.high) for entry in shown_board.entries]
    shown, figure = shown_board.entries[place.shown], score_column([score[0] for score in scores], shown_board.score_kind)
    ranks = Counter(entry.rank for entry in shown_board.entries)
    return {
        "competition": competition_head(competition, now) | terms(competition),
        "problem_id": shown_board.problem_id,
        "overall": len(competition.problem_ids) > 1,
        "problems": [{"id": problem_id, "title": titles.get(problem_id, problem_id)} for problem_id in competition.problem_ids],
        "device": shown_board.device,
        "devices": shown_board.devices,
        "official": shown_board.official,
        "frozen": when(shown_board.before) if shown_board.before else "",
        "speedups": shown_board.score_kind is ScoreKind.SPEEDUP,
        "baseline": shown_board.baseline,
        "rule": shown_board.rule,
        "other_rule_count": shown_board.other_rule_count,
        "entries": [
            {
                "rank": entry.rank,
                "tied": ranks[entry.rank] > 1,
                "user": entry.user,
                "score": figure(entry.score.value),
                "low": figure(entry.score.low),
                "high": figure(entry.score.high),
                "gap": gap(entry.score.value, scores[0][0], shown_board.score_kind),
                "time": when(entry.create_time),
                "submission_id": entry.submission_id if linked or (reader and entry.user == reader) else "",
                "submission_count": entry.submission_count,
                "language": languages.get(entry.submission_id, ""),
                "problem_count": entry.problem_count,
                "flags": flags(entry.flags),
            }
            for entry in shown
        ],
        "place": place,
    }


def terms(competition: Competition) -> dict[str, Any]:
    """How a competition counts."""
    limits = [f"{count} {period}" for count, period in ((competition.hourly_limit, "an hour"), (competition.daily_limit, "a day")) if count]
    return {
        "statement": competition.statement,
        "freeze": when(competition.freeze_time) if competition.freeze_time else "",
        "limits": " and ".join(limits),
        "processes": competition.ranking.process_count,
        "secret_count": sum(len(workloads) for workloads in competition.secret_workloads.values()),
        "ties": _TIES[competition.tie_rule],
        "visibility": _VISIBILITIES[competition.visibility],
    }


def score_column(values: Sequence[float], kind: ScoreKind) -> Callable[[float], str]:
    """How the scores of one board are written: times in the unit of the shortest, speedups with three or four digits of the largest."""
    if kind is ScoreKind.TIME:
        shortest = min(values, default=1.0)
        size, unit = formatting.time_unit(shortest)
        digits = _decimals(shortest / size)
        return lambda value: f"{value / size:.{digits}f} {unit}"
    decimals = _decimals(max(values, default=1.0))
    return lambda value: f"{value:.{decimals}f}x"


def gap(value: float, best: float, kind: ScoreKind) -> str:
    """How far behind the first, such as -12.5 %: of the speedup, or how much more time. "" for the first."""
    if value == best or value <= 0 or best <= 0:
        return ""
    percent = 100 * (value / best - 1)
    return f"{'-' if kind is ScoreKind.SPEEDUP else '+'}{abs(percent):.1f} %"


def _decimals(value: float) -> int:
    return 2 if value < 10 else 1 if value < 100 else 0
