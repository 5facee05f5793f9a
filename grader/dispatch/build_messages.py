"""A build that one host asks of another, as the messages between them.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from grader.artifacts import BuildResult
from grader.artifacts.files import chunks
from grader.fleet.v1 import fleet_pb2
from sandbox.protocol import wire
from sandbox.protocol.wire import BuildOutcome

ARTIFACT_LIMIT_BYTES = 256 * 1024 * 1024  # far above what a build box may leave
LINE_LIMIT_BYTES = 1024 * 1024


def build_message(number: int, job: wire.BuildJob, files: Mapping[str, bytes], user: str) -> fleet_pb2.Build:
    """What a builder is sent. files: by their paths below the directory of sources."""
    inputs = [fleet_pb2.BuildInput(path=path, content=content) for path, content in files.items()]
    return fleet_pb2.Build(number=number, job=wire.encode(job), inputs=inputs, user=user)


def build_asked(message: fleet_pb2.Build) -> tuple[wire.BuildJob, dict[str, bytes]]:
    """The job and its files; ValueError where that is none."""
    job = wire.decode(message.job)
    if not isinstance(job, wire.BuildJob):
        raise ValueError(f"a {type(job).__name__} where a build job was due")
    for one in message.inputs:
        path = PurePosixPath(one.path)
        if path.is_absolute() or ".." in path.parts or str(path) != one.path:
            raise ValueError("a file whose path leads elsewhere")
    return job, {one.path: one.content for one in message.inputs}


def build_pieces(number: int, made: BuildResult | None) -> Iterator[fleet_pb2.BuildPiece]:
    """What was built, in pieces; one without anything where nobody has built it."""
    if made is None:
        yield fleet_pb2.BuildPiece(number=number, last=True)
        return
    parts = list(chunks(made.artifact or b""))
    for part in parts[:-1]:
        yield fleet_pb2.BuildPiece(number=number, content=part)
    yield fleet_pb2.BuildPiece(number=number, content=parts[-1], last=True, build=wire.encode(made.build), lasting=made.cacheable)


class BuildReceived:
    """Puts the pieces of one build together. made: what was built; None before the last piece, and where nobody has built it."""

    def __init__(self) -> None:
        self._content = bytearray()
        self.made: BuildResult | None = None

    def add(self, piece: fleet_pb2.BuildPiece) -> bool:
        """Take the next piece; whether it was the last. ValueError, with what was done wrong, where it is no build."""
        self._content += piece.content
        if len(self._content) > ARTIFACT_LIMIT_BYTES or len(piece.build) > LINE_LIMIT_BYTES:
            raise ValueError("sent a build that is too large")
        if piece.last and piece.build:
            self.made = _made(bytes(self._content), piece)
        return piece.last


def _made(content: bytes, piece: fleet_pb2.BuildPiece) -> BuildResult:
    try:
        build = wire.decode(piece.build)
    except wire.WireError as error:
        raise ValueError(f"sent a line that is no build: {error}") from None
    if not isinstance(build, wire.Build):
        raise ValueError(f"sent a {type(build).__name__}, which is no build")
    built = build.outcome is BuildOutcome.BUILT
    if build.artifact_digest != (hashlib.sha256(content).hexdigest() if built else None):
        raise ValueError("sent an artifact that is not what its digest says")
    if content and not built:
        raise ValueError("sent an artifact of a build that failed")
    return BuildResult(build=build, artifact=content if built else None, cacheable=piece.lasting)
