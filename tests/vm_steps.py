"""Steps of SQLite's machine: what a statement costs on any computer."""

from collections.abc import Callable

import sqlalchemy as sa

from grader.ledger import Ledger


async def vm_steps(ledger: Ledger, work: Callable[[sa.Connection], object]) -> int:
    """Return how many steps a function on a connection takes, to ten."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 10

    def counted(connection: sa.Connection) -> None:
        connection.connection.set_progress_handler(tick, 10)  # type: ignore[attr-defined]
        try:
            work(connection)
        finally:
            connection.connection.set_progress_handler(None, 10)  # type: ignore[attr-defined]

    await ledger.database.write(counted)
    return count
