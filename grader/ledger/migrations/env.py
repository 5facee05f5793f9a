"""Environment of Alembic: our connection, our tables, the caller's transaction."""

from __future__ import annotations

from alembic import context

from grader.ledger.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
