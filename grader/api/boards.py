"""Boards, to protobuf.  Pure."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from grader.api.messages import score_kind_to_proto
from grader.api.resource_names import COMPETITIONS, PROBLEMS, SUBMISSIONS, full_name
from grader.rules.leaderboard import Board, Entry
from grader.v1 import competition_pb2


def board_to_proto(board: Board, first: int, size: int, next_page_token: str = "") -> competition_pb2.Leaderboard:
    """One page of a board: size entries from the first on, which counts from 0."""
    message = competition_pb2.Leaderboard(
        competition=full_name(COMPETITIONS, board.competition_id),
        problem=full_name(PROBLEMS, board.problem_id),
        device=board.device,
        devices=board.devices,
        entries=[_entry(one) for one in board.entries[first : first + size]],
        entry_count=len(board.entries),
        official=board.official,
        score_kind=score_kind_to_proto(board.score_kind),
        baseline=board.baseline,
        next_page_token=next_page_token,
        rule=board.rule,
        other_rule_count=board.other_rule_count,
    )
    if board.before is not None:
        message.freeze_time.FromDatetime(board.before)
    return message


def _entry(entry: Entry) -> competition_pb2.LeaderboardEntry:
    create_time = Timestamp()
    create_time.FromDatetime(entry.create_time)
    return competition_pb2.LeaderboardEntry(
        rank=entry.rank,
        user=entry.user,
        submission=full_name(SUBMISSIONS, entry.submission_id),
        score=entry.score.value,
        score_low=entry.score.low,
        score_high=entry.score.high,
        create_time=create_time,
        problem_count=entry.problem_count,
        flags=entry.flags,
        language=entry.language,
        submission_count=entry.submission_count,
    )
