"""Data to what templates show.  Pure.  Submissions come as the API shows them, so that what it withholds is not here either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from grader.isolations import description
from grader.model import Competition, Phase, ScoreKind, TieRule, Visibility
from grader.rules.leaderboard import Board, Entry
from grader.v1 import rejudge_pb2, report_pb2, submission_pb2
from grader.views import formatting
from grader.web import plot

PAGE_SIZE = 50
LOG_CHARS, OUTPUT_CHARS = 64_000, 16_000
_SHOWN_WITH_ENVIRONMENT = "EMULATED_NOT_RANKED"  # with the environment
_PHASES = {
    Phase.UPCOMING: "not yet begun",
    Phase.OPEN: "open",
    Phase.FROZEN: "open, board frozen",
    Phase.ENDED: "ended",
}
_SHARED = "entries whose intervals overlap with that of the best of their group share its rank"
_TIES = {TieRule.SHARE: _SHARED, TieRule.EARLIEST: f"{_SHARED}, and the earliest is listed first"}
_VISIBILITIES = {
    Visibility.PRIVATE: "reports and sources are shown to their owners only",
    Visibility.AFTER_END: "reports and sources are shown to everybody once it has ended",
}


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
    def first(self) -> int:
        """The first entry of this page, from 0."""
        return (self.page - 1) * PAGE_SIZE


def competitions(found: Sequence[Competition], now: datetime, *, page: int = 1) -> dict[str, Any]:
    """The list of competitions: those that go on first, then those to come, then the ended, latest first."""
    order = {Phase.OPEN: 0, Phase.FROZEN: 0, Phase.UPCOMING: 1, Phase.ENDED: 2}
    listed = sorted(found, key=lambda one: (order[one.phase(now)], -one.end_time.timestamp(), one.competition_id))
    place = PagePosition(page, len(listed))
    return {"competitions": [_head(one, now) for one in listed[place.first : place.first + PAGE_SIZE]], "place": place}


def _head(one: Competition, now: datetime) -> dict[str, Any]:
    return {
        "id": one.competition_id,
        "title": one.title or one.competition_id,
        "phase": one.phase(now).value,
        "phase_words": _PHASES[one.phase(now)],
        "start": when(one.start_time),
        "end": when(one.end_time),
        "problem_count": len(one.problem_ids),
    }


def board(
    competition: Competition, found: Board, now: datetime, titles: Mapping[str, str], *, page: int = 1, linked: bool = False
) -> dict[str, Any]:
    """A competition with one of its boards. titles: of problems; linked: whether submissions may be looked at."""
    place = PagePosition(page, len(found.entries))
    scores = [_score(one) for one in found.entries]
    shown = slice(place.first, place.first + PAGE_SIZE)
    drawn = plot.bars(scores[shown], among=scores)
    ranks = [one.rank for one in found.entries]
    return {
        "competition": _head(competition, now) | _terms(competition),
        "problem_id": found.problem_id,
        "overall": len(competition.problem_ids) > 1,
        "problems": [{"id": one, "title": titles.get(one, one)} for one in competition.problem_ids],
        "device": found.device,
        "devices": found.devices,
        "official": found.official,
        "frozen": when(found.before) if found.before else "",
        "speedups": found.score_kind is ScoreKind.SPEEDUP,
        "baseline": found.baseline,
        "rule": found.rule,
        "other_rule_count": found.other_rule_count,
        "entries": [
            _entry(one, bar, found.score_kind, tied=ranks.count(one.rank) > 1, linked=linked)
            for one, bar in zip(found.entries[shown], drawn, strict=True)
        ],
        "place": place,
    }


def _terms(one: Competition) -> dict[str, Any]:
    limits = [f"{count} {period}" for count, period in ((one.hourly_limit, "an hour"), (one.daily_limit, "a day")) if count]
    return {
        "statement": one.statement,
        "freeze": when(one.freeze_time) if one.freeze_time else "",
        "limits": " and ".join(limits),
        "processes": one.ranking.process_count,
        "secret_count": sum(len(workloads) for workloads in one.secret_workloads.values()),
        "ties": _TIES[one.tie_rule],
        "visibility": _VISIBILITIES[one.visibility],
    }


def _entry(one: Entry, bar: plot.Bar | None, kind: ScoreKind, *, tied: bool, linked: bool) -> dict[str, Any]:
    return {
        "rank": one.rank,
        "tied": tied,
        "user": one.user or "(no one named)",
        "score": _figure(one.score.value, kind),
        "low": _figure(one.score.low, kind),
        "high": _figure(one.score.high, kind),
        "bar": bar,
        "time": when(one.create_time),
        "submission_id": one.submission_id if linked else "",
        "problem_count": one.problem_count,
        "flags": flags(one.flags),
    }


def _score(one: Entry) -> tuple[float, float, float]:
    return one.score.value, one.score.low, one.score.high


def _figure(value: float, kind: ScoreKind) -> str:
    return formatting.time(value) if kind is ScoreKind.TIME else f"{value:.4g}x"


def submission(found: submission_pb2.Submission, kind: ScoreKind = ScoreKind.SPEEDUP) -> dict[str, Any]:
    """All that a page shows of a submission. kind: what its score is, if it has one."""
    report = found.report if found.HasField("report") else None
    return {
        "id": found.name.rpartition("/")[2],
        "problem_id": found.problem.rpartition("/")[2],
        "competition_id": found.competition.rpartition("/")[2],
        "user": found.user,
        "language": found.language,
        "mode": formatting.name_of(submission_pb2.Mode, found.mode, "MODE_").lower(),
        "device_kind": found.device_kind,
        "state": formatting.state_name(found).lower(),
        "attempts": found.attempt_count,
        "created": _time(found, "create_time"),
        "ended": _time(found, "end_time"),
        "error": found.error.message if found.HasField("error") else "",
        "score": _interval(found, kind) if found.HasField("score") else "",
        "has_sources": bool(found.sources),
        "sources_removed": found.sources_removed,
        "history": [_judgement(one, kind) for one in found.judgements],
        "report": _report(report) if report is not None else None,
    }


def sources(found: submission_pb2.Submission) -> dict[str, Any]:
    """The sources, in their order."""
    files = [{"path": one.path, "content": one.content} for one in found.sources]
    return {"id": found.name.rpartition("/")[2], "files": files}


def _judgement(one: rejudge_pb2.Judgement, kind: ScoreKind) -> dict[str, Any]:
    return {
        "sequence": one.sequence,
        "verdict": formatting.name_of(report_pb2.Verdict, one.verdict, "VERDICT_"),
        "reason": one.reason,
        "summary": one.summary,
        "score": _interval(one, kind) if one.HasField("score") else "",
        "time": _time(one, "create_time"),
        "rejudge_id": one.rejudge.rpartition("/")[2],
    }


def _report(report: report_pb2.Report) -> dict[str, Any]:
    build = report.build
    return {
        "verdict": formatting.verdict_name(report),
        "accepted": report.verdict == report_pb2.VERDICT_ACCEPTED,
        "reason": report.reason,
        "summary": report.summary,
        "flags": flags(report.flags),
        "libraries": list(report.libraries),
        "speedups": [{"baseline": one.baseline, "ratio": formatting.ratio(one)} for one in report.speedups],
        "workloads": _workloads(report),
        "hidden": _hidden(report),
        "rule": report.rule,
        "wrong": [
            dict(zip(("place", "expected", "actual"), formatting.wrong_element(one), strict=True))
            for trial in report.trials
            for one in trial.wrong_elements
        ],
        "times": [_times(one) for one in report.measurements if not one.hidden],
        "baselines": sorted({name for one in report.measurements if not one.hidden for name in one.baselines}),
        "build": {
            "outcome": formatting.name_of(report_pb2.BuildOutcome, build.outcome, "BUILD_OUTCOME_").lower().replace("_", " "),
            "reason": build.reason,
            "duration": formatting.time(formatting.duration_ns(build.build_duration)),
            "cached": build.cached,
            "log": build.log[:LOG_CHARS],
            "cut": build.log_truncated or len(build.log) > LOG_CHARS,
            "kernels": [_kernel(one) for one in build.kernels],
            "remarks": list(build.remarks),
        }
        if report.HasField("build")
        else None,
        "output": report.output[:OUTPUT_CHARS],
        "output_cut": len(report.output) > OUTPUT_CHARS,
        "environment": _environment(report.environment) if report.HasField("environment") else None,
        "profile": _profile(report.profile) if report.HasField("profile") else None,
    }


def _profile(found: report_pb2.Profile) -> dict[str, Any]:
    return {
        "architecture": found.architecture,
        "workload_id": found.workload_id,
        "tools": [{"name": one.name, "outcome": formatting.profile_outcome(one.outcome), "detail": one.detail} for one in found.tools],
        "kernels": [{**_kernel(one), "doubles": one.double_instruction_count} for one in found.kernels],
        "launches": [
            {
                "kernel": one.kernel,
                "count": one.count,
                "grid": formatting.dimensions(one.grid),
                "block": formatting.dimensions(one.block),
                "shared": one.shared_bytes,
                "time": formatting.time(formatting.duration_ns(one.total_duration)) if one.HasField("total_duration") else "-",
            }
            for one in found.launches
        ],
        "remarks": list(found.remarks),
    }


def flags(names: Sequence[str]) -> list[dict[str, str]]:
    """What else a reader should know."""
    return [{"name": one, "meaning": formatting.FLAGS.get(one, "")} for one in names if one != _SHOWN_WITH_ENVIRONMENT]


def _workloads(report: report_pb2.Report) -> list[dict[str, Any]]:
    rows = []
    for workload_id in dict.fromkeys(trial.workload_id for trial in report.trials if not trial.hidden):
        trials = [trial for trial in report.trials if trial.workload_id == workload_id and not trial.hidden]
        failed = next((trial for trial in trials if trial.outcome != report_pb2.TRIAL_OUTCOME_PASSED), None)
        worst = failed or trials[-1]
        errors = [trial.max_absolute_error for trial in trials if trial.HasField("max_absolute_error")]
        rows.append(
            {
                "id": workload_id,
                "passed": failed is None,
                "outcome": "passed" if failed is None else formatting.outcome_name(failed),
                "trials": sum(max(trial.run_count, 1) for trial in trials),
                "mismatched": formatting.share(worst.mismatched_count, worst.element_count),
                "unwritten": formatting.share(worst.unwritten_count, worst.element_count),
                "error": formatting.error(max(errors, default=None)),
                "message": failed.message if failed is not None else "",
            }
        )
    return rows


def _hidden(report: report_pb2.Report) -> dict[str, int]:
    """Of hidden workloads no more than how many were run and how many passed."""
    outcomes: dict[str, bool] = {}
    for trial in report.trials:
        if trial.hidden:
            outcomes[trial.workload_id] = outcomes.get(trial.workload_id, True) and trial.outcome == report_pb2.TRIAL_OUTCOME_PASSED
    return {"count": len(outcomes), "passed": sum(outcomes.values())}


def _times(one: report_pb2.Measurement) -> dict[str, Any]:
    ratios = {speedup.baseline: formatting.ratio(speedup) for speedup in one.speedups}
    samples = {"kernel": one.certified, **{name: one.baselines[name] for name in sorted(one.baselines)}}
    return {
        "id": one.workload_id,
        "certified": formatting.median(one.certified),
        "reported": formatting.median(one.reported) if one.HasField("reported") else "",
        "confirmed": one.reported_confirmed,
        "baselines": {name: formatting.median(one.baselines[name]) for name in one.baselines},
        "ratios": ratios,
        "host_clock": one.clock == report_pb2.CLOCK_HOST,
        "plot": plot.plot({name: list(of.sample_durations_ns) for name, of in samples.items()}),
    }


def _kernel(one: report_pb2.KernelUse) -> dict[str, Any]:
    return {
        "name": one.name,
        "registers": one.registers or "-",
        "shared": one.shared_bytes,
        "stack": one.stack_bytes,
        "spilled": one.spill_store_bytes + one.spill_load_bytes,
    }


def _environment(found: report_pb2.Environment) -> dict[str, Any]:
    return {
        "device": found.device or found.device_kind,
        "architecture": found.architecture,
        "isolation": description(found.isolation),
        "versions": sorted(found.versions.items()),
        "ceilings": formatting.ceilings(found.ceilings) if found.ceilings else "",
        "practice": found.clock == report_pb2.CLOCK_HOST,
    }


def _interval(one: submission_pb2.Submission | rejudge_pb2.Judgement, kind: ScoreKind) -> str:
    return f"{_figure(one.score, kind)} ({_figure(one.score_low, kind)} to {_figure(one.score_high, kind)})"


def _time(message: Any, field: str) -> dict[str, str]:
    """When, or nothing."""
    if not message.HasField(field):
        return {}
    found: Timestamp = getattr(message, field)
    return when(found.ToDatetime(UTC))


def when(time: datetime) -> dict[str, str]:
    """A time for machines and for people."""
    utc = time.astimezone(UTC)
    return {"iso": utc.isoformat(timespec="seconds"), "text": f"{utc:%Y-%m-%d %H:%M} UTC"}
