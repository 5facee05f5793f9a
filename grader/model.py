"""What the server side talks about: problems, submissions, events, reports.  Data only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sandbox import wire

SOURCE_LIMIT_BYTES = 1024 * 1024


class SubmissionState(StrEnum):
    """Where a submission is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"  # graded, whatever the verdict
    FAILED = "failed"  # we failed
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self in (SubmissionState.SUCCEEDED, SubmissionState.FAILED, SubmissionState.CANCELLED)


class Verdict(StrEnum):
    """What became of a kernel."""

    ACCEPTED = "ACCEPTED"
    COMPILE_ERROR = "COMPILE_ERROR"
    WRONG_ANSWER = "WRONG_ANSWER"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    TIME_LIMIT_EXCEEDED = "TIME_LIMIT_EXCEEDED"
    MEMORY_LIMIT_EXCEEDED = "MEMORY_LIMIT_EXCEEDED"
    OUTPUT_LIMIT_EXCEEDED = "OUTPUT_LIMIT_EXCEEDED"
    DISQUALIFIED = "DISQUALIFIED"


Decision = tuple[Verdict, str, str]  # verdict, reason, the sentence for people


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One source file; path is relative, normalized and unique in its submission."""

    path: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a kernel is asked to compute."""

    problem_id: str
    title: str
    languages: tuple[str, ...]
    spec: wire.ProblemSpec
    statement: str = ""

    @property
    def digest(self) -> str:
        """A digest of everything that decides a verdict."""
        return self.spec.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSubmission:
    """A kernel handed in, checked, with its language decided."""

    problem_id: str
    language: str
    sources: tuple[SourceFile, ...]
    entry: str = ""  # "" is the problem's own
    device_kind: str = ""  # "" is any
    mode: wire.Mode = wire.Mode.BENCHMARK


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the facts of one submission say, drawn by `grader/verdict.py`."""

    verdict: Verdict
    reason: str
    summary: str
    speedups: tuple[wire.Speedup, ...] = ()
    build: wire.Build | None = None
    trials: tuple[wire.Trial, ...] = ()
    measurements: tuple[wire.Measurement, ...] = ()
    environment: wire.Environment | None = None
    output: str = ""  # the head of what the kernel printed
    flags: tuple[str, ...] = ()  # such as REPORTED_TIME_NOT_CONFIRMED
    libraries: tuple[str, ...] = ()  # what it uses that others have written, where the problem asks


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why the grader failed, for `google.rpc.Status`."""

    reason: str
    message: str
    final: bool = False  # another attempt would end the same way


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A submission as the ledger has it."""

    submission_id: str
    new: NewSubmission
    problem_digest: str
    state: SubmissionState
    create_time: datetime
    attempt_count: int = 0
    start_time: datetime | None = None
    end_time: datetime | None = None
    report: Report | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a submission: a fact, or a change of state (then fact is None)."""

    sequence: int
    event_time: datetime
    attempt: int
    fact: wire.Fact | None = None
    state: SubmissionState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One attempt at one submission, held by a worker that must keep it alive."""

    submission: Submission
    problem: Problem
    attempt: int
    worker_id: str
