"""Every exception that the server side raises on purpose.  Knows no gRPC; `grader/api/statuses.py` makes a status of each.

    GraderError
    ├── CallRefused       the call is wrong, or comes at the wrong time; nothing was changed
    ├── GraderFault       we are at fault; an attempt that ends so is retried
    ├── LeaseLost         another worker has the attempt now
    └── the others        never travel: a server, a worker, a command or the client says them where it runs

A kernel that fails is no exception: it is a fact, and a verdict.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import dataclass_transform


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """Violation of a field of a request, with what to do about it."""

    field: str
    description: str


@dataclass_transform(eq_default=False)
class GraderError(Exception):
    """The root of the tree: every class below it is a dataclass whose message is `text`, filled with its fields.

    code: the name of its gRPC status; "": it stays in the server, and the client gets INTERNAL. Else its fields travel, and a client makes
    the same error of them. resource: type and collection of what is missing. precondition: the kind of state that is in the way, and what
    precedes the first field in its subject. Both say which detail the status has.
    """

    reason = code = ""
    text = "{detail}"
    resource: tuple[str, str] | None = None
    precondition: tuple[str, str] | None = None
    spends_quota = False
    retry_s: float | None = None

    def __init_subclass__(cls) -> None:
        dataclass(eq=False, repr=False)(cls)

    def __str__(self) -> str:
        return self.text.format_map(vars(self))

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Return the names of the fields that travel as texts, in their order."""
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        return tuple(field.name for field in fields if cls.code and field.name != "violations")


class CallRefused(GraderError):
    """A call that was not carried out. reason is for programs and never changes."""

    reason = "CALL_REFUSED"


class InvalidRequest(CallRefused):
    """Fields of the request are wrong."""

    reason, code = "INVALID_REQUEST", "INVALID_ARGUMENT"
    violations: Sequence[FieldViolation]

    def __str__(self) -> str:
        return "; ".join(f"{violation.field}: {violation.description}" for violation in self.violations)


class InvalidSubmission(InvalidRequest):
    """Fields of the submission are wrong."""

    reason = "INVALID_SUBMISSION"


class ProblemNotFound(CallRefused):
    """There is no such problem here."""

    reason, code, resource = "PROBLEM_NOT_FOUND", "NOT_FOUND", ("Problem", "problems")
    problem_id: str
    available: tuple[str, ...] = ()
    fault: str = ""  # why one that was there can't be used, and what to do

    def __str__(self) -> str:
        if self.fault:
            return f"problem {self.problem_id!r} {self.fault}"
        remedy = f"take one of: {', '.join(self.available)}" if self.available else "list them with `grader-cli problems list`"
        return f"there is no problem {self.problem_id!r}; {remedy}"


class SubmissionNotFound(CallRefused):
    """There is no such submission here."""

    reason, code, resource = "SUBMISSION_NOT_FOUND", "NOT_FOUND", ("Submission", "submissions")
    submission_id: str
    text = "there is no submission {submission_id!r}; list them with `grader-cli list`"


class ArtifactNotFound(CallRefused):
    """The submission has no such file here."""

    reason, code, resource = "ARTIFACT_NOT_FOUND", "NOT_FOUND", ("Artifact", "submissions")
    submission_id: str
    name: str
    text = "submission {submission_id!r} has no file {name!r} here; list its files with `grader-cli show {submission_id} --files`"


class RequestIdReused(CallRefused):
    """The request id was used before, with another request."""

    reason, code = "REQUEST_ID_REUSED", "ALREADY_EXISTS"
    request_id: str
    text = "request_id {request_id!r} was used with another request; make a new UUID for a new one"


class AlreadyFinished(CallRefused):
    """A finished submission cannot be cancelled."""

    reason, code, precondition = "ALREADY_FINISHED", "FAILED_PRECONDITION", ("SUBMISSION_FINISHED", "submissions/")
    submission_id: str
    state: str

    def __str__(self) -> str:
        return f"submission {self.submission_id!r} is {self.state.upper()} already; only queued and running ones can be cancelled"


class NoSuchDevice(CallRefused):
    """This server has no device of that kind."""

    reason, code, precondition = "NO_SUCH_DEVICE", "FAILED_PRECONDITION", ("DEVICE_KIND", "")
    device_kind: str
    available: tuple[str, ...]

    def __str__(self) -> str:
        text = f"no device of kind {self.device_kind!r} is here"
        if not self.available:
            return f"{text}, and there is no other to take; ask the server's operator, or the competition's organisers"
        return f"{text}; leave it out or take one of: {', '.join(self.available)}"


class Unauthenticated(CallRefused):
    """The caller's key is missing or not valid."""

    reason, code = "UNAUTHENTICATED", "UNAUTHENTICATED"
    detail: str
    text = "{detail}; store a key with `grader-cli login`, or set GRADER_KEY"


class PermissionDenied(CallRefused):
    """The caller's key lacks the scope for this."""

    reason, code = "PERMISSION_DENIED", "PERMISSION_DENIED"
    scope: str
    text = "this key does not have the scope {scope!r}; ask an administrator for one that has"


class NotInstalled(CallRefused):
    """The server lacks the package that this needs."""

    reason, code = "NOT_INSTALLED", "UNIMPLEMENTED"
    feature: str
    text = "this server lacks the package for {feature}; its administrator can install kernel-grader-extensions"


class CompetitionNotFound(CallRefused):
    """There is no such competition here."""

    reason, code, resource = "COMPETITION_NOT_FOUND", "NOT_FOUND", ("Competition", "competitions")
    competition_id: str
    available: tuple[str, ...] = ()

    def __str__(self) -> str:
        remedy = f"take one of: {', '.join(self.available)}" if self.available else "there are none on this server"
        return f"there is no competition {self.competition_id!r}; {remedy}"


class CompetitionClosed(CallRefused):
    """The competition takes no submissions now."""

    reason, code, precondition = "COMPETITION_CLOSED", "FAILED_PRECONDITION", ("COMPETITION_PHASE", "competitions/")
    competition_id: str
    phase: str
    time: str = ""

    def __str__(self) -> str:
        when = f"it begins at {self.time}; submit it then" if self.phase == "upcoming" else f"it ended at {self.time}"
        return f"competition {self.competition_id!r} takes no submissions now: {when}; a submission without a competition is graded"


class UserBanned(CallRefused):
    """The organisers have banned the caller from the competition."""

    reason, code = "USER_BANNED", "PERMISSION_DENIED"
    competition_id: str
    detail: str
    text = "you are banned from competition {competition_id!r}: {detail}; ask its organisers, or submit without a competition"


class QuotaExceeded(CallRefused):
    """The caller has used its quota."""

    reason, code = "QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED"
    spends_quota = True
    limit: int
    retry_s: float
    period: str = ""

    def __str__(self) -> str:
        period = f" submissions {self.period}" if self.period else ""
        return f"the quota of {self.limit}{period} is spent; try again in {self.retry_s:.0f} s"


class QueueFull(CallRefused):
    """The queue is full."""

    reason, code = "QUEUE_FULL", "UNAVAILABLE"
    limit: int
    retry_s: float = 5.0
    text = "{limit} submissions wait already; try again in {retry_s:.0f} s"


class QueueShareUsed(CallRefused):
    """This user's share of the queue is used; there may be room for others."""

    reason, code = "QUEUE_SHARE_USED", "RESOURCE_EXHAUSTED"
    spends_quota = True
    limit: int
    retry_s: float = 30.0
    text = "{limit} of your submissions wait already, your share of the queue; try again in {retry_s:.0f} s, or cancel some"


class TooManyWatches(CallRefused):
    """This user has as many streams of many submissions open as a server answers."""

    reason, code = "TOO_MANY_WATCHES", "RESOURCE_EXHAUSTED"
    spends_quota = True
    limit: int
    retry_s: float = 30.0
    text = "you have {limit} of these streams open here; close some, or watch more submissions in one"


class ShuttingDown(CallRefused):
    """The server is shutting down."""

    reason, code = "SHUTTING_DOWN", "UNAVAILABLE"
    retry_s: float = 5.0
    text = "the server is shutting down; try again in {retry_s:.0f} s"


class ReadOnly(CallRefused):
    """This server is read-only."""

    reason, code = "READ_ONLY", "FAILED_PRECONDITION"
    text = "this server only reads; send submissions and cancellations to the one that grades"


class ProblemInvalid(GraderError):
    """A problem's files are wrong."""

    path: str
    message: str
    text = "{path}: {message}"


class SettingsInvalid(GraderError):
    """A setting is impossible or not allowed. setting: its name in the code, or what else the message is to begin with."""

    setting: str
    message: str

    def __str__(self) -> str:
        return f"{option_name(self.setting)}: {self.message}"


_IN_ENVIRONMENT = ("cache_dir", "database", "resident_toolchain", "server", "state_dir")  # as GRADER_CACHE_DIR


def option_name(setting: str) -> str:
    """Return the option of a setting, and the environment variable that is read without it; a text that names no setting, as it is."""
    variable = f" (or $GRADER_{setting.upper()})" if setting in _IN_ENVIRONMENT else ""
    return f"--{setting.replace('_', '-')}{variable}" if re.fullmatch("[a-z_]+", setting) else setting


class StateDirectoryInUse(GraderError):
    """Another server has the state directory."""

    path: str
    holder_pid: int | None

    def __str__(self) -> str:
        holder = f" (process {self.holder_pid})" if self.holder_pid else ""
        return f"another server{holder} uses the state directory {self.path}; stop it, or give this one another --state-dir"


class LedgerUnreachable(GraderError):
    """The ledger's database can't be opened."""

    database: str
    detail: str

    def __str__(self) -> str:
        hint = "; is it running, and may this user connect and make tables?" if self.database.startswith("postgresql:") else ""
        return f"can't use the database {self.database}: {self.detail}{hint}"


class LedgerNewer(GraderError):
    """The ledger's tables are not those of this program."""

    ledger_version: str
    newest_version: str
    text = (
        "the ledger has schema version {ledger_version!r}, and this program knows versions up to {newest_version!r}: "
        "a newer grader wrote it; run that one, or restore a backup that was made before it"
    )


class LedgerInUse(GraderError):
    """The ledger's tables have to be upgraded, and servers of an older version use them. servers: as they are shown."""

    ledger_version: str
    newest_version: str
    servers: Sequence[str]

    def __str__(self) -> str:
        return (
            f"the ledger has schema version {self.ledger_version!r}, this program upgrades it to {self.newest_version!r}, "
            f"and servers of the older version use it: {', '.join(self.servers)}; stop them (SIGTERM: what runs ends, what waits stays "
            "in the queue), make a backup, then start this one"
        )


class ServerUnreachable(GraderError):
    """A server does not answer, or not in time."""

    address: str
    detail: str
    text = "no answer from {address}: {detail}"


class LeaseLost(GraderError):
    """A worker wrote for an attempt that is not its own any more."""

    submission_id: str
    attempt: int
    text = "attempt {attempt} at submission {submission_id!r} is not leased to this worker any more"


class GraderFault(GraderError):
    """We are at fault, not the caller and not the kernel. final: another attempt would end the same way."""

    reason = "GRADER_FAULT"
    final = False
    detail: str


class SandboxBroken(GraderFault):
    """The sandbox does not work on this host."""

    reason = "SANDBOX_BROKEN"


class JudgeBroken(GraderFault):
    """The judge process failed."""

    reason = "JUDGE_BROKEN"


class DeviceQuarantined(GraderFault):
    """A device is out of service: it failed its check twice, the second time after its judge was restarted, or an operator cordoned it."""

    reason = "DEVICE_QUARANTINED"


class HostBroken(GraderFault):
    """A host can't grade now, whatever the submission. The attempt is not counted."""

    reason = "HOST_BROKEN"


class WorkerLost(GraderFault):
    """A worker of the fleet went away, or did not keep to the protocol. Its attempts are not counted."""

    reason = "WORKER_LOST"


class WorkerFault(GraderFault):
    """Several workers of the fleet were lost with a submission. With another reason: a worker failed, in its words."""

    reason = "WORKERS_LOST"

    def __init__(self, reason: str, detail: str, *, final: bool) -> None:
        self.reason, self.detail, self.final = reason, detail, final


class ProblemBroken(GraderFault):
    """A problem's own reference does not work: its author has to fix it."""

    reason = "PROBLEM_BROKEN"
    final = True


class ModeNotInstalled(GraderFault):
    """The package that grades in this mode is not installed here."""

    reason = "MODE_NOT_INSTALLED"
    final = True


class LedgerBusy(GraderFault):
    """The ledger could not be written in time."""

    reason, code = "LEDGER_BUSY", "UNAVAILABLE"
    retry_s = 1.0


class InternalFault(GraderFault):
    """A server failed and keeps the reason in its log, under request_id."""

    reason = "INTERNAL"
    request_id: str = ""
