"""Alembic migrations, run by `grader.ledger.migrate`."""
