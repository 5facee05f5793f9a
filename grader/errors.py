"""Every exception that the server side raises on purpose.  Knows no gRPC; `grader/api/statuses.py` makes a status of each.

    GraderError
    ├── CallRefused                     the call is wrong, or comes at the wrong time; nothing was changed
    │   ├── InvalidRequest              violations: a field each
    │   │   └── InvalidSubmission
    │   ├── ProblemNotFound             problem_id, available, fault
    │   ├── SubmissionNotFound          submission_id
    │   ├── ArtifactNotFound            submission_id, name
    │   ├── RequestIdReused             request_id
    │   ├── NotWaiting                  submission_id, state
    │   ├── AlreadyFinished             submission_id, state
    │   ├── NoSuchDevice                device_kind, available
    │   ├── Unauthenticated             the key is missing, wrong, expired or revoked
    │   ├── PermissionDenied            scope
    │   ├── CompetitionNotFound         competition_id
    │   ├── CompetitionClosed           competition_id, phase
    │   ├── UserBanned                  competition_id, detail
    │   ├── WithdrawalRefused           submission_id, detail
    │   ├── ReloadRefused               detail: the competitions' files
    │   ├── RegistrationRefused         detail
    │   ├── RegistrationsLimited        limit, retry_s
    │   ├── RejudgeNotFound             rejudge_id
    │   ├── RejudgeNotReady             rejudge_id, state
    │   ├── RejudgeOutdated             rejudge_id, submission_id
    │   ├── QuotaExceeded               limit, retry_s
    │   ├── QueueFull                   limit, retry_s
    │   ├── QueueShareUsed              limit, retry_s: the caller's own part of the queue
    │   ├── TooManyWatches              limit, retry_s
    │   ├── ShuttingDown                retry_s
    │   └── ReadOnly                    this server only shows what is there
    ├── ProblemInvalid                  path, message: a problem's files are wrong
    ├── SettingsInvalid                 setting, message: a setting is impossible
    ├── StateDirectoryInUse             path, holder_pid: another server has it
    ├── HookNotFound                    hook_id: only in the administrator's commands
    ├── DeliveryNotFound                delivery_id: likewise
    ├── LedgerUnreachable               database, detail: when a server starts
    ├── LedgerNewer                     found, known: likewise
    ├── LedgerInUse                     found, known, servers: likewise
    ├── ServerUnreachable               address, detail: only in the client
    ├── FleetRefused                    only in a worker
    ├── HostUnfit                       likewise
    ├── GraderFault                     we are at fault; an attempt that ends so is retried
    │   ├── SandboxBroken               detail
    │   ├── JudgeBroken                 detail
    │   ├── DeviceQuarantined           device, illness
    │   ├── HostBroken                  detail
    │   ├── WorkerLost                  node, detail
    │   ├── WorkerFault                 detail, reason: as the worker has it
    │   ├── ProblemBroken               detail; final, for the next attempt would end the same way
    │   ├── LedgerBusy                  detail
    │   └── InternalFault               request_id: only in the client
    └── LeaseLost                       submission_id, attempt: another worker has it now

A kernel that fails is no exception: it is a fact, and a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """What is wrong with one field of a request, and what to do about it."""

    field: str
    description: str


class GraderError(Exception):
    """The root of the tree. What a client gets to know of it is declared on the class.

    code: the name of its gRPC status; "": it stays in the server, and the client gets INTERNAL. fields: the arguments of its constructor
    that travel, in their order; a client makes the same error of them. resource: type and collection of what is missing. precondition: the
    kind of state that is in the way, and what precedes the first field in its subject. Both say which detail the status has.
    """

    code = ""
    fields: tuple[str, ...] = ()
    resource: tuple[str, str] | None = None
    precondition: tuple[str, str] | None = None
    spends_quota = False


class CallRefused(GraderError):
    """A call that was not carried out. reason is for programs and never changes."""

    reason = "CALL_REFUSED"
    retry_s: float | None = None


class InvalidRequest(CallRefused):
    """Fields of the request are wrong."""

    reason = "INVALID_REQUEST"
    code = "INVALID_ARGUMENT"

    def __init__(self, violations: Sequence[FieldViolation]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(f"{one.field}: {one.description}" for one in self.violations))


class InvalidSubmission(InvalidRequest):
    """Fields of the submission are wrong."""

    reason = "INVALID_SUBMISSION"


class ProblemNotFound(CallRefused):
    """There is no such problem here."""

    reason = "PROBLEM_NOT_FOUND"
    code = "NOT_FOUND"
    fields = (
        "problem_id",
        "available",
        "fault",
    )
    resource = ("Problem", "problems")

    def __init__(self, problem_id: str, available: Sequence[str] = (), fault: str = "") -> None:
        """fault: why one that was there can't be used, and what to do."""
        self.problem_id, self.available, self.fault = problem_id, tuple(available), fault
        known = f"; take one of: {', '.join(self.available)}" if self.available else "; list them with `grader-cli problems list`"
        super().__init__(f"problem {problem_id!r} {fault}" if fault else f"there is no problem {problem_id!r}{known}")


class SubmissionNotFound(CallRefused):
    """There is no such submission here."""

    reason = "SUBMISSION_NOT_FOUND"
    code = "NOT_FOUND"
    fields = ("submission_id",)
    resource = ("Submission", "submissions")

    def __init__(self, submission_id: str) -> None:
        self.submission_id = submission_id
        super().__init__(f"there is no submission {submission_id!r}; list them with `grader-cli list`")


class ArtifactNotFound(CallRefused):
    """The submission has no such file here."""

    reason = "ARTIFACT_NOT_FOUND"
    code = "NOT_FOUND"
    fields = ("submission_id", "name")
    resource = ("Artifact", "submissions")

    def __init__(self, submission_id: str, name: str) -> None:
        self.submission_id, self.name = submission_id, name
        text = f"submission {submission_id!r} has no file {name!r} here, or no longer; list what it has with `grader-cli show"
        super().__init__(f"{text} {submission_id} --files`")


class RequestIdReused(CallRefused):
    """The request id was used before, with another request."""

    reason = "REQUEST_ID_REUSED"
    code = "ALREADY_EXISTS"
    fields = ("request_id",)

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        super().__init__(f"request_id {request_id!r} was used with another request; make a new UUID for a new one")


class NotWaiting(CallRefused):
    """The submission is not in the queue."""

    reason = "NOT_WAITING"
    code = "FAILED_PRECONDITION"
    fields = ("submission_id", "state")
    precondition = ("SUBMISSION_NOT_WAITING", "submissions/")

    def __init__(self, submission_id: str, state: str) -> None:
        self.submission_id, self.state = submission_id, state
        super().__init__(f"submission {submission_id!r} is {state.upper()}; only one that waits can be taken up next")


class AlreadyFinished(CallRefused):
    """A finished submission cannot be cancelled."""

    reason = "ALREADY_FINISHED"
    code = "FAILED_PRECONDITION"
    fields = (
        "submission_id",
        "state",
    )
    precondition = ("SUBMISSION_FINISHED", "submissions/")

    def __init__(self, submission_id: str, state: str) -> None:
        self.submission_id, self.state = submission_id, state
        super().__init__(f"submission {submission_id!r} is {state.upper()} already; only queued and running ones can be cancelled")


class NoSuchDevice(CallRefused):
    """This server has no device of that kind."""

    reason = "NO_SUCH_DEVICE"
    code = "FAILED_PRECONDITION"
    fields = (
        "device_kind",
        "available",
    )
    precondition = ("DEVICE_KIND", "")

    def __init__(self, device_kind: str, available: Sequence[str]) -> None:
        self.device_kind, self.available = device_kind, tuple(available)
        super().__init__(f"no device of kind {device_kind!r} is here; leave it out or take one of: {', '.join(self.available) or 'none'}")


class Unauthenticated(CallRefused):
    """The caller's key is missing or not valid."""

    reason = "UNAUTHENTICATED"
    code = "UNAUTHENTICATED"
    fields = ("detail",)

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(f"{detail}; store a key with `grader-cli login`, or set GRADER_KEY")


class PermissionDenied(CallRefused):
    """The caller's key lacks the scope for this."""

    reason = "PERMISSION_DENIED"
    code = "PERMISSION_DENIED"
    fields = ("scope",)

    def __init__(self, scope: str) -> None:
        self.scope = scope
        super().__init__(f"this key does not have the scope {scope!r}; ask an administrator for one that has")


class CompetitionNotFound(CallRefused):
    """There is no such competition here."""

    reason = "COMPETITION_NOT_FOUND"
    code = "NOT_FOUND"
    fields = (
        "competition_id",
        "available",
    )
    resource = ("Competition", "competitions")

    def __init__(self, competition_id: str, available: Sequence[str] = ()) -> None:
        self.competition_id, self.available = competition_id, tuple(available)
        known = f"; take one of: {', '.join(self.available)}" if self.available else "; there are none on this server"
        super().__init__(f"there is no competition {competition_id!r}{known}")


class CompetitionClosed(CallRefused):
    """The competition takes no submissions now."""

    reason = "COMPETITION_CLOSED"
    code = "FAILED_PRECONDITION"
    fields = (
        "competition_id",
        "phase",
        "time",
    )
    precondition = ("COMPETITION_PHASE", "competitions/")

    def __init__(self, competition_id: str, phase: str, time: str = "") -> None:
        self.competition_id, self.phase, self.time = competition_id, phase, time
        upcoming = phase == "upcoming"
        when = f"it begins at {time}; submit it then" if upcoming else f"it ended at {time}"
        super().__init__(f"competition {competition_id!r} takes no submissions now: {when}; a submission without a competition is graded")


class UserBanned(CallRefused):
    """The organisers have banned the caller from the competition."""

    reason = "USER_BANNED"
    code = "PERMISSION_DENIED"
    fields = ("competition_id", "detail")

    def __init__(self, competition_id: str, detail: str) -> None:
        self.competition_id, self.detail = competition_id, detail
        super().__init__(
            f"you are banned from competition {competition_id!r}: {detail}; ask its organisers, or submit without a competition"
        )


class WithdrawalRefused(CallRefused):
    """The submission can't be taken off the boards of its competition, or not by this caller, or not any more."""

    reason = "WITHDRAWAL_REFUSED"
    code = "FAILED_PRECONDITION"
    fields = ("submission_id", "detail")
    precondition = ("WITHDRAWAL", "submissions/")

    def __init__(self, submission_id: str, detail: str) -> None:
        self.submission_id, self.detail = submission_id, detail
        super().__init__(f"submission {submission_id!r} can't be withdrawn: {detail}")


class ReloadRefused(CallRefused):
    """The files of the competitions are wrong, or would change what competitors rely on; nothing was changed."""

    reason = "RELOAD_REFUSED"
    code = "FAILED_PRECONDITION"
    fields = ("detail",)

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(f"the competitions stay as they are: {detail}")


class RegistrationRefused(CallRefused):
    """Nobody can register under this name, or here, or any more."""

    reason = "REGISTRATION_REFUSED"
    code = "FAILED_PRECONDITION"
    fields = ("detail",)

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(f"not registered: {detail}")


class RegistrationsLimited(CallRefused):
    """As many as may have registered from one address in a minute."""

    reason = "REGISTRATIONS_LIMITED"
    code = "RESOURCE_EXHAUSTED"
    fields = ("limit", "retry_s")
    spends_quota = True

    def __init__(self, limit: int, retry_s: float) -> None:
        self.limit, self.retry_s = limit, retry_s
        super().__init__(f"{limit} have registered from this address in the last minute, which is the limit; try again in {retry_s:.0f} s")


class RejudgeNotFound(CallRefused):
    """There is no such rejudge here."""

    reason = "REJUDGE_NOT_FOUND"
    code = "NOT_FOUND"
    fields = ("rejudge_id",)
    resource = ("Rejudge", "rejudges")

    def __init__(self, rejudge_id: str) -> None:
        self.rejudge_id = rejudge_id
        super().__init__(f"there is no rejudge {rejudge_id!r}; list them with `grader-cli rejudge show`")


class RejudgeNotReady(CallRefused):
    """The rejudge is in a state in which this can't be done."""

    reason = "REJUDGE_NOT_READY"
    code = "FAILED_PRECONDITION"
    fields = (
        "rejudge_id",
        "state",
    )
    precondition = ("REJUDGE_STATE", "rejudges/")

    def __init__(self, rejudge_id: str, state: str) -> None:
        self.rejudge_id, self.state = rejudge_id, state
        remedy = "wait until it is ready" if state == "running" else "make a new one"
        super().__init__(f"rejudge {rejudge_id!r} is {state.upper()}; {remedy}")


class RejudgeOutdated(CallRefused):
    """Another rejudge was applied to a submission since this one was made; nothing is overwritten."""

    reason = "REJUDGE_OUTDATED"
    code = "FAILED_PRECONDITION"
    fields = (
        "rejudge_id",
        "submission_id",
    )
    precondition = ("REJUDGE_STATE", "rejudges/")

    def __init__(self, rejudge_id: str, submission_id: str) -> None:
        self.rejudge_id, self.submission_id = rejudge_id, submission_id
        super().__init__(
            f"submission {submission_id!r} was judged again since rejudge {rejudge_id!r} was made, so that one can't be applied any more; "
            "discard it, and make a new one"
        )


class QuotaExceeded(CallRefused):
    """The caller has used its quota."""

    reason = "QUOTA_EXCEEDED"
    code = "RESOURCE_EXHAUSTED"
    fields = (
        "limit",
        "retry_s",
        "period",
    )
    spends_quota = True

    def __init__(self, limit: int, retry_s: float, period: str = "") -> None:
        self.limit, self.retry_s, self.period = limit, retry_s, period
        of = f" submissions {period}" if period else ""
        super().__init__(f"the quota of {limit}{of} is spent; try again in {retry_s:.0f} s")


class QueueFull(CallRefused):
    """The queue is full."""

    reason = "QUEUE_FULL"
    code = "UNAVAILABLE"
    fields = (
        "limit",
        "retry_s",
    )

    def __init__(self, limit: int, retry_s: float = 5.0) -> None:
        self.limit, self.retry_s = limit, retry_s
        super().__init__(f"{limit} submissions wait already; try again in {retry_s:.0f} s")


class QueueShareUsed(CallRefused):
    """This user's share of the queue is used; there may be room for others."""

    reason = "QUEUE_SHARE_USED"
    code = "RESOURCE_EXHAUSTED"
    fields = (
        "limit",
        "retry_s",
    )
    spends_quota = True

    def __init__(self, limit: int, retry_s: float = 30.0) -> None:
        self.limit, self.retry_s = limit, retry_s
        super().__init__(f"{limit} of your submissions wait already, your share of the queue; try again in {retry_s:.0f} s, or cancel some")


class TooManyWatches(CallRefused):
    """This user has as many streams of many submissions open as a server answers."""

    reason = "TOO_MANY_WATCHES"
    code = "RESOURCE_EXHAUSTED"
    fields = (
        "limit",
        "retry_s",
    )
    spends_quota = True

    def __init__(self, limit: int, retry_s: float = 30.0) -> None:
        self.limit, self.retry_s = limit, retry_s
        super().__init__(f"you have {limit} of these streams open here; close some, or watch more submissions in one")


class ShuttingDown(CallRefused):
    """The server is shutting down."""

    reason = "SHUTTING_DOWN"
    code = "UNAVAILABLE"
    fields = ("retry_s",)

    def __init__(self, retry_s: float = 5.0) -> None:
        self.retry_s = retry_s
        super().__init__(f"the server is shutting down; try again in {retry_s:.0f} s")


class ReadOnly(CallRefused):
    """This server is read-only."""

    reason = "READ_ONLY"
    code = "FAILED_PRECONDITION"

    def __init__(self) -> None:
        super().__init__("this server only reads; send submissions and cancellations to the one that grades")


class ProblemInvalid(GraderError):
    """A problem's files are wrong."""

    def __init__(self, path: str, message: str) -> None:
        self.path, self.message = path, message
        super().__init__(f"{path}: {message}")


class SettingsInvalid(GraderError):
    """A setting of the server is impossible or not allowed."""

    def __init__(self, setting: str, message: str) -> None:
        self.setting, self.message = setting, message
        super().__init__(f"{setting}: {message}")


class StateDirectoryInUse(GraderError):
    """Another server has the state directory."""

    def __init__(self, path: str, holder_pid: int | None) -> None:
        self.path, self.holder_pid = path, holder_pid
        holder = f" (process {holder_pid})" if holder_pid else ""
        super().__init__(f"another server{holder} uses the state directory {path}; stop it, or give this one another --state-dir")


class HookNotFound(GraderError):
    """There is no such webhook here."""

    def __init__(self, hook_id: str) -> None:
        self.hook_id = hook_id
        super().__init__(f"there is no webhook {hook_id!r}, or it was removed; list them with `grader-server admin hooks list`")


class DeliveryNotFound(GraderError):
    """There is no such delivery to a webhook that is still there."""

    def __init__(self, delivery_id: str) -> None:
        self.delivery_id = delivery_id
        remedy = "list them with `grader-server admin hooks deliveries`"
        super().__init__(f"there is no delivery {delivery_id!r}, or its webhook was removed; {remedy}")


class LedgerUnreachable(GraderError):
    """The ledger's database can't be opened."""

    def __init__(self, database: str, detail: str) -> None:
        self.database, self.detail = database, detail
        hint = "; is it running, and may this user connect and make tables?" if database.startswith("postgresql:") else ""
        super().__init__(f"can't use the database {database}: {detail}{hint}")


class LedgerNewer(GraderError):
    """The ledger's tables are not those of this program."""

    def __init__(self, found: str, known: str) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"the ledger has schema version {found!r}, and this program knows versions up to {known!r}: a newer grader wrote it; "
            "run that one, or restore a backup that was made before it"
        )


class LedgerInUse(GraderError):
    """The ledger's tables have to be upgraded, and servers of an older version use them. servers: as they are shown."""

    def __init__(self, found: str, known: str, servers: Sequence[str]) -> None:
        self.found, self.known, self.servers = found, known, tuple(servers)
        super().__init__(
            f"the ledger has schema version {found!r}, this program upgrades it to {known!r}, and servers of the older version use it: "
            f"{', '.join(servers)}; stop them (SIGTERM: what runs ends, what waits stays in the queue), make a backup, then start this one"
        )


class ServerUnreachable(GraderError):
    """A server does not answer, or not in time."""

    def __init__(self, address: str, detail: str) -> None:
        self.address, self.detail = address, detail
        super().__init__(f"no answer from {address}: {detail}")


class GraderFault(GraderError):
    """We are at fault, not the caller and not the kernel."""

    reason = "GRADER_FAULT"
    final = False

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class SandboxBroken(GraderFault):
    """The sandbox does not work on this host."""

    reason = "SANDBOX_BROKEN"


class JudgeBroken(GraderFault):
    """The judge process failed."""

    reason = "JUDGE_BROKEN"


class DeviceQuarantined(GraderFault):
    """A device is out of service: it failed its check twice, the second time after its judge was restarted, or an operator cordoned it."""

    reason = "DEVICE_QUARANTINED"

    def __init__(self, device: str, illness: str) -> None:
        self.device, self.illness = device, illness
        super().__init__(f"{device} does not come back: {illness}; restart the host or the driver, then the server")

    @classmethod
    def cordoned(cls, device: str) -> DeviceQuarantined:
        """An operator has taken it out of service."""
        return cls.at_worker(f"{device} is cordoned; `grader-server admin lanes uncordon` gives it work again")

    @classmethod
    def at_worker(cls, text: str) -> DeviceQuarantined:
        """The same in other words, such as those of a worker."""
        found = cls("", text)
        found.detail, found.args = text, (text,)
        return found


class HostBroken(GraderFault):
    """A host can't grade now, whatever the submission. The attempt is not counted."""

    reason = "HOST_BROKEN"


class WorkerLost(GraderFault):
    """A worker of the fleet went away, or did not keep to the protocol. Its attempts are not counted."""

    reason = "WORKER_LOST"

    def __init__(self, node: str, why: str) -> None:
        self.node = node
        super().__init__(f"the worker {node!r} {why}")


class WorkerFault(GraderFault):
    """Several workers of the fleet were lost with a submission. With another reason: a worker failed, in its words."""

    reason = "WORKERS_LOST"

    def __init__(self, reason: str, detail: str, *, final: bool) -> None:
        super().__init__(detail)
        self.reason, self.final = reason, final


class FleetRefused(GraderError):
    """The server does not let this worker in; the message says why and what to do."""


class HostUnfit(GraderError):
    """Nothing can be graded on a worker's host; the message says what is missing and what to do."""


class ProblemBroken(GraderFault):
    """A problem's own reference does not work: its author has to fix it."""

    reason = "PROBLEM_BROKEN"
    final = True


class LedgerBusy(GraderFault):
    """The ledger could not be written in time."""

    reason = "LEDGER_BUSY"
    code = "UNAVAILABLE"
    fields = ("detail",)
    retry_s = 1.0


class InternalFault(GraderFault):
    """A server failed and keeps the reason in its log, under request_id."""

    reason = "INTERNAL"

    def __init__(self, detail: str, request_id: str = "") -> None:
        self.request_id = request_id
        super().__init__(detail)


class LeaseLost(GraderError):
    """A worker wrote for an attempt that is not its own any more."""

    def __init__(self, submission_id: str, attempt: int) -> None:
        self.submission_id, self.attempt = submission_id, attempt
        super().__init__(f"attempt {attempt} at submission {submission_id!r} is not leased to this worker any more")
