"""The server's memory: problems, submissions, events.  The database is the queue; nothing is kept anywhere else.

Every write is one transaction, on disk when the call returns. Writes of an attempt are fenced: they happen only while that
attempt's worker holds the lease, so a verdict is recorded once.
"""

from __future__ import annotations

from grader.ledger.ledger import Ledger

__all__ = ["Ledger"]
