"""TLS of the server: the certificate's files are tried before anybody connects, on a handshake in memory."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import structlog

from grader.config import Settings
from grader.errors import SettingsInvalid

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
        if not settings.loopback and not settings.insecure_no_tls:
            text = (
                f"{settings.listen!r} can be reached from other hosts, and without TLS keys and sources could be read on the way; "
                "name a certificate with --tls-certificate FILE --tls-key FILE, or listen on 127.0.0.1. "
                "Behind a proxy that does TLS, --insecure-no-tls says so"
            )
            raise SettingsInvalid("tls_certificate", text)
        return None
    chain, secret = _read("tls_certificate", certificate), _read("tls_key", key)
    end_time = usable_until(certificate, key)
    if end_time - datetime.now(UTC) < _SOON:
        log.warning("tls_certificate_ends_soon", path=str(certificate), end_time=end_time.isoformat())
    mode = stat.S_IMODE(key.stat().st_mode)
    if mode & _OTHERS:
        log.warning("tls_key_is_open_to_others", path=str(key), mode=f"{mode:04o}", remedy=f"chmod 600 {key}")
    return grpc.ssl_server_credentials([(secret, chain)])


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
        text = f"{certificate} and {key} are no certificate and its key in PEM without a password: {_said(error)}"
        raise SettingsInvalid("tls_certificate", text) from None
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate vouches for itself: only its dates are asked here
    client.load_verify_locations(certificate)
    try:
        end = _shake_hands(server, client)
    except ssl.SSLError as error:
        raise SettingsInvalid("tls_certificate", f"{certificate} can't be used: {_said(error)}; renew it") from None
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
    found = ends[1].getpeercert()
    assert found is not None
    return str(found["notAfter"])


def _no_password() -> str:
    raise ValueError("the key has a password")


def _said(error: Exception) -> str:
    return str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error)
