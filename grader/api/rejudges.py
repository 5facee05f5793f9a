"""Rejudges to protobuf, and what is asked for from it.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from grader import devices
from grader.api.messages import judgement_to_proto
from grader.api.resource_names import COMPETITIONS, PROBLEMS, REJUDGES, SUBMISSIONS, full_name, resource_id, violation
from grader.errors import FieldViolation, InvalidRequest
from grader.rules.rejudge import Change, Rejudge, RejudgeMethod, RejudgeOrder, RejudgeState
from grader.v1 import rejudge_pb2

CAUSE_CHARS = 1000
NAMED_LIMIT = 10_000  # submissions that one request may name; by problem or competition it is any number
TOP_LIMIT = 100_000


def order_from_proto(message: rejudge_pb2.Rejudge) -> RejudgeOrder:
    """What is asked for; InvalidRequest with all that is wrong."""
    found: list[FieldViolation] = []

    def last(name: str, collection: str, field: str, *, needed: bool = False) -> str:
        if (name or needed) and (wrong := violation(collection, name, field)) is not None:
            found.append(wrong)
        return resource_id(collection, name)

    order = RejudgeOrder(
        cause=message.cause.strip(),
        problem_id=last(message.problem, PROBLEMS, "problem"),
        competition_id=last(message.competition, COMPETITIONS, "competition"),
        submission_ids=tuple(
            dict.fromkeys(last(one, SUBMISSIONS, f"submissions[{index}]", needed=True) for index, one in enumerate(message.submissions))
        ),
        method=_method(message.method, found),
        top_count=message.top_count,
        device_kind=message.device_kind,
        fresh_sizes=message.fresh_sizes,
        sizes_of=last(message.sizes_of, REJUDGES, "sizes_of"),
    )
    found += _violations(order)
    if found:
        raise InvalidRequest(found)
    return order


def _method(method: rejudge_pb2.RejudgeMethod, found: list[FieldViolation]) -> RejudgeMethod:
    known = {
        rejudge_pb2.REJUDGE_METHOD_UNSPECIFIED: RejudgeMethod.FACTS_OR_RUN,
        rejudge_pb2.REJUDGE_METHOD_FACTS_OR_RUN: RejudgeMethod.FACTS_OR_RUN,
        rejudge_pb2.REJUDGE_METHOD_RUN: RejudgeMethod.RUN,
    }
    if method not in known:
        names = ", ".join(f"REJUDGE_METHOD_{one.name}" for one in RejudgeMethod)
        found.append(FieldViolation("method", f"{int(method)} is not known here; take one of: {names}"))
    return known.get(method, RejudgeMethod.FACTS_OR_RUN)


def _violations(order: RejudgeOrder) -> list[FieldViolation]:
    found = []
    if not order.cause:
        found.append(FieldViolation("cause", "is empty; say in a sentence why, for the history of what is judged again"))
    elif len(order.cause) > CAUSE_CHARS or "\0" in order.cause:
        found.append(FieldViolation("cause", f"is no text of at most {CAUSE_CHARS} characters; shorten it"))
    if not (order.problem_id or order.competition_id or order.submission_ids):
        found.append(FieldViolation("problem", "says nothing, as competition and submissions do; name at least one of the three"))
    if len(order.submission_ids) > NAMED_LIMIT:
        found.append(FieldViolation("submissions", f"are more than {NAMED_LIMIT}; name fewer, or a problem or competition"))
    if not 0 <= order.top_count <= TOP_LIMIT:
        found.append(FieldViolation("top_count", f"{order.top_count} is no rank; take one from 1 to {TOP_LIMIT}, or leave it out for all"))
    elif order.top_count and (not order.competition_id or order.submission_ids):
        text = "is counted on the boards of a competition; name one, and no submissions"
        found.append(FieldViolation("top_count", text))
    for field, asked in (("fresh_sizes", order.fresh_sizes), ("sizes_of", order.sizes_of)):
        if asked and not order.competition_id:
            found.append(FieldViolation(field, "is of the secret workloads of a competition; name one"))
    if order.fresh_sizes and order.sizes_of:
        found.append(FieldViolation("sizes_of", "has sizes that are drawn already; leave it, or fresh_sizes, out"))
    if order.device_kind and not devices.well_formed(order.device_kind):
        found.append(FieldViolation("device_kind", f"{order.device_kind[:64]!r} is no device; write {devices.FORMS}, or leave it out"))
    return found


def rejudge_to_proto(rejudge: Rejudge, changes: Sequence[Change] = ()) -> rejudge_pb2.Rejudge:
    """A rejudge as administrators see it."""
    order = rejudge.order
    return rejudge_pb2.Rejudge(
        name=full_name(REJUDGES, rejudge.rejudge_id),
        cause=order.cause,
        problem=full_name(PROBLEMS, order.problem_id),
        competition=full_name(COMPETITIONS, order.competition_id),
        submissions=[full_name(SUBMISSIONS, one) for one in order.submission_ids],
        method=f"REJUDGE_METHOD_{order.method.name}",
        top_count=order.top_count,
        device_kind=order.device_kind,
        fresh_sizes=order.fresh_sizes,
        sizes_of=full_name(REJUDGES, order.sizes_of),
        state=f"REJUDGE_STATE_{rejudge.state.name}",
        submission_count=rejudge.submission_count,
        refolded_count=rejudge.refolded_count,
        rerun_count=rejudge.rerun_count,
        pending_count=rejudge.pending_count,
        failed_count=rejudge.failed_count,
        changes=[_change(one, rejudge) for one in changes],
        user=rejudge.user,
        create_time=_timestamp(rejudge.create_time),
        end_time=_timestamp(rejudge.end_time) if rejudge.end_time is not None else None,
    )


def _change(change: Change, rejudge: Rejudge) -> rejudge_pb2.RejudgeChange:
    message = rejudge_pb2.RejudgeChange(
        submission=full_name(SUBMISSIONS, change.submission_id),
        user=change.user,
        before=judgement_to_proto(change.before),
        after=judgement_to_proto(change.after),
        rank_before=change.rank_before,
        rank_after=change.rank_after,
    )
    if change.after.rejudge_id == rejudge.rejudge_id and rejudge.state is not RejudgeState.APPLIED:
        message.after.ClearField("create_time")  # it does not count yet
    return message


def _timestamp(time: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(time)
    return message
