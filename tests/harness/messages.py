"""Messages between tests and the grading service: pickled dataclasses in frames, over a socket that only this user can open."""

from __future__ import annotations

from dataclasses import dataclass

from grader.model import Problem, SourceFile
from sandbox.protocol import wire
from tests.harness.grading import USUAL, Conditions, Graded

SOCKET = "grading"
SECRET = "GRADER_EXPLOIT_SECRET"  # in the judges' environment: no kernel may find it
LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GradingRequest:
    """A submission of a test. then: what is graded on the same lane right after it."""

    isolation: str
    problem: Problem
    sources: tuple[SourceFile, ...]
    language: str
    mode: wire.Mode = wire.Mode.TEST
    conditions: Conditions = USUAL
    then: GradingRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Build this submission, or find it in the cache; nothing is run."""

    submission: GradingRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """The isolation that was asked for does not work on this machine."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFailed:
    """The service could not answer: the grader failed, or the service has a fault."""

    detail: str


Answer = tuple[Graded, ...] | tuple[wire.Build, bytes | None] | Unusable | ServiceFailed


def frame(content: bytes) -> bytes:
    """The bytes as they go over the socket."""
    return len(content).to_bytes(LENGTH_BYTES, "big") + content
