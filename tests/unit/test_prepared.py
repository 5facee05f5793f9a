"""Statements that go to SQLite's driver as they are do what SQLAlchemy would have done with them.

Their parameters have the names that the ledger gives: other tests of this process have compiled them for those.
"""

from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from grader.ledger import statements
from grader.ledger.prepared import Prepared
from grader.ledger.sqlite import engine
from grader.ledger.tables import events, judgements, metadata, submissions, usage
from grader.model import SubmissionState

NOW = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
SUBMISSION = {
    **{column.name: "x" for column in submissions.c if not column.nullable and isinstance(column.type, sa.String)},
    **dict.fromkeys(("attempt", "fault_count", "judgement_count", "priority"), 0),
    "event_count": 1,
    "cancel_requested": False,
    "create_time": NOW,
    "device_kind": "",
    "state": SubmissionState.QUEUED,
    "request_id": None,
}
EVENT = {"number": 1, "sequence": 1, "event_time": NOW, "attempt": 0, "state": SubmissionState.QUEUED, "fact": None}
FENCE = {"by_submission": "x", "by_worker": "w", "by_attempt": 1, "by_count": 2}
FOUND = {
    **{"verdict": "ACCEPTED", "reason": "", "summary": "a 'word'", "report": '{"a":NaN}', "device": "emulated", "clock": None},
    **{"score": 1.5, "score_low": 1.25, "score_high": None, "flags": "A,B"},
}
JUDGEMENT = {"number": 1, "sequence": 1, "source_number": 1, "attempt": 1, "problem_digest": "x", "create_time": NOW, **FOUND}
TAKE = {"worker_id": "w", "lease_expire_time": NOW, "start_time": NOW}
# In the order of a submission's life.
LIFE = [
    ("OF_REQUEST", {"by_request": "x"}),
    ("KNOWN_PROBLEM", {"by_digest": "x"}),
    ("INSERT_SUBMISSION", SUBMISSION),
    ("INSERT_EVENT", EVENT),
    ("OF_REQUEST", {"by_request": "x"}),
    ("QUEUED_COUNT", {}),
    ("take_next", TAKE),
    ("PROBLEM", {"by_digest": "x"}),
    ("COUNT_EVENTS", FENCE),
    ("COUNT_EVENTS", {**FENCE, "by_attempt": 2}),
    ("ANY_HOOK", {}),
    ("SETTLE", {**FENCE, "end_time": NOW, **FOUND}),
    ("INSERT_JUDGEMENT", JUDGEMENT),
    ("QUEUED_OF_USER", {"by_user": "x"}),
    ("USED", {"by_user": "x"}),
    ("FIRST_USE", {"user_name": "x", "log2_weight": 1.0}),
    ("USE", {"by_user": "x", "log2_weight": 2.5}),
    ("USED", {"by_user": "x"}),
]


@pytest.fixture
def begun(tmp_path):
    """A connection inside a transaction, with empty tables."""
    made = engine(tmp_path / "l", "BEGIN IMMEDIATE")
    with made.connect() as connection:
        connection.connection.driver_connection.execute("PRAGMA foreign_keys = OFF")
        with connection.begin():
            metadata.create_all(connection)
            yield connection


def prepared(name):
    return statements.take_next(("emulated",)) if name == "take_next" else getattr(statements, name)


def test_no_statement_is_forgotten_here():
    """Each that is prepared is run below."""
    assert {name for name in vars(statements) if isinstance(getattr(statements, name), Prepared)} | {"take_next"} == {
        name for name, _ in LIFE
    }


def test_both_ways_find_and_write_the_same(begun, tmp_path):
    """Rows with the same names, values and types, and the same tables in the end."""
    other = engine(tmp_path / "other", "BEGIN IMMEDIATE")
    with other.connect() as plain:
        plain.connection.driver_connection.execute("PRAGMA foreign_keys = OFF")
        with plain.begin():
            metadata.create_all(plain)
            for name, parameters in LIFE:
                ours, theirs = prepared(name).execute(begun, parameters), plain.execute(prepared(name).statement, parameters)
                expected = [dict(row._mapping) for row in theirs] if theirs.returns_rows else []
                found = [dict(row._mapping) for row in ours]
                assert found == expected, name
                assert [[type(value) for value in row.values()] for row in found] == [
                    [type(value) for value in row.values()] for row in expected
                ]
            for table in (submissions, events, judgements, usage):
                rows = [tuple(row) for row in begun.execute(sa.select(table))]
                assert rows == [tuple(row) for row in plain.execute(sa.select(table))] and rows


def test_many_rows_are_written_at_once(begun):
    """In their order."""
    rows = [{**EVENT, "sequence": sequence} for sequence in range(1, 6)]
    statements.INSERT_EVENT.execute_many(begun, rows)
    assert list(begun.execute(sa.select(events.c.sequence)).scalars()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("parameters", [{**EVENT, "more": 1}, {name: EVENT[name] for name in list(EVENT)[:-1]}], ids=["more", "less"])
def test_other_parameters_are_refused(begun, parameters):
    """One more would be dropped without a word."""
    statements.INSERT_EVENT.execute(begun, EVENT)
    with pytest.raises(ValueError, match="parameters"):
        statements.INSERT_EVENT.execute(begun, parameters)


def test_errors_are_those_of_sqlalchemy_and_quote_nothing(begun):
    """The ledger tells a locked or full database from others by them; there are sources among the parameters."""
    statements.INSERT_SUBMISSION.execute(begun, {**SUBMISSION, "sources": "planted"})
    with pytest.raises(sa.exc.IntegrityError) as raised:
        statements.INSERT_SUBMISSION.execute(begun, {**SUBMISSION, "sources": "planted"})
    assert "planted" not in str(raised.value) and "UNIQUE" in str(raised.value)
