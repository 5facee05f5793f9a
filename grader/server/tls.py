"""TLS of the server: the certificate's files are tried before anybody connects, on a handshake in memory, and read again when renewed."""

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
                "Behind a proxy that does TLS, pass --insecure-no-tls"
            )
            raise SettingsInvalid("tls_certificate", text)
        return None
    files = _Files(certificate, key)
    # The stub forgets that None is an answer: as before.
    return grpc.dynamic_ssl_server_credentials(files.first(), files.renewed)  # type: ignore[arg-type]


_Stamp = tuple[tuple[int, ...] | None, ...]


class _Files:
    """A certificate and its key, and as what they were last looked at."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key
        self._looked_at = self._stamp()

    def first(self) -> grpc.ServerCertificateConfiguration:
        """To start with; SettingsInvalid."""
        return self._read()[0]

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """What to serve with from now on; None: as before. Asked by a thread of gRPC's at every new connection, one at a time."""
        stamp = self._stamp()
        if stamp == self._looked_at:
            return None
        try:
            read, end_time = self._read()
        except (SettingsInvalid, OSError) as error:  # half of it is written, or it is no good: what was served is better than nothing
            self._looked_at = stamp
            log.error("tls_certificate_not_renewed", path=str(self._certificate), problem=str(error), remedy="fix it; no restart is needed")
            return None
        if stamp != self._stamp():  # it changed meanwhile, and what was tried may not be what was read
            return None
        self._looked_at = stamp
        log.info("tls_certificate_renewed", path=str(self._certificate), end_time=end_time.isoformat())
        return read

    def _stamp(self) -> _Stamp:
        """Differs when a file was written, replaced, or a link to it moved."""
        found: list[tuple[int, ...] | None] = []
        for path in (self._certificate, self._key):
            try:
                status = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((status.st_mtime_ns, status.st_size, status.st_dev, status.st_ino))
        return tuple(found)

    def _read(self) -> tuple[grpc.ServerCertificateConfiguration, datetime]:
        """Both, tried; and until when they may be used."""
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
    found = ends[1].getpeercert()
    assert found is not None
    return str(found["notAfter"])


def _no_password() -> str:
    raise ValueError("the key has a password")


def _tls_reason(error: Exception) -> str:
    return str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error)
