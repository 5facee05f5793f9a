"""Data of the server side: problems, submissions, events, reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from sandbox.protocol import wire
from sandbox.protocol.wire import ALWAYS, NOT_SECRET

SOURCE_LIMIT_BYTES = 1024 * 1024
ID_LIMIT_CHARS = 200  # an imported problem is kept in a file of its id


class SubmissionState(StrEnum):
    """Where a submission is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"  # graded, whatever the verdict
    FAILED = "failed"  # we failed
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Return whether nothing can happen to it any more."""
        return self in (SubmissionState.SUCCEEDED, SubmissionState.FAILED, SubmissionState.CANCELLED)


class Verdict(StrEnum):
    """Verdict on a kernel."""

    ACCEPTED = "ACCEPTED"
    COMPILE_ERROR = "COMPILE_ERROR"
    WRONG_ANSWER = "WRONG_ANSWER"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    TIME_LIMIT_EXCEEDED = "TIME_LIMIT_EXCEEDED"
    MEMORY_LIMIT_EXCEEDED = "MEMORY_LIMIT_EXCEEDED"
    OUTPUT_LIMIT_EXCEEDED = "OUTPUT_LIMIT_EXCEEDED"
    DISQUALIFIED = "DISQUALIFIED"


class Reason(StrEnum):
    """Why a kernel got its verdict. Programs compare these; a value never changes its meaning."""

    ENTRY_NOT_FOUND = "ENTRY_NOT_FOUND"
    LOAD = "LOAD"
    UNSUPPORTED = "UNSUPPORTED"
    REJECTED = "REJECTED"
    IMPORT_FAILED = "IMPORT_FAILED"
    BUILD = "BUILD"
    BUILDER_DIED = "BUILDER_DIED"
    TRIAL = "TRIAL"
    RUN = "RUN"
    RAISED = "RAISED"
    EXITED = "EXITED"
    SIGNALLED = "SIGNALLED"
    ABORTED = "ABORTED"
    ARITHMETIC = "ARITHMETIC"
    ILLEGAL_ADDRESS = "ILLEGAL_ADDRESS"
    UNWRITTEN_OUTPUT = "UNWRITTEN_OUTPUT"
    NON_FINITE = "NON_FINITE"
    MISMATCH = "MISMATCH"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    INPUT_MODIFIED = "INPUT_MODIFIED"
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"
    DEVICE_MEMORY = "DEVICE_MEMORY"
    DEVICE_ASSERT = "DEVICE_ASSERT"
    STACK_OVERFLOW = "STACK_OVERFLOW"
    DEVICE_FAULT = "DEVICE_FAULT"
    HOST_MEMORY = "HOST_MEMORY"
    STDOUT = "STDOUT"
    SANDBOX_VIOLATION = "SANDBOX_VIOLATION"
    PROCESS_LIMIT = "PROCESS_LIMIT"
    TIMING_TAMPERED = "TIMING_TAMPERED"
    BELOW_PHYSICAL_FLOOR = "BELOW_PHYSICAL_FLOOR"
    INCOMPLETE = "INCOMPLETE"
    POLICY = "POLICY"


# The verdict, its reason ("" for ACCEPTED), and the sentence for people.
Decision = tuple[Verdict, Reason | Literal[""], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """Source file; path is relative, normalized and unique in its submission."""

    path: str
    content: str


class ScoreKind(StrEnum):
    """Figure by which entries of a board are compared."""

    SPEEDUP = "speedup"  # baseline over subject; larger is better
    TIME = "time"  # certified nanoseconds; smaller is better


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """How ranked mode grades, and what it draws a score from."""

    process_count: int = 3  # fresh runner processes, each verified and timed by itself
    score_kind: ScoreKind = ScoreKind.SPEEDUP
    baseline: str = "eager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Sizes of one axis from start to at most stop: each is the one before times factor, rounded, or plus step. axes: the sizes of the
    other axes. device_kind: the one kind of device that it is for; "": every kind."""

    axis: str
    start: int
    stop: int
    factor: float | None = None
    step: int | None = None
    axes: Mapping[str, int] = field(default_factory=dict)
    device_kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Problem that a kernel has to solve."""

    problem_id: str
    title: str
    languages: tuple[str, ...]
    spec: wire.ProblemSpec
    statement: str = ""
    ranking: Ranking = field(default_factory=Ranking)
    competition_id: str = ""  # of the competition that grades by it: then only the outcome of hidden workloads is shown
    moved_bytes: str = ""  # expressions over the axes, for further workloads; "": not declared, or of a format without them
    flops: str = ""
    sweeps: tuple[Sweep, ...] = ()
    swept_axis: str = ""  # of a problem that mode sweep made for one submission: its workloads are the sizes of this axis
    sweep_measure_s: float | None = None  # for one size, where the submission asks for it
    cascade: bool = False  # as of a submission, for all of them

    @property
    def digest(self) -> str:
        """A digest of everything that decides a verdict."""
        return self.spec.digest

    def ranking_in(self, mode: wire.Mode) -> Ranking | None:
        """How a submission in this mode is scored; None where it is not."""
        return self.ranking if mode is wire.Mode.RANKED else None


def problem_id_of(name: str) -> str:
    """The id of the problem called name in a set of others, such as a FlashInfer definition: lower case letters, digits and `_`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:ID_LIMIT_CHARS] or "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSubmission:
    """A kernel handed in, checked, with its language decided."""

    problem_id: str
    language: str
    sources: tuple[SourceFile, ...]
    entry: str = ""  # "" is the problem's own
    device_kind: str = ""  # "" is any
    mode: wire.Mode = wire.Mode.BENCHMARK
    user: str = ""  # whose it is; "" where nobody is asked
    competition_id: str = ""  # "" is none
    tags: tuple[str, ...] = ()  # sorted; this and the next two are shown to the owner and administrators only
    parent_id: str = ""  # of the submission that it was made from; "" is none
    annotations: Mapping[str, str] = field(default_factory=dict)
    precision: float | None = None  # the half-width at which measurements may end; None: the server's
    measure_s: float | None = None  # for one workload; None: the server's
    skip_sanitizer: bool = False  # after a failed test on the emulated device
    cascade: bool = False  # on the emulated device first, and on a GPU where it is not wrong there


class Scope(StrEnum):
    """Use of a key."""

    SUBMIT = "submit"  # hand in, cancel and withdraw
    READ = "read"  # one's own submissions, problems, boards
    ADMIN = "admin"  # everybody's, rejudges, and what organisers do


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Caller of the API. user "" is anybody who can reach a server that requires no keys: all scopes, and everybody's submissions."""

    user: str = ""
    scopes: frozenset[Scope] = frozenset(Scope)
    key_id: str = ""
    expire_time: datetime | None = None
    share: str = ""  # of a client without a key: whose turns in the queue it takes; shown to nobody

    @property
    def admin(self) -> bool:
        """Return whether everybody's submissions are shown."""
        return Scope.ADMIN in self.scopes

    def may_see(self, user: str) -> bool:
        """Return whether what is this user's is shown. Submissions without a user are the administrators' only."""
        return self.admin or (self.user != "" and self.user == user)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A figure, such as that which boards compare, with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Judgement of a submission. sequence counts up from 1; rejudge_id "" is the first, by its own grading."""

    sequence: int
    verdict: Verdict
    reason: str
    summary: str
    problem_digest: str
    create_time: datetime
    score: Score | None = None
    rejudge_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Report on a submission, drawn from its facts by `grader/verdict/fold.py`."""

    verdict: Annotated[Verdict, ALWAYS]
    reason: Annotated[str, ALWAYS]
    summary: Annotated[str, ALWAYS]
    speedups: Annotated[tuple[wire.Speedup, ...], ALWAYS] = ()
    build: Annotated[wire.Build | None, ALWAYS] = None
    trials: Annotated[tuple[wire.Trial, ...], ALWAYS] = ()
    measurements: Annotated[tuple[wire.Measurement, ...], ALWAYS] = ()
    environment: Annotated[wire.Environment | None, ALWAYS] = None
    output: Annotated[str, wire.OUTPUT] = ""  # the head of what the kernel printed
    flags: Annotated[tuple[str, ...], ALWAYS] = ()  # such as REPORTED_TIME_NOT_CONFIRMED
    libraries: Annotated[tuple[str, ...], ALWAYS] = ()  # what it uses that others have written, where the problem asks
    process_count: Annotated[int, ALWAYS] = 1  # fresh processes that it was verified, and timed, in
    score: Annotated[Score | None, ALWAYS] = None  # of ranked mode, where it was accepted
    rule: Annotated[str, ALWAYS] = ""  # what counted as right, for people
    profile: Annotated[wire.KernelProfile | None, ALWAYS] = None  # of profile mode: claims, which decide nothing
    timeline: Annotated[tuple[wire.Span, ...], NOT_SECRET] = ()  # what the time of the attempt went into
    exit_code: Annotated[int | None, ALWAYS] = None  # this and the next: how the kernel's process ended, where that decided
    signal: Annotated[int | None, ALWAYS] = None
    screening: Annotated[wire.Screening | None, ALWAYS] = None  # the stage on the emulated device, before a GPU
    cached_from: Annotated[str, ALWAYS] = ""  # the id of the identical submission that was graded; "": this one was


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionArtifact:
    """A file that belongs to a submission. digest: the sha256 of its bytes, in hex."""

    name: str
    tool: str
    digest: str
    size_bytes: int
    create_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why the grader failed, for `google.rpc.Status`."""

    reason: str
    message: str
    final: bool = False  # another attempt would end the same way


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """That a submission was taken off the boards of its competition. user: who did it, its owner or an administrator."""

    user: str
    reason: str
    create_time: datetime


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
    score: Score | None = None
    judgements: tuple[Judgement, ...] = ()  # where they were asked for
    sources_removed: bool = False  # for they are kept for a time only; said where sources are
    judgement_count: int = 0
    rejudge_id: str = ""  # of a run that a rejudge asked for: no user's submission
    cancel_requested: bool = False  # it ends as cancelled once its boxes are gone
    withdrawal: Withdrawal | None = None  # while it is on no board


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How many are taken up before a submission, and how long that takes; None where nothing is known. no_worker: none is joined."""

    ahead_count: int
    estimated_s: float | None
    no_worker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a submission: a fact, or a change of state (then fact is None)."""

    sequence: int
    event_time: Annotated[datetime, wire.MOMENT]
    attempt: int
    fact: wire.Fact | None = None
    state: SubmissionState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Number of submissions that wait, of a mode. oldest_time: when the oldest of it was made."""

    mode: wire.Mode
    count: int
    oldest_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTotals:
    """Work of a ledger's writer since it was opened. busy_s: as long as it is not waiting for work, the disk included."""

    commit_count: int = 0
    transaction_count: int = 0
    busy_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDemand:
    """How many submissions wait and run that ask for a device; device_kind "" is any."""

    device_kind: str
    queued_count: int
    running_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Attempt at a submission, held by a worker that must keep it alive."""

    submission: Submission
    problem: Problem
    attempt: int
    worker_id: str

    @property
    def ranking(self) -> Ranking | None:
        """How it is scored; None where its mode is not ranked."""
        return self.problem.ranking_in(self.submission.new.mode)
