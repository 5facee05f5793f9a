"""API keys: how they are written, made and compared, and what a user may be called.  Pure."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime

from grader.model import Scope

USER_FORM = "1 to 64 of the letters a-z, digits, '.', '_' and '-'"
_USER = re.compile(r"[a-z0-9._-]{1,64}")
_TEXT = re.compile(r"grader_([0-9a-f]{12})_([0-9a-f]{64})")
NOTE_CHARS = 200
_NOBODYS = "0" * 64  # what the secret of an unknown key is compared with


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as the ledger has it: enough to know it again, not enough to use it."""

    key_id: str
    secret_digest: str
    user: str
    scopes: frozenset[Scope]
    create_time: datetime
    note: str = ""
    expire_time: datetime | None = None
    revoke_time: datetime | None = None

    def valid(self, now: datetime) -> bool:
        """Return whether it opens anything at this time."""
        return self.revoke_time is None and (self.expire_time is None or now < self.expire_time)


def new(user: str, scopes: frozenset[Scope], now: datetime, *, expire_time: datetime | None = None, note: str = "") -> tuple[Key, str]:
    """A new key, and its text, which is shown once and stored nowhere. ValueError says what is wrong with the rest."""
    check_user(user)
    if not scopes:
        raise ValueError(f"a key needs a scope; take some of: {', '.join(Scope)}")
    check_note(note)
    key_id, secret = secrets.token_hex(6), secrets.token_hex(32)
    key = Key(key_id=key_id, secret_digest=digest(secret), user=user, scopes=scopes, create_time=now, note=note, expire_time=expire_time)
    return key, f"grader_{key_id}_{secret}"


def split(text: str) -> tuple[str, str] | None:
    """The id and the secret in a key's text; None where it is no key."""
    match = _TEXT.fullmatch(text)
    return None if match is None else (match[1], match[2])


def digest(secret: str) -> str:
    """Digest a secret for the ledger. It is 256 bits by chance: nobody finds it by trying, so a slow digest would only slow calls."""
    return hashlib.sha256(secret.encode()).hexdigest()


def opens(secret: str, key: Key | None) -> bool:
    """Return whether it is this key's secret; as slow for a wrong one, or for no key, as for the right one."""
    same = hmac.compare_digest(digest(secret), _NOBODYS if key is None else key.secret_digest)
    return same and key is not None


def check_user(user: str) -> None:
    """ValueError where nobody may be called so."""
    if _USER.fullmatch(user) is None:
        raise ValueError(f"{user[:80]!r} is not a user name; write {USER_FORM}")


def check_note(note: str) -> None:
    """ValueError where it is no line of a list."""
    if len(note) > NOTE_CHARS or not note.isprintable():
        raise ValueError(f"a note is one line of at most {NOTE_CHARS} characters; shorten it")
