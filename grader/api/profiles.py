"""What profile mode found, and the files that it left, to protobuf.  Pure."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from grader.api.resource_names import artifact_name
from grader.model import SubmissionArtifact
from grader.v1 import grader_service_pb2, report_pb2
from sandbox.protocol import wire


def profile_to_proto(profile: wire.KernelProfile) -> report_pb2.Profile:
    """A profile as submitters see it: nothing in it is of a hidden workload."""
    return report_pb2.Profile(
        tools=[report_pb2.ProfileTool(name=one.name, outcome=_outcome(one.outcome), detail=one.detail) for one in profile.tools],
        workload_id=profile.workload_id,
        architecture=profile.architecture,
        kernels=[report_pb2.KernelUse(**asdict(one)) for one in profile.kernels],
        launches=[_launch(one) for one in profile.launches],
        remarks=profile.remarks,
        findings=[_finding(one) for one in profile.findings],
        access_counts=_access_counts(profile.access_counts),
    )


def artifact_to_proto(
    submission_id: str, artifact: SubmissionArtifact, *, retention: timedelta | None, available: bool
) -> grader_service_pb2.Artifact:
    """A file. retention: how long after it was made; None: for ever."""
    message = grader_service_pb2.Artifact(
        name=artifact_name(submission_id, artifact.name),
        tool=artifact.tool,
        size_bytes=artifact.size_bytes,
        digest=artifact.digest,
        create_time=Timestamp(),
        available=available,
    )
    message.create_time.FromDatetime(artifact.create_time)
    if retention is not None:
        message.expire_time.FromDatetime(artifact.create_time + retention)
    return message


def _outcome(outcome: wire.ToolOutcome) -> report_pb2.ProfileToolOutcome:
    return cast(report_pb2.ProfileToolOutcome, report_pb2.ProfileToolOutcome.Value(f"PROFILE_TOOL_OUTCOME_{outcome.name}"))


def _finding(found: wire.SanitizerFinding) -> report_pb2.SanitizerFinding:
    kind = report_pb2.SanitizerFindingKind.Value(f"SANITIZER_FINDING_KIND_{found.kind.name}")
    severity = report_pb2.SanitizerSeverity.Value(f"SANITIZER_SEVERITY_{found.severity.name}")
    return report_pb2.SanitizerFinding(
        kind=cast(report_pb2.SanitizerFindingKind, kind),
        severity=cast(report_pb2.SanitizerSeverity, severity),
        message=found.message,
        path=found.path,
        line=found.line,
        other_path=found.other_path,
        other_line=found.other_line,
        memory=found.memory,
        block=found.block,
        thread=found.thread,
        count=found.count,
    )


def _access_counts(found: wire.AccessCounts | None) -> report_pb2.AccessCounts | None:
    if found is None:
        return None
    return report_pb2.AccessCounts(
        lines=[_line_counts(one) for one in found.lines],
        counted_blocks=found.counted_blocks,
        blocks=found.blocks,
        partial=found.partial,
        flops=[report_pb2.LineFlops(**asdict(one)) for one in found.flops],
    )


def _line_counts(found: wire.LineCounts) -> report_pb2.LineCounts:
    access = report_pb2.MemoryAccess.Value(f"MEMORY_ACCESS_{found.access.name}")
    return report_pb2.LineCounts(**{**asdict(found), "access": cast(report_pb2.MemoryAccess, access)})


def _launch(launch: wire.KernelLaunch) -> report_pb2.KernelLaunch:
    message = report_pb2.KernelLaunch(
        kernel=launch.kernel, grid=launch.grid, block=launch.block, shared_bytes=launch.shared_bytes, count=launch.count
    )
    if launch.duration_ns is not None:
        duration = Duration()
        duration.FromNanoseconds(launch.duration_ns)
        message.total_duration.CopyFrom(duration)
    return message
