"""The certificates of the fleet port: an authority of this server alone, its own certificate, and one for each worker.

An authority's key signs only here. A worker has a file with its key, its certificate and the authority's certificate. Which
certificates are good is a file for each worker, by its serial number: to remove it is to revoke the certificate.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from grader.artifacts.store import make_private, write_whole

SERVER_NAME = "grader-fleet"  # what a worker expects, at whatever address the server is
NODE = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
VALID = timedelta(days=825)
_EARLIER = timedelta(minutes=10)  # clocks differ
_CA, _CA_KEY, _CERTIFICATE, _KEY = "authority.pem", "authority-key.pem", "server.pem", "server-key.pem"


class FleetCertificates:
    """The files below one directory, made when they are first needed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._workers = directory / "workers"

    def authority(self) -> bytes:
        """The authority's certificate, in PEM."""
        self._prepare()
        return (self.directory / _CA).read_bytes()

    def of_server(self) -> tuple[bytes, bytes]:
        """Key and certificate of the fleet port, in PEM."""
        self._prepare()
        return (self.directory / _KEY).read_bytes(), (self.directory / _CERTIFICATE).read_bytes()

    def issue(self, node: str) -> bytes:
        """Key, certificate and authority for a worker, in one PEM text. An earlier certificate of the same node is not good any more."""
        self._prepare()
        key, certificate = self._signed(node, ExtendedKeyUsageOID.CLIENT_AUTH)
        write_whole(self._workers / node, f"{certificate.serial_number:x}\n".encode())
        return _key_pem(key) + _pem(certificate) + self.authority()

    def remove(self, node: str) -> bool:
        """Let this worker in no more; whether it was one."""
        found = (self._workers / node).is_file()
        (self._workers / node).unlink(missing_ok=True)
        return found

    def nodes(self) -> list[str]:
        """The workers that may join."""
        return sorted(path.name for path in self._workers.glob("*") if NODE.fullmatch(path.name))

    def node_of(self, certificate_pem: bytes) -> str | None:
        """Whose certificate this is, which the authority has signed; None where it is not good any more."""
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        node = str(names[0].value) if names else ""
        if NODE.fullmatch(node) is None:
            return None
        try:
            good = (self._workers / node).read_text().strip()
        except OSError:
            return None
        return node if good == f"{certificate.serial_number:x}" else None

    def _prepare(self) -> None:
        make_private(self.directory, "state_dir")
        make_private(self._workers, "state_dir")
        if not (self.directory / _CA).is_file():
            key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "grader fleet authority")])
            made = (
                _builder(name, name, key)
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .sign(key, hashes.SHA256())
            )
            write_whole(self.directory / _CA_KEY, _key_pem(key))
            write_whole(self.directory / _CA, _pem(made))
        if not (self.directory / _CERTIFICATE).is_file():
            key, certificate = self._signed(SERVER_NAME, ExtendedKeyUsageOID.SERVER_AUTH)
            write_whole(self.directory / _KEY, _key_pem(key))
            write_whole(self.directory / _CERTIFICATE, _pem(certificate))

    def _signed(self, name: str, usage: x509.ObjectIdentifier) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        authority = x509.load_pem_x509_certificate((self.directory / _CA).read_bytes())
        signing = serialization.load_pem_private_key((self.directory / _CA_KEY).read_bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            _builder(subject, authority.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        return key, builder.sign(signing, hashes.SHA256())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + VALID)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
