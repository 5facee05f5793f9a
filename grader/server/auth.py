"""Authentication: API keys and scopes, and TLS, all from settings.  Fails closed."""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import grpc
import structlog

from grader.config import Settings
from grader.errors import PermissionDenied, SettingsInvalid, Unauthenticated
from grader.ledger.keys import Keys
from grader.model import Caller, Scope
from grader.peers import loopback
from grader.rules.keys import Key, opens, split
from grader.rules.quotas import shown_time
from grader.state_dir import FileStamp, stamp

REFRESH_S = 2.0  # so old may be what is known of keys: a revoked one opens nothing after this, on every server
NEWCOMER_S = 0.1  # a key that is not known may be new: the ledger is read for such keys, at most so often
RECHECK_S = 1.0  # how often a stream's key is looked at again

PREFIX = "/grader.v1.GraderService/"
_METHODS_OF_SCOPE = {
    None: ("GetCaller",),  # every valid key will do
    Scope.SUBMIT: ("Submit", "BatchSubmit", "CancelSubmission", "WithdrawSubmission"),
    Scope.READ: (
        *("GetSubmission", "ListSubmissions", "WatchSubmission", "WatchSubmissions", "ListArtifacts", "DownloadArtifact"),
        *("GetProblem", "ListProblems", "GetCompetition", "ListCompetitions", "GetLeaderboard"),
    ),
    Scope.ADMIN: (
        *("CreateRejudge", "GetRejudge", "ListRejudges", "ApplyRejudge", "DiscardRejudge", "RestoreSubmission"),
        *("BanUser", "LiftBan", "ListBans", "ListCompetitionActions", "ReloadCompetitions"),
    ),
}
# A method that is not here is refused.
METHODS: Mapping[str, Scope | None] = {method: scope for scope, methods in _METHODS_OF_SCOPE.items() for method in methods}

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
        """Return who calls; Unauthenticated, or PermissionDenied."""
        caller = await self._caller_of(*_sent(metadata))
        if method != REFLECTION:
            name = method.removeprefix(PREFIX)
            if method == name or name not in METHODS:
                raise PermissionDenied(method)
            self.check_scope(caller, name)
        return caller

    async def open_with(self, text: str) -> Caller:
        """Whose key this text is; Unauthenticated. For pages: what a caller may do is asked with `check_scope` then."""
        key_parts = split(text.strip())
        if key_parts is None:
            raise Unauthenticated("what was entered is not a key")
        return await self._caller_of(*key_parts)

    def check_scope(self, caller: Caller, method: str) -> None:
        """PermissionDenied where the caller's key lacks the scope for this method of the API."""
        scope = METHODS[method]
        if scope is not None and scope not in caller.scopes:
            raise PermissionDenied(scope.value)

    async def check_key(self, caller: Caller) -> None:
        """Unauthenticated where the caller's key opens nothing any more."""
        self._check_valid(await self._find(caller.key_id))

    async def hold(self, caller: Caller) -> NoReturn:
        """Look at the caller's key now and then; Unauthenticated once it opens nothing any more."""
        while True:
            await self.check_key(caller)
            await asyncio.sleep(RECHECK_S)

    async def _caller_of(self, key_id: str, secret: str) -> Caller:
        key = await self._find(key_id)
        key = self._check_valid(key if opens(secret, key) else None)
        return Caller(user=key.user, scopes=key.scopes, key_id=key.key_id, expire_time=key.expire_time)

    def _check_valid(self, key: Key | None) -> Key:
        if key is None:
            raise Unauthenticated(_UNKNOWN)
        if key.revoke_time is not None:
            raise Unauthenticated("this key was revoked")
        if not key.valid(self._keys.now()):
            assert key.expire_time is not None
            raise Unauthenticated(f"this key expired at {shown_time(key.expire_time)}")
        return key

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


async def authenticator(settings: Settings, keys: Keys) -> Authenticator | None:
    """Return what asks callers for keys; None where they need none. SettingsInvalid where strangers could get in."""
    if not settings.asks_keys:
        if settings.loopback:
            return None
        text = (
            f"{settings.listen!r} can be reached from other hosts, so keys are needed; leave out --auth none, or listen on 127.0.0.1 "
            "without --trusted-proxy, --public-url and --api-address"
        )
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
    key_parts = split(text.strip()) if len(sent) == 1 and scheme.lower() == "bearer" else None
    if key_parts is None:
        raise Unauthenticated("what was sent is not a grader key; a key begins with 'grader_', and is sent as 'Bearer KEY'")
    return key_parts


def _now_s() -> float:
    return asyncio.get_running_loop().time()


# TLS: certificate files are tried at the start with a handshake in memory, and read again when renewed.

log = structlog.get_logger()

_SOON = timedelta(days=14)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def server_credentials(settings: Settings) -> grpc.ServerCredentials | None:
    """The certificate to serve with; None for plain text. SettingsInvalid where keys would travel in it, or the files are no good."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if (certificate is None) != (key is None):
        missing = "tls_key" if key is None else "tls_certificate"
        raise SettingsInvalid(missing, "a certificate and its key go together; name both, or neither")
    if certificate is None or key is None:
        if not loopback(settings.listen) and not settings.insecure_no_tls:
            text = (
                f"{settings.listen!r} can be reached from other hosts, and without TLS keys and sources could be read on the way; "
                "name a certificate with --tls-certificate FILE --tls-key FILE, or listen on 127.0.0.1. "
                "Behind a proxy that does TLS, pass --insecure-no-tls"
            )
            raise SettingsInvalid("tls_certificate", text)
        return None
    files = _Files(certificate, key)
    first, _ = files.read()
    # The stub forgets that None is an answer: as before.
    return grpc.dynamic_ssl_server_credentials(first, files.renewed)  # type: ignore[arg-type]


class _Files:
    """A certificate and its key, and as what they were last looked at."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key
        self._looked_at = self._stamps()

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what to serve with from now on; None: as before. Asked by a thread of gRPC's at every new connection, one at a time."""
        stamps = self._stamps()
        if stamps == self._looked_at:
            return None
        try:
            configuration, end_time = self.read()
        except (SettingsInvalid, OSError) as error:  # half of it is written, or it is no good: what was served is better than nothing
            self._looked_at = stamps
            log.error("tls_certificate_not_renewed", path=str(self._certificate), problem=str(error), remedy="fix it; no restart is needed")
            return None
        if stamps != self._stamps():  # it changed meanwhile, and what was tried may not be what was read
            return None
        self._looked_at = stamps
        log.info("tls_certificate_renewed", path=str(self._certificate), end_time=end_time.isoformat())
        return configuration

    def _stamps(self) -> list[FileStamp | None]:
        return [stamp(self._certificate), stamp(self._key)]

    def read(self) -> tuple[grpc.ServerCertificateConfiguration, datetime]:
        """Both, tried, and until when they may be used; SettingsInvalid."""
        chain, secret = _read("tls_certificate", self._certificate), _read("tls_key", self._key)
        end_time = usable_until(self._certificate, self._key)
        if end_time - datetime.now(UTC) < _SOON:
            log.warning("tls_certificate_ends_soon", path=str(self._certificate), end_time=end_time.isoformat())
        mode = stat.S_IMODE(self._key.stat().st_mode)
        if mode & _OTHERS:
            log.warning("tls_key_is_open_to_others", path=str(self._key), mode=f"{mode:04o}", remedy=f"chmod 600 {self._key}")
        return grpc.ssl_server_certificate_configuration([(secret, chain)]), end_time


def _read(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsInvalid(setting, f"can't read {path}: {error.strerror}") from None


def usable_until(certificate: Path, key: Path) -> datetime:
    """Shake hands with it, as its own authority; until when it may be used."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        server.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        text = f"{certificate} and {key} are not a certificate and its key in PEM without a password: {_tls_reason(error)}"
        raise SettingsInvalid("tls_certificate", text) from None
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate vouches for itself: only its dates are asked here
    client.load_verify_locations(certificate)
    try:
        end = _shake_hands(server, client)
    except ssl.SSLError as error:
        raise SettingsInvalid("tls_certificate", f"{certificate} can't be used: {_tls_reason(error)}; renew it") from None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(end), UTC)


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Both ends in this thread; what the certificate says of its end."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(to_server, to_client, server_side=True), client.wrap_bio(to_client, to_server)]
    for end in [ends[1], ends[0]] * 3:  # TLS 1.3 needs two rounds
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    certificate = ends[1].getpeercert()
    assert certificate is not None
    return str(certificate["notAfter"])


def _no_password() -> str:
    raise ValueError("the key has a password")


def _tls_reason(error: Exception) -> str:
    return str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error)
