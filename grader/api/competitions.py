"""Competitions and places in the queue, to protobuf.  Pure.  Of secret workloads only how many there are."""

from __future__ import annotations

from datetime import datetime

from google.protobuf.duration_pb2 import Duration

from grader.api.messages import timestamp
from grader.api.resource_names import COMPETITIONS, PROBLEMS, full_name
from grader.model import Ban, Competition, CompetitionAction, Position, Submission
from grader.rules.competition_changes import CompetitionChange
from grader.v1 import competition_pb2, submission_pb2


def competition_to_proto(competition: Competition, now: datetime) -> competition_pb2.Competition:
    """A competition as everybody sees it."""
    return competition_pb2.Competition(
        name=full_name(COMPETITIONS, competition.competition_id),
        title=competition.title,
        statement=competition.statement,
        problems=[full_name(PROBLEMS, problem_id) for problem_id in competition.problem_ids],
        device_kinds=competition.device_kinds,
        start_time=timestamp(competition.start_time),
        end_time=timestamp(competition.end_time),
        freeze_time=timestamp(competition.freeze_time),
        mode=f"MODE_{competition.mode.name}",
        hourly_limit=competition.hourly_limit,
        daily_limit=competition.daily_limit,
        score_kind=f"SCORE_KIND_{competition.ranking.score_kind.name}",
        baseline=competition.ranking.baseline,
        tie_rule=f"TIE_RULE_{competition.tie_rule.name}",
        visibility=f"VISIBILITY_{competition.visibility.name}",
        process_count=competition.ranking.process_count,
        secret_workload_counts={problem_id: len(workloads) for problem_id, workloads in competition.secret_workloads.items()},
        state=f"COMPETITION_STATE_{competition.phase(now).name}",
    )


def ban_to_proto(one: Ban) -> competition_pb2.Ban:
    """A ban as administrators see it; nobody else does."""
    return competition_pb2.Ban(
        competition=full_name(COMPETITIONS, one.competition_id),
        user=one.user,
        reason=one.reason,
        create_time=timestamp(one.create_time),
        administrator=one.administrator,
        submission_count=one.submission_count,
    )


def action_to_proto(one: CompetitionAction) -> competition_pb2.CompetitionAction:
    """What was done in a competition, as administrators see it."""
    return competition_pb2.CompetitionAction(
        competition=full_name(COMPETITIONS, one.competition_id),
        action=one.kind,
        user=one.user,
        subject=one.subject,
        reason=one.reason,
        create_time=timestamp(one.create_time),
    )


def position_to_proto(position: Position) -> submission_pb2.QueuePosition:
    """A place in the queue; the estimate in whole seconds, for it is no better."""
    estimated_s = position.estimated_s
    return submission_pb2.QueuePosition(
        ahead_count=position.ahead_count,
        estimated_duration=Duration(seconds=round(estimated_s)) if estimated_s is not None else None,
    )


def placed_event(position: Position, sequence: int, submission: Submission, now: datetime) -> submission_pb2.SubmissionEvent:
    """What a watcher gets while it waits. It is not kept, so its sequence is that of the event before: there the watch is resumed."""
    return submission_pb2.SubmissionEvent(
        sequence=sequence,
        event_time=timestamp(now),
        attempt=submission.attempt_count,
        queue_position=position_to_proto(position),
    )


def change_to_proto(one: CompetitionChange) -> competition_pb2.CompetitionChange:
    """How a competition differs from what the server had of it."""
    return competition_pb2.CompetitionChange(
        competition=full_name(COMPETITIONS, one.competition_id),
        kind=f"COMPETITION_CHANGE_KIND_{one.kind.name}",
        keys=[competition_pb2.CompetitionKeyChange(key=key.key, before=key.before, after=key.after) for key in one.keys],
    )
