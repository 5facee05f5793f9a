"""The statements of the busy paths.

Parameters that are no columns begin with `by_`; what a column is set to is given under its own name.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.result import SimpleResultMetaData

from grader import devices
from grader.errors import FieldViolation, InvalidSubmission
from grader.ledger import queue, records
from grader.ledger.tables import events, judgements, problems, submission_tags, submissions, usage
from grader.model import NewSubmission, Submission, SubmissionState, Verdict
from sandbox.protocol import wire


class _Compiled:
    """A statement in a database's own words."""

    def __init__(self, statement: sa.Select[Any] | sa.sql.dml.UpdateBase, dialect: sa.Dialect, names: list[str] | None) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=names)
        self.text = compiled.string
        self._constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        types = ((name, bind.type.dialect_impl(dialect).bind_processor(dialect)) for name, bind in compiled.binds.items())
        self._to_database = [(name, convert) for name, convert in types if convert and name in compiled.bind_names.values()]
        self._kinds = [column.type.dialect_impl(dialect) for column in statement.exported_columns]
        self._from_database: list[Any] | None = None  # in the order of columns; None where values are rows' own

    def parameters(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of a row as the database takes them."""
        values = {**self._constants, **row}
        for name, convert in self._to_database:
            values[name] = convert(values[name])
        return values

    def rows(self, dialect: sa.Dialect, head: SimpleResultMetaData, cursor: Any) -> list[sa.Row[Any]]:
        """Return what the database answered."""
        if self._from_database is None:  # by the types that it answers with, where it says them
            columns = zip(self._kinds, cursor.description or (), strict=False)
            self._from_database = [kind.result_processor(dialect, column[1]) for kind, column in columns]
        return [sa.Row(head, self._from_database, head._key_to_index, row) for row in cursor.fetchall()] if self._kinds else []


class Prepared:
    """A statement that is run past SQLAlchemy: small ones take up to ten times as long with it. It answers with SQLAlchemy's rows."""

    def __init__(self, statement: sa.Select[Any] | sa.sql.dml.UpdateBase) -> None:
        self._statement, self._compiled = statement, dict[str, _Compiled]()  # by dialect
        self._head = SimpleResultMetaData([str(column.key) for column in statement.exported_columns])

    def run(self, connection: sa.Connection, *rows: Mapping[str, Any]) -> Sequence[sa.Row[Any]]:
        """Run it with parameters, of which all calls name the same; where there are several rows of them, without an answer."""
        dialect = connection.dialect
        if (compiled := self._compiled.get(dialect.name)) is None:
            compiled = self._compiled[dialect.name] = _Compiled(self._statement, dialect, [*rows[0]] if rows else None)
        values = [compiled.parameters(row) for row in rows or ({},)]
        cursor = None
        try:
            cursor = connection.connection.cursor()
            if len(values) > 1:
                cursor.executemany(compiled.text, values)
            else:
                cursor.execute(compiled.text, values[0])
                return compiled.rows(dialect, self._head, cursor)
        except dialect.loaded_dbapi.Error as error:  # as SQLAlchemy would: once one is lost, all connections are made anew
            connection._handle_dbapi_exception(error, compiled.text, None, cursor, None)
        return []


_REPORT = (
    sa.select(judgements.c.report)
    .where(judgements.c.number == submissions.c.number, judgements.c.sequence == submissions.c.judgement_count)
    .scalar_subquery()
    .label("report")
)
LISTED = [column for column in submissions.c if column.name != "sources"]

INSERT_SUBMISSION = Prepared(sa.insert(submissions).returning(submissions.c.number))
INSERT_EVENT = Prepared(sa.insert(events))
INSERT_JUDGEMENT = Prepared(sa.insert(judgements))

_ONE = sa.select(submissions, _REPORT).where(submissions.c.submission_id == sa.bindparam("by_submission"))
ONE, ONE_LOCKED = Prepared(_ONE), Prepared(_ONE.with_for_update())
EVENTS_AFTER = Prepared(
    sa.select(events)
    .join(submissions, submissions.c.number == events.c.number)
    .where(submissions.c.submission_id == sa.bindparam("by_submission"), events.c.sequence > sa.bindparam("by_sequence"))
    .order_by(events.c.sequence)
    .limit(sa.bindparam("by_limit"))
)
_PROFILING = wire.encode(wire.Progress(stage=wire.Stage.PROFILING)).decode().rstrip()
TOOLS_BEGAN = sa.select(events.c.sequence).where(events.c.number == sa.bindparam("by_number"), events.c.fact == _PROFILING)
OF_REQUEST = Prepared(sa.select(submissions, _REPORT).where(submissions.c.request_id == sa.bindparam("by_request")))
_QUEUED = (
    sa.select(sa.func.count().label("queued_count"))
    .select_from(submissions)
    .where(submissions.c.state == SubmissionState.QUEUED, submissions.c.rejudge_id.is_(None))
)
QUEUED_COUNT = Prepared(_QUEUED)
QUEUED_OF_USER = Prepared(_QUEUED.where(submissions.c.user_name == sa.bindparam("by_user")))
KNOWN_PROBLEM = Prepared(sa.select(problems.c.digest).where(problems.c.digest == sa.bindparam("by_digest")))
PROBLEM = sa.select(problems.c.document).where(problems.c.digest == sa.bindparam("by_digest"))


def lease_row(submission_id: Any, worker_id: Any, attempt: Any) -> sa.ColumnElement[bool]:
    """The row of an attempt, while its worker holds the lease. Each is a value or a parameter."""
    row = (submissions.c.submission_id == submission_id, submissions.c.worker_id == worker_id, submissions.c.attempt == attempt)
    return sa.and_(*row, submissions.c.state == SubmissionState.RUNNING)


FENCED = lease_row(sa.bindparam("by_submission"), sa.bindparam("by_worker"), sa.bindparam("by_attempt"))
EXTEND = Prepared(sa.update(submissions).where(FENCED).returning(submissions.c.cancel_requested))
COUNT_EVENTS = Prepared(
    sa.update(submissions)
    .where(FENCED)
    .values(event_count=submissions.c.event_count + sa.bindparam("by_count"))
    .returning(submissions.c.number, submissions.c.event_count)
)
SETTLE = Prepared(
    sa.update(submissions)
    .where(FENCED)
    .values(
        event_count=submissions.c.event_count + sa.bindparam("by_count") + 1,
        judgement_count=submissions.c.judgement_count + 1,
        state=SubmissionState.SUCCEEDED,
        worker_id=None,
        lease_expire_time=None,
    )
    .returning(*LISTED)
)

USED = Prepared(sa.select(usage.c.log2_weight).where(usage.c.user_name == sa.bindparam("by_user")).with_for_update())
USE = Prepared(sa.update(usage).where(usage.c.user_name == sa.bindparam("by_user")))
FIRST_USE = Prepared(sa.insert(usage))
_SMALL = sa.select(usage.c.user_name).where(usage.c.log2_weight < sa.bindparam("by_weight")).with_for_update(skip_locked=True)
FORGET_SMALL = Prepared(sa.delete(usage).where(usage.c.user_name.in_(_SMALL)))


_QUEUED_KINDS = Prepared(
    sa.select(submissions.c.device_kind, sa.func.count().label("queued_count"))
    .where(submissions.c.state == SubmissionState.QUEUED)
    .group_by(submissions.c.device_kind)
    .order_by(submissions.c.device_kind)
)


def choices_to_lease(connection: sa.Connection, ready_kinds: Sequence[str], known_kinds: Sequence[str] | None = None) -> dict[str, int]:
    """Return what those in the queue ask for of which a device is ready, and how many do; "" is any.

    known_kinds: all devices there are. What asks for none of them is leased too, so that the fleet refuses it: it would wait for ever.
    """
    return {
        kind: count
        for kind, count in map(tuple, _QUEUED_KINDS.run(connection))
        if not kind or (known_kinds is not None and not devices.is_offered(kind, known_kinds)) or devices.is_offered(kind, ready_kinds)
    }


@lru_cache(maxsize=64)
def take_next(choices: tuple[str, ...], *, first_come: int) -> Prepared:
    """Give the next submission that asks for one of these to a worker."""
    following = queue.next_number(choices, first_come=first_come).scalar_subquery()
    return Prepared(
        sa.update(submissions)
        .where(submissions.c.number == following, submissions.c.state == SubmissionState.QUEUED)
        .values(event_count=submissions.c.event_count + 1, attempt=submissions.c.attempt + 1, state=SubmissionState.RUNNING)
        .returning(submissions)
    )


_BY_TAG = (submission_tags.c.tag == sa.bindparam("by_tag"), submission_tags.c.user_name == sa.bindparam("by_user"))
_PARENT = sa.select(submissions.c.number).where(
    submissions.c.submission_id == sa.bindparam("by_parent"),
    submissions.c.user_name == sa.bindparam("by_user"),
    submissions.c.rejudge_id.is_(None),
)
_TAGGED = (
    sa.select(submissions.c.number, submissions.c.submission_id)
    .join(submission_tags, submission_tags.c.number == submissions.c.number)
    .where(*_BY_TAG, submission_tags.c.number > sa.bindparam("by_number"))
    .limit(sa.bindparam("by_limit"))
)
_NEWEST, _FOLLOWING = (_TAGGED.order_by(order) for order in (submission_tags.c.number.desc(), submission_tags.c.number))


def check_parent(connection: sa.Connection, new_submission: NewSubmission) -> None:
    """InvalidSubmission where this user has no such submission; the text is the same where it is somebody else's."""
    parameters = {"by_parent": new_submission.parent_id, "by_user": new_submission.user}
    if new_submission.parent_id and connection.execute(_PARENT, parameters).first() is None:
        text = f"you have no submission 'submissions/{new_submission.parent_id}'; name one of your own, or leave it out"
        raise InvalidSubmission([FieldViolation("parent", text)])


def tagged(connection: sa.Connection, user: str, tag: str, after_number: int, limit: int) -> list[tuple[int, str]]:
    """Numbers and ids of this user's submissions with this tag, oldest first: those that follow a number; after 0, the newest."""
    parameters = {"by_tag": tag, "by_user": user, "by_number": after_number, "by_limit": limit}
    return sorted((row.number, row.submission_id) for row in connection.execute(_FOLLOWING if after_number else _NEWEST, parameters).all())


def read(connection: sa.Connection, submission_ids: Sequence[str], *, reports: bool) -> list[Submission]:
    """These submissions as they are now, oldest first. reports: with whole ones."""
    columns = [*LISTED, _REPORT] if reports else LISTED
    query = sa.select(*columns).where(submissions.c.submission_id.in_(submission_ids)).order_by(submissions.c.number)
    return [records.submission(row) for row in connection.execute(query)]


_UNJUDGED = (SubmissionState.FAILED, SubmissionState.CANCELLED)
_PAIRS = (("competition_id", "user_name"), *((name, "verdict") for name in ("user_name", "competition_id", "problem_id")))  # with an index


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionFilter:
    """user, competition_id, tag: only of this one; "": of all that may be seen. seen_by: who asks; None may see everybody's.

    verdicts: only with one of these; none: with any, and with none yet. id_prefix: what the id begins with.
    """

    user: str = ""
    competition_id: str = ""
    seen_by: str | None = None
    open_competitions: Collection[str] = ()  # submissions to these everybody may see; their tags are not shown
    tag: str = ""
    verdicts: Collection[Verdict] = ()
    id_prefix: str = ""

    def newest(self, limit: int, before: int | None, problem_id: str, states: Collection[SubmissionState]) -> sa.Select[Any]:
        """Select the newest that match, of these states where some are named. Of each state and verdict the newest are read from an index;
        then those of all are put in order."""
        number = submission_tags.c.number if self.tag else submissions.c.number
        numbers = sa.select(number).order_by(number.desc()).limit(limit)
        if self.tag:
            numbers = numbers.join(submissions, submissions.c.number == number)
        if before is not None:
            numbers = numbers.where(number < before)
        choices = itertools.product(sorted(set(states)) or (None,), sorted(set(self.verdicts)) or (None,))
        parts = [numbers.where(*self._where(problem_id, state, verdict)).subquery() for state, verdict in choices]
        chosen = sa.union_all(*(sa.select(part.c.number) for part in parts))
        return sa.select(*LISTED).where(submissions.c.number.in_(chosen)).order_by(submissions.c.number.desc()).limit(limit)

    def _where(self, problem_id: str, state: SubmissionState | None, verdict: Verdict | None) -> list[sa.ColumnElement[bool]]:
        conditions: list[sa.ColumnElement[bool]] = [submissions.c.rejudge_id.is_(None)]
        user: str | None = self.user or None
        opened = () if self.tag else sorted(filter(None, self.open_competitions))
        if self.seen_by is not None and self.competition_id not in opened:
            is_opened = sa.func.coalesce(submissions.c.competition_id, "").in_(opened)
            if self.competition_id or not opened or (self.user and self.user == self.seen_by):
                conditions += [sa.false()] if user not in (None, self.seen_by) else []
                user = self.seen_by
            else:
                conditions.append(is_opened if user else sa.or_(submissions.c.user_name == self.seen_by, is_opened))
        if self.tag:
            conditions.append(submission_tags.c.tag == self.tag)
            conditions += [] if user is None else [submission_tags.c.user_name == user]
        if self.id_prefix:  # a range of the index, which a database may sort by its language; not LIKE, which ignores case in SQLite
            # Some sort two letters as one that follows them, such as "aa" in Danish and "dd" in Welsh: then all that follows is read.
            pairs = (sa.literal("aa") > "z", "å" * 64), (sa.literal("dd") > "dz", "z" * 64)
            last = sa.case(*pairs, else_=self.id_prefix.ljust(64, "z"))
            is_meant = sa.func.substr(submissions.c.submission_id, 1, len(self.id_prefix)) == self.id_prefix
            by_id = sa.select(submissions.c.number).where(submissions.c.submission_id.between(self.id_prefix, last), is_meant)
            conditions.append(submissions.c.number.in_(by_id))
        values = {"user_name": user, "competition_id": self.competition_id or None, "problem_id": problem_id or None}
        values = {name: value for name, value in (values | {"verdict": verdict, "state": state}).items() if value is not None}
        # Only these, which are the rarest, may choose an index: SQLite cannot tell, and takes any.
        indexed = next((pair for pair in _PAIRS if values.keys() >= set(pair)), tuple(values)[:1])
        if self.tag:
            indexed = ()
        elif state is not None and not state.final:
            indexed = ("state",)
        elif state in _UNJUDGED and "state" not in indexed:
            conditions.append(submissions.c.verdict.is_(None))
        for name, value in values.items():
            column = submissions.c[name]
            conditions.append((column if name in indexed else sa.func.coalesce(column, "")) == value)
        return conditions


ALL_SUBMISSIONS = SubmissionFilter()
