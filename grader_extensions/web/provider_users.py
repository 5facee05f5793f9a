"""Users of an identity provider, in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from grader.errors import Unauthenticated
from grader.ledger import Ledger
from grader.ledger.keys import insert, read, revoke
from grader.ledger.tables import bans, identities, keys, submissions
from grader.model import Caller, Scope
from grader.rules.keys import Key, new

SCOPES = frozenset({Scope.SUBMIT, Scope.READ})
API_KEY_NOTE = "made on the account page"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderUser:
    """session_key_id: of the key that carries the user's sessions. api_key: the newest that the user has made."""

    issuer: str
    subject: str
    user: str
    session_key_id: str
    api_key: Key | None


class Identities:
    """Users who sign in with an identity provider.

    Each has a key whose secret nobody knows. It carries the scopes, lists the user with all others, and its revocation ends the sessions.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._database, self._now = ledger.database, ledger.now

    async def enter(self, issuer: str, subject: str, names: Sequence[str], note: str) -> Caller:
        """The user of this subject. At the first time one is made, with the first of the names that nobody has; note: of its key."""

        def work(connection: sa.Connection) -> Caller:
            identity = _find(connection, identities.c.issuer == issuer, identities.c.subject == subject)
            if identity is None:
                free = [name for name in names if not _user_exists(connection, name)]
                if not free:
                    raise ValueError(f"every name for this user is taken, up to {names[-1]!r}")
                user = free[0]
                key, _ = new(user, SCOPES, self._now(), note=note)
                insert(connection, key)
                row = {"issuer": issuer, "subject": subject, "user_name": user, "session_key_id": key.key_id, "create_time": self._now()}
                connection.execute(sa.insert(identities).values(row))
            else:
                user, key = identity.user, read(connection, identity.session_key_id)
            return Caller(user=user, scopes=key.scopes, key_id=key.key_id, expire_time=key.expire_time)

        return await self._database.write(work)

    async def of_session_key(self, key_id: str) -> ProviderUser | None:
        """Whose sessions this key carries; None for a key that a user has."""
        return await self._database.read(lambda connection: _find(connection, identities.c.session_key_id == key_id))

    async def replace_api_key(self, session_key_id: str, expire_time: datetime) -> str:
        """Make the user's API key, in place of the one before, and return its text. Unauthenticated once the session key is revoked."""

        def work(connection: sa.Connection) -> str:
            this, now = identities.c.session_key_id == session_key_id, self._now()
            identity = _find(connection, this)
            if identity is None or not (session_key := read(connection, session_key_id)).valid(now):
                raise Unauthenticated("this key was revoked")
            if identity.api_key is not None:
                revoke(connection, now, identity.api_key.key_id)
            api_key, text = new(identity.user, session_key.scopes, now, expire_time=expire_time, note=API_KEY_NOTE)
            insert(connection, api_key)
            connection.execute(sa.update(identities).where(this).values(api_key_id=api_key.key_id))
            return text

        return await self._database.write(work)


def _user_exists(connection: sa.Connection, user: str) -> bool:
    """Return whether a key, a submission or a ban ever used this name: a new user of the name would see their data."""
    rows = (sa.exists().where(table.c.user_name == user) for table in (keys, submissions, bans))
    return bool(connection.scalar(sa.select(sa.or_(*rows))))


def _find(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> ProviderUser | None:
    row: Any = connection.execute(sa.select(identities).where(*conditions)).one_or_none()
    if row is None:
        return None
    api_key = None if row.api_key_id is None else read(connection, row.api_key_id)
    return ProviderUser(issuer=row.issuer, subject=row.subject, user=row.user_name, session_key_id=row.session_key_id, api_key=api_key)
