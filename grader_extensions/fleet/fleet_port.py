"""The port at which workers join: mutual TLS, one bidirectional stream for each worker.  The public API does not have it."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from grader.artifacts import SubmissionFiles, make_private, write_whole
from grader.config import Settings
from grader.errors import InvalidRequest, SettingsInvalid
from grader.fleet.v1 import fleet_pb2, fleet_pb2_grpc
from grader.server.request_limits import check_fields
from grader.server.wiring import Grading
from grader_extensions.fleet.remote_fleet import ProtocolViolation, RemoteFleet, RemoteWorker
from sandbox.protocol.version import VERSION

HELLO_S = 10.0
CERTIFICATE_LOOK_S = 30.0
UNIX = "unix:"
STOP_GRACE_S = 5.0
# A lost host is noticed within two of these.
KEEPALIVE_MS = 10_000
OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),  # a line of facts has at most 8 MiB
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.http2.max_pings_without_data", 0),  # no limit: an idle worker is pinged too
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_concurrent_streams", 4),
)
SOCKET_NODE = "local"  # of all workers on a unix socket; one with a --name is local/NAME each time it joins, so that a cordon holds
Context = grpc.aio.ServicerContext[Any, Any]

log = structlog.get_logger()


def fleet_path(settings: Settings) -> Path:
    """Return the directory of what the fleet port needs: its authority, its certificate, the workers that may join."""
    return settings.state_dir / "fleet"


class FleetServicer(fleet_pb2_grpc.FleetServiceServicer):
    """Lets workers in. certificates: None on a unix socket, which only this user can open. safe_only: refuse those whose isolation confines
    nothing."""

    def __init__(self, fleet: RemoteFleet, certificates: FleetCertificates | None, *, safe_only: bool) -> None:
        self._fleet, self._certificates, self._safe_only = fleet, certificates, safe_only
        self._numbers = itertools.count(1)

    async def Attach(
        self, request_iterator: AsyncIterator[fleet_pb2.AttachRequest], context: Context
    ) -> AsyncIterator[fleet_pb2.AttachResponse]:
        """Take one worker in until its stream ends."""
        node = self._node(context)
        if node is None:
            text = "this certificate is not, or no longer, that of a worker; make one with `grader-server admin workers add NODE`"
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, text)
        hello = await self._hello(request_iterator, context)
        if hello.instance:
            if NODE.fullmatch(hello.instance) is None:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the worker's --name is not a plain name")
            node = f"{node}/{hello.instance}"
            # With a certificate the new one is let in instead: after a lost network the old one may seem to be there for a while.
            if self._certificates is None and self._fleet.has(node):
                text = f"a worker {hello.instance} is connected already; give each worker of this host a --name of its own"
                await context.abort(grpc.StatusCode.ALREADY_EXISTS, text)
        elif self._certificates is None:
            node = f"{node}-{next(self._numbers)}"
        try:
            worker = self._fleet.join(node, hello.standing)
        except ProtocolViolation as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the worker {error}")
        tasks = [asyncio.create_task(_listen(worker, request_iterator)), asyncio.create_task(self._watch_certificate(worker, context))]
        try:
            yield fleet_pb2.AttachResponse(welcome=fleet_pb2.Welcome(node=node))
            while (message := await worker.outbox.get()) is not None:
                yield message
            if worker.violated:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the worker {worker.gone}")
        finally:
            for task in tasks:
                task.cancel()
            self._fleet.leave(worker)

    async def _watch_certificate(self, worker: RemoteWorker, context: Context) -> None:
        while not worker.gone:
            await asyncio.sleep(CERTIFICATE_LOOK_S)
            if self._node(context) is None:
                worker.lose("had its certificate removed")

    def _node(self, context: Context) -> str | None:
        """The node of the certificate that this worker came with; None where that is not good, or no longer."""
        if self._certificates is None:
            return SOCKET_NODE
        certificate_chain = list(context.auth_context().get("x509_pem_cert", ()))
        return self._certificates.node_of(certificate_chain[0]) if certificate_chain else None

    async def _hello(self, messages: AsyncIterator[fleet_pb2.AttachRequest], context: Context) -> fleet_pb2.Hello:
        first = fleet_pb2.AttachRequest()
        with suppress(TimeoutError, StopAsyncIteration):
            async with asyncio.timeout(HELLO_S):
                first = await anext(aiter(messages))
        if first.WhichOneof("message") != "hello":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a worker has to say hello first")
        hello = first.hello
        try:
            check_fields(hello)
        except InvalidRequest as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the worker's hello is too large: {error}")
        if hello.protocol != VERSION:
            text = f"the worker speaks protocol {hello.protocol[:32]!r}, and this server {VERSION!r}; install the same version on both"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        if self._safe_only and not hello.safe:
            text = f"the worker's isolation {hello.isolation[:32]!r} does not confine kernels; use docker or bubblewrap there"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        return hello


async def _listen(worker: RemoteWorker, messages: AsyncIterator[fleet_pb2.AttachRequest]) -> None:
    """Hear all that a worker says; it is lost where that ends, and where it makes no sense."""
    try:
        async for message in messages:
            check_fields(message)
            await worker.hear(message)
        worker.lose("closed its connection")
    except (ProtocolViolation, InvalidRequest) as error:
        log.error("worker_violates_protocol", node=worker.node, why=str(error))
        worker.lose(str(error), violated=True)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        log.exception("worker_not_heard", node=worker.node)
        worker.lose(f"could not be heard: {type(error).__name__}")


@asynccontextmanager
async def fleet_port(settings: Settings, fleet: RemoteFleet) -> AsyncIterator[str]:
    """Let workers join until the context is left; the address. SettingsInvalid where nobody could."""
    address, unix = settings.fleet_listen, settings.fleet_listen.startswith(UNIX)
    certificates = None if unix else FleetCertificates(fleet_path(settings))
    server = grpc.aio.server(options=OPTIONS)
    # Kernels of strangers need workers with an isolation that confines them.
    servicer = FleetServicer(fleet, certificates, safe_only=settings.sandbox != "process")
    fleet_pb2_grpc.add_FleetServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    try:
        if certificates is None:
            port = server.add_insecure_port(address)
        else:
            credentials = grpc.ssl_server_credentials([certificates.server_key_pair()], certificates.authority(), require_client_auth=True)
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise SettingsInvalid("fleet_listen", f"can't listen at {address!r}: {error}") from error
    await server.start()
    if unix:
        with suppress(OSError):
            Path(address.removeprefix(UNIX)).chmod(0o600)
    try:
        yield address if unix else f"{address.rpartition(':')[0]}:{port}"
    finally:
        fleet.close()
        await server.stop(STOP_GRACE_S)


# The certificates of the fleet port: an authority of this server alone, its own certificate, and one for each worker.
#
# An authority's key signs only here. A worker has a file with its key, its certificate and the authority's certificate. Which
# certificates are good is a file for each worker, by its serial number: to remove it is to revoke the certificate.

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

    def server_key_pair(self) -> tuple[bytes, bytes]:
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
        was_there = (self._workers / node).is_file()
        (self._workers / node).unlink(missing_ok=True)
        return was_there

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
            authority_certificate = (
                _builder(name, name, key)
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .sign(key, hashes.SHA256())
            )
            write_whole(self.directory / _CA_KEY, _key_pem(key))
            write_whole(self.directory / _CA, _pem(authority_certificate))
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


@asynccontextmanager
async def joined(settings: Settings) -> AsyncIterator[Grading]:
    """The workers that join at the fleet port."""
    files = SubmissionFiles(settings.submission_files_path, settings.submission_files_bytes)
    make_private(fleet_path(settings), "state_dir")
    fleet = RemoteFleet(fleet_path(settings) / "devices.json", files)
    async with fleet_port(settings, fleet) as address:
        log.info("fleet_listening", address=address)
        yield Grading(
            grade=fleet.grade,
            capacity=fleet.capacity,
            device_kinds=fleet.device_kinds,
            ready_kinds=fleet.ready_kinds,
            fault=lambda: "" if fleet.capacity() else "no worker that can grade is connected",
            isolation="of the workers",
            safe=settings.sandbox != "process",
            lanes=fleet.lanes,
            cordon=fleet.cordon,
        )
