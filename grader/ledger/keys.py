"""API keys in the ledger.  Of a secret only the digest comes here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from grader.ledger import records
from grader.ledger.database import Database
from grader.ledger.tables import identities, keys
from grader.model import Scope
from grader.rules.keys import Key, new


class Keys:
    """Makes, lists and revokes keys. Reached as `ledger.keys`."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database, self.now = database, now

    async def create(self, user: str, scopes: frozenset[Scope], *, expire_time: datetime | None = None, note: str = "") -> tuple[Key, str]:
        """Make a key; its text is returned here and never again. ValueError where user, scopes or note are wrong."""
        key, text = new(user, scopes, self.now(), expire_time=expire_time, note=note)
        await self.add([key])
        return key, text

    async def add(self, new_keys: Sequence[Key]) -> None:
        """Take keys that were new_keys with `grader.rules.keys.new`: all of them or none."""

        def write(connection: sa.Connection) -> None:
            for key in new_keys:
                insert(connection, key)

        await self._database.write(write)

    async def all(self) -> list[Key]:
        """Every key there ever was, oldest first."""
        query = sa.select(keys).order_by(keys.c.create_time, keys.c.key_id)
        return await self._database.read(lambda connection: [_key(row) for row in connection.execute(query)])

    async def revoke(self, key_id: str) -> Key | None:
        """Let it open nothing any more; None where there is no such key. A second time changes nothing."""
        now = self.now()
        return await self._database.write(lambda connection: revoke(connection, now, key_id))


def insert(connection: sa.Connection, key: Key) -> None:
    """Write a new key down."""
    columns = {name: value for name, value in asdict(key).items() if name in keys.c}
    connection.execute(sa.insert(keys).values({**columns, "user_name": key.user, "scopes": ",".join(sorted(key.scopes))}))


def read(connection: sa.Connection, key_id: str) -> Key:
    """A key that there is."""
    return _key(connection.execute(sa.select(keys).where(keys.c.key_id == key_id)).one())


def revoke(connection: sa.Connection, now: datetime, key_id: str) -> Key | None:
    """The first time counts. With the key of a user's sessions goes the key that the user made in one."""
    this = keys.c.key_id == key_id
    owner_key = sa.select(identities.c.api_key_id).where(identities.c.session_key_id == key_id)
    connection.execute(sa.update(keys).where(this | keys.c.key_id.in_(owner_key), keys.c.revoke_time.is_(None)).values(revoke_time=now))
    row = connection.execute(sa.select(keys).where(this)).one_or_none()
    return None if row is None else _key(row)


def _key(row: sa.Row[Any]) -> Key:
    scopes = frozenset(scope for scope in Scope if scope in row.scopes.split(","))  # one of a newer server is of no use here
    return records.read(Key, row._mapping, user=row.user_name, scopes=scopes)
