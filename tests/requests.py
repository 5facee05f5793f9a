"""Requests as a client sends them."""

from __future__ import annotations

from collections.abc import Iterable

from grader.api.resource_names import COMPETITIONS, PROBLEMS, full_name
from grader.model import SourceFile
from grader.v1 import submission_pb2
from sandbox.protocol import wire


def new_submission(
    problem_id: str,
    sources: Iterable[SourceFile],
    *,
    language: str = "",
    entry: str = "",
    device_kind: str = "",
    mode: wire.Mode = wire.Mode.BENCHMARK,
    competition_id: str = "",
    tags: Iterable[str] = (),
) -> submission_pb2.Submission:
    """The submission of a SubmitRequest."""
    return submission_pb2.Submission(
        problem=full_name(PROBLEMS, problem_id),
        language=language,
        sources=[submission_pb2.SourceFile(path=source.path, content=source.content) for source in sources],
        entry=entry,
        device_kind=device_kind,
        mode=f"MODE_{mode.name}",
        competition=full_name(COMPETITIONS, competition_id),
        tags=tags,
    )
