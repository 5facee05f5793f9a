"""A field of a dataclass reaches the API by its name, and no field of the API is forgotten."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from grader.api.conversion import FieldWithoutSource, from_enum, to_message
from grader.model import Judgement, Score, Verdict
from grader.v1 import competition_pb2, grader_service_pb2, rejudge_pb2, report_pb2
from sandbox.protocol import wire

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ban:
    competition_id: str
    user: str
    reason: str
    create_time: datetime
    administrator: str
    submission_count: int = 0


BAN = Ban(competition_id="c", user="u", reason="r", create_time=NOW, administrator="a", submission_count=3)


def message_with(message: str, name: str) -> type:
    """A message class with one integer, as an edited proto file would have it."""
    file = FileDescriptorProto(name="new.proto", package="new", syntax="proto3")
    field = FieldDescriptorProto(name=name, number=1, type=FieldDescriptorProto.TYPE_INT64, label=FieldDescriptorProto.LABEL_OPTIONAL)
    file.message_type.add(name=message).field.append(field)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"new.{message}"))


def test_a_new_field_needs_no_line_between_its_fact_and_its_message():
    """The control: a field that the fact lacks is named."""
    fact = dataclasses.make_dataclass("Trial", [("warp_count", int)], slots=True)(warp_count=32)
    message = message_with("Trial", "warp_count")
    assert to_message(message, fact).warp_count == 32
    with pytest.raises(FieldWithoutSource, match="Trial: warp_count"):
        to_message(message, BAN)


def test_times_names_and_numbers_are_converted_by_the_type_of_the_field():
    message = to_message(competition_pb2.Ban, BAN)
    assert (message.competition, message.user, message.submission_count) == ("competitions/c", "u", 3)
    assert message.create_time.ToDatetime(UTC) == NOW
    launch = to_message(report_pb2.KernelLaunch, wire.KernelLaunch(kernel="k", grid=(2, 1, 1), block=(32,), duration_ns=5_000_000_001))
    assert launch.total_duration.ToTimedelta() == timedelta(seconds=5) and list(launch.grid) == [2, 1, 1]
    tool = wire.ProfileTool(name="ncu", outcome=wire.ToolOutcome.FAILED)
    assert to_message(report_pb2.Profile, wire.KernelProfile(tools=(tool,))).tools[0].outcome == report_pb2.PROFILE_TOOL_OUTCOME_FAILED


def test_none_leaves_a_field_unset_and_zero_does_not():
    """Of optional numbers and of messages."""
    launch = wire.KernelLaunch(kernel="k", grid=(), block=())
    assert not to_message(report_pb2.KernelLaunch, launch).HasField("total_duration")
    assert to_message(report_pb2.KernelLaunch, dataclasses.replace(launch, duration_ns=0)).HasField("total_duration")
    trial = wire.Trial(workload_id="w", phase=wire.TrialPhase.VERIFY, index=0, outcome=wire.TrialOutcome.PASSED, budget_ratio=0.0)
    shown = to_message(report_pb2.Trial, trial)
    assert shown.HasField("budget_ratio") and not shown.HasField("max_absolute_error")


def test_a_computed_field_must_be_one_of_the_message():
    artifact = wire.KernelLaunch(kernel="k", grid=(), block=())
    with pytest.raises(FieldWithoutSource, match="Artifact: "):
        to_message(grader_service_pb2.Artifact, artifact)
    with pytest.raises(ValueError, match="title"):
        to_message(report_pb2.KernelLaunch, artifact, title="x")


def test_a_score_becomes_three_numbers_or_none():
    score = Score(value=2.0, low=1.0, high=3.0)
    scored = Judgement(sequence=1, verdict=Verdict.ACCEPTED, reason="", summary="", problem_digest="d", create_time=NOW, score=score)
    shown = to_message(rejudge_pb2.Judgement, scored)
    assert (shown.score, shown.score_low, shown.score_high, shown.rejudge) == (2.0, 1.0, 3.0, "")
    assert not to_message(rejudge_pb2.Judgement, dataclasses.replace(scored, score=None)).HasField("score")


def test_enums_come_back_by_their_names():
    """And what this version does not know, or nobody has set, does not."""
    assert from_enum(Verdict, report_pb2.Verdict.DESCRIPTOR, report_pb2.VERDICT_WRONG_ANSWER) is Verdict.WRONG_ANSWER
    for number in (0, 99):
        with pytest.raises(ValueError, match="is not a Verdict"):
            from_enum(Verdict, report_pb2.Verdict.DESCRIPTOR, number)
