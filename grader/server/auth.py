"""Who calls, and whether it may: the key that comes with a call, and the scope that each method needs.  Fails closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any, NoReturn

import grpc

from grader.config import Settings
from grader.errors import PermissionDenied, SettingsInvalid, Unauthenticated
from grader.ledger.keys import Keys
from grader.model import Caller, Scope
from grader.rules.keys import Key, opens, split
from grader.server.tls import server_credentials

REFRESH_S = 2.0  # so old may be what is known of keys: a revoked one opens nothing after this, on every server
NEWCOMER_S = 0.1  # a key that is not known may be new: the ledger is read for such keys, at most so often
RECHECK_S = 1.0  # how often a stream's key is looked at again

PREFIX = "/grader.v1.GraderService/"
# A method that is not here is refused. None: every valid key will do.
METHODS: Mapping[str, Scope | None] = {
    "Submit": Scope.SUBMIT,
    "BatchSubmit": Scope.SUBMIT,
    "CancelSubmission": Scope.SUBMIT,
    "GetSubmission": Scope.READ,
    "ListSubmissions": Scope.READ,
    "WatchSubmission": Scope.READ,
    "WatchSubmissions": Scope.READ,
    "ListArtifacts": Scope.READ,
    "DownloadArtifact": Scope.READ,
    "GetProblem": Scope.READ,
    "ListProblems": Scope.READ,
    "GetCompetition": Scope.READ,
    "ListCompetitions": Scope.READ,
    "GetLeaderboard": Scope.READ,
    "GetCaller": None,
    "CreateRejudge": Scope.ADMIN,
    "GetRejudge": Scope.ADMIN,
    "ListRejudges": Scope.ADMIN,
    "ApplyRejudge": Scope.ADMIN,
    "DiscardRejudge": Scope.ADMIN,
    "WithdrawSubmission": Scope.SUBMIT,
    "RestoreSubmission": Scope.ADMIN,
    "BanUser": Scope.ADMIN,
    "LiftBan": Scope.ADMIN,
    "ListBans": Scope.ADMIN,
    "ListCompetitionActions": Scope.ADMIN,
    "ReloadCompetitions": Scope.ADMIN,
}

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"  # every valid key will do

# One sentence for an unknown key and for a wrong secret: anybody who guesses learns nothing.
_UNKNOWN = "this key is not known here"


class Authenticator:
    """Lets calls through whose key is valid and has the scope."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._known: dict[str, Key] = {}
        self._read_s = float("-inf")  # when the read that gave _known began
        self._reading = asyncio.Lock()

    async def admit(self, method: str, metadata: Iterable[tuple[str, Any]]) -> Caller:
        """Who calls; Unauthenticated, or PermissionDenied."""
        caller = await self._caller_of(*_sent(metadata))
        if method != REFLECTION:
            name = method.removeprefix(PREFIX)
            if method == name or name not in METHODS:
                raise PermissionDenied(method)
            self.check_scope(caller, name)
        return caller

    async def open_with(self, text: str) -> Caller:
        """Whose key this text is; Unauthenticated. For pages: what a caller may do is asked with `check_scope` then."""
        found = split(text.strip())
        if found is None:
            raise Unauthenticated("what was entered is not a key")
        return await self._caller_of(*found)

    def check_scope(self, caller: Caller, method: str) -> None:
        """PermissionDenied where the caller's key lacks the scope for this method of the API."""
        scope = METHODS[method]
        if scope is not None and scope not in caller.scopes:
            raise PermissionDenied(scope.value)

    async def check_key(self, caller: Caller) -> None:
        """Unauthenticated where the caller's key opens nothing any more."""
        key = await self._find(caller.key_id)
        if key is None:
            raise Unauthenticated(_UNKNOWN)
        self._check_valid(key)

    async def hold(self, caller: Caller) -> NoReturn:
        """Look at the caller's key now and then; Unauthenticated once it opens nothing any more."""
        while True:
            await self.check_key(caller)
            await asyncio.sleep(RECHECK_S)

    async def _caller_of(self, key_id: str, secret: str) -> Caller:
        key = await self._find(key_id)
        if not opens(secret, key) or key is None:
            raise Unauthenticated(_UNKNOWN)
        self._check_valid(key)
        return Caller(user=key.user, scopes=key.scopes, key_id=key.key_id, expire_time=key.expire_time)

    def _check_valid(self, key: Key) -> None:
        if key.revoke_time is not None:
            raise Unauthenticated("this key was revoked")
        if not key.valid(self._keys.now()):
            assert key.expire_time is not None
            raise Unauthenticated(f"this key expired at {key.expire_time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")

    async def _find(self, key_id: str) -> Key | None:
        asked_s = _now_s()
        if self._read_s < asked_s - REFRESH_S:
            await self._read(asked_s - REFRESH_S)
        if key_id not in self._known:
            await self._read(asked_s)
        return self._known.get(key_id)

    async def _read(self, oldest_s: float) -> None:
        """Know what the ledger said at oldest_s or later. One read does for all that wait for it."""
        async with self._reading:
            if self._read_s >= oldest_s:
                return
            await asyncio.sleep(max(0.0, self._read_s + NEWCOMER_S - _now_s()))
            began_s = _now_s()
            self._known = {key.key_id: key for key in await self._keys.all()}
            self._read_s = began_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """What a server asks of those who come. gate None: no keys; credentials None: no TLS."""

    gate: Authenticator | None
    credentials: grpc.ServerCredentials | None


async def security_for(settings: Settings, keys: Keys) -> Security:
    """The door that these settings mean; SettingsInvalid where strangers could get in, or listen."""
    credentials = server_credentials(settings)
    return Security(gate=await _gate(settings, keys), credentials=credentials)


async def _gate(settings: Settings, keys: Keys) -> Authenticator | None:
    if not settings.asks_keys:
        if settings.loopback:
            return None
        text = f"{settings.listen!r} can be reached from other hosts, so keys are needed; leave out --auth none, or listen on 127.0.0.1"
        raise SettingsInvalid("auth", text)
    now = keys.now()
    if not settings.loopback and not any(key.valid(now) for key in await keys.all()):
        text = (
            f"{settings.listen!r} can be reached from other hosts, so callers need keys, and there is no valid one yet; make one with: "
            "grader-server admin keys create USER (with the --state-dir or --database of this server)"
        )
        raise SettingsInvalid("auth", text)
    return Authenticator(keys)


def _sent(metadata: Iterable[tuple[str, Any]]) -> tuple[str, str]:
    """The id and the secret that came; nothing of them is quoted, for it may be a key with a slip in it."""
    sent = [value for name, value in metadata if name == "authorization"]
    if not sent:
        raise Unauthenticated("no API key was sent; this server requires one")
    scheme, _, text = str(sent[0]).partition(" ")
    found = split(text.strip()) if len(sent) == 1 and scheme.lower() == "bearer" else None
    if found is None:
        raise Unauthenticated("what was sent is not a grader key; a key begins with 'grader_', and is sent as 'Bearer KEY'")
    return found


def _now_s() -> float:
    return asyncio.get_running_loop().time()
