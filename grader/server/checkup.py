"""Checks of `grader-server doctor`: whether a server with these settings would start, and go on for long.  Changes nothing."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa

from grader import extensions
from grader.artifacts import usage
from grader.config import Settings, web_address
from grader.errors import GraderError, LedgerUnreachable, ProblemInvalid, SettingsInvalid
from grader.intake.gate import submit_policy
from grader.isolation.memory_toolchain import size_of, why_not
from grader.isolation.settings import HOST_ROOT
from grader.isolation.toolchain import host_toolchain
from grader.ledger import migrate
from grader.ledger.tables import keys, submissions
from grader.observability.tracing import missing_packages
from grader.problems.store import Problems
from grader.server.auth import identity_provider, server_credentials, usable_until
from grader.server.commands.check import reading
from grader.server.server_state import lock_holder
from sandbox.protocol.entry_points import EntryPointInvalid

DISK_WARNING_BYTES, DISK_LEAST_BYTES = 5 * 1024**3, 200 * 1024**2
TLS_SOON = timedelta(days=21)
CLOCK_WARNING, CLOCK_WRONG = timedelta(seconds=2), timedelta(seconds=60)
CONNECT_S = 1.0


class CheckupStatus(StrEnum):
    """How something stands."""

    OK = "ok"
    WARNING = "warning"  # it works, and should be looked at
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckupFinding:
    """Result of a check. remedy: what to do; "" where there is nothing to do, or where detail says it."""

    name: str
    standing: CheckupStatus
    detail: str
    remedy: str = ""


def ok(name: str, detail: str) -> CheckupFinding:
    """Nothing to do."""
    return CheckupFinding(name=name, standing=CheckupStatus.OK, detail=detail)


def warning(name: str, detail: str, remedy: str) -> CheckupFinding:
    """Soon to be done."""
    return CheckupFinding(name=name, standing=CheckupStatus.WARNING, detail=detail, remedy=remedy)


def wrong(name: str, detail: str, remedy: str = "") -> CheckupFinding:
    """To be done before it works."""
    return CheckupFinding(name=name, standing=CheckupStatus.WRONG, detail=detail, remedy=remedy)


def look(settings: Settings, now: datetime | None = None) -> Iterator[CheckupFinding]:
    """Everything, one after the other."""
    try:
        extensions.check_installed()
    except EntryPointInvalid as error:
        yield wrong("installed packages", str(error))
        return  # the rest needs them
    now = now or datetime.now(UTC)
    holder = lock_holder(settings.lock_path)
    yield ok("server", f"process {holder} has {settings.state_dir}" if holder else f"none runs on {settings.state_dir}")
    yield from ledger(settings, now)
    yield _tls(settings, now)
    yield from _sign_in(settings)
    yield from _contents(settings)
    yield from space(settings)
    yield _port("gRPC port", "--listen", settings.listen, holder)
    if settings.web is not None:
        yield _port("web port", "--web", settings.web, holder)
    yield _traces(settings)
    yield toolchain(settings)


def toolchain(settings: Settings) -> CheckupFinding:
    """Return whether a server would keep a copy of the toolchain in memory for its boxes; see docs/security.md for what that is for."""
    name = "toolchain in memory"
    if settings.box_root != HOST_ROOT:
        return ok(name, f"none; boxes have the toolchain of {settings.box_root}")
    if settings.resident_toolchain is False:
        return ok(name, "off: --no-resident-toolchain, or GRADER_RESIDENT_TOOLCHAIN=0")
    with tempfile.TemporaryDirectory(prefix="grader-doctor-") as place:
        size_bytes = size_of(host_toolchain(Path(place) / "etc", ()))
    reason = why_not(size_bytes)
    if reason is None:
        return ok(name, f"{size_bytes / 1024**3:.1f} GiB, copied when the server starts")
    if settings.resident_toolchain:
        return wrong(name, reason, "or leave --resident-toolchain out")
    return warning(name, f"none: {reason}", "serve competitions with --resident-toolchain only")


def ledger(settings: Settings, now: datetime) -> Iterator[CheckupFinding]:
    """Its schema, whether the clock goes by it, and keys where callers need one."""
    if not settings.database and not settings.ledger_path.exists():
        yield ok("ledger", f"{settings.ledger_path} is made when the server starts")
        if settings.asks_keys:
            yield wrong("keys", "callers need one, and there is none", "make one: grader-server admin keys create USER")
        return
    try:
        with reading(settings.ledger) as connection:
            revision = migrate.current(connection)
            yield _schema(revision)
            if revision == migrate.HEAD:
                yield _clock(connection, now)
                if settings.asks_keys:
                    yield _keys(connection, now)
    except LedgerUnreachable as error:
        yield wrong("ledger", f"{error.database} can't be opened: {error.detail}", "start the database, and let this user connect to it")


def _schema(revision: str | None) -> CheckupFinding:
    if revision == migrate.HEAD:
        return ok("ledger", f"schema version {revision}, the newest")
    if revision is None:
        return ok("ledger", "the database is empty; the server makes its tables when it starts")
    if revision < migrate.HEAD:
        return warning("ledger", f"schema version {revision}; the server upgrades it to {migrate.HEAD} at its start", "back it up before")
    return wrong("ledger", f"schema version {revision}, and this program knows {migrate.HEAD}", "take the newer program that wrote it")


def _clock(connection: sa.Connection, now: datetime) -> CheckupFinding:
    """Against what the ledger has seen, and against the database's own clock where that is another host's."""
    newest = connection.scalar(sa.select(sa.func.max(submissions.c.create_time)))
    ahead = newest - now if newest is not None else timedelta()
    if connection.dialect.name == "postgresql":
        ahead = max(ahead, abs(connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one() - now), key=abs)
    remedy = "let this host and the database's keep time: timedatectl set-ntp true"
    if ahead > CLOCK_WRONG:
        return wrong("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC here; the ledger is {ahead.total_seconds():.0f} s apart", remedy)
    if ahead > CLOCK_WARNING:
        return warning("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC here; the ledger is {ahead.total_seconds():.1f} s apart", remedy)
    return ok("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC, which agrees with the ledger")


def _keys(connection: sa.Connection, now: datetime) -> CheckupFinding:
    opens = sa.and_(keys.c.revoke_time.is_(None), sa.or_(keys.c.expire_time.is_(None), keys.c.expire_time > now))
    count = connection.scalar(sa.select(sa.func.count()).select_from(keys).where(opens)) or 0
    if not count:
        return wrong("keys", "callers need one, and none is valid", "make one: grader-server admin keys create USER")
    return ok("keys", f"{count} valid")


def _tls(settings: Settings, now: datetime) -> CheckupFinding:
    certificate, key = settings.tls_certificate, settings.tls_key
    try:
        server_credentials(settings)
        if certificate is None or key is None:
            reach = "only this host can connect" if settings.loopback else "something in front of this server does it"
            return ok("TLS", f"off; {reach}")
        end_time = usable_until(certificate, key)
    except SettingsInvalid as error:
        return wrong("TLS", error.message)
    detail = f"{certificate} may be used until {end_time:%Y-%m-%d}"
    if end_time - now < TLS_SOON:
        return warning("TLS", detail, "renew it; the server takes the new files without a restart")
    return ok("TLS", detail)


def _sign_in(settings: Settings) -> Iterator[CheckupFinding]:
    try:
        provider = identity_provider(settings)
    except SettingsInvalid as error:
        yield wrong("sign-in", str(error))
        return
    if provider is not None:
        yield ok("sign-in", f"with {provider.issuer}, which has to know the redirect URI {provider.redirect_uri}")


def _contents(settings: Settings) -> Iterator[CheckupFinding]:
    try:
        unreadable: list[ProblemInvalid] = []
        problems = Problems.load(settings.problems, settings.imported_path, report=unreadable.append)
        count = len(problems.all())
        yield ok("problems", f"{count} loaded") if count else warning("problems", "there are none", "name some: --problems DIR")
        if unreadable:
            names = ", ".join(problem.path for problem in unreadable)
            yield warning("imported problems", f"these can't be read: {names}", "import them again with this version, or remove the files")
        reports: list[tuple[str, str]] = []
        submit_policy(settings, problems, lambda detail, remedy: reports.append((detail, remedy)))
    except GraderError as error:  # it names the file, and the key in it
        yield wrong("problems and competitions", str(error))
    else:
        for detail, remedy in reports:
            yield warning("competitions", detail, remedy) if remedy else ok("competitions", detail)


def space(settings: Settings) -> Iterator[CheckupFinding]:
    """Yield what is left where the server writes."""
    yield _space("state directory", settings.state_dir, DISK_WARNING_BYTES)
    if settings.cache_bytes:
        yield _space("cache directory", settings.cache_path, settings.cache_bytes - _used(settings.cache_path))


def _space(name: str, directory: Path, wanted_bytes: int) -> CheckupFinding:
    there = next(ancestor for ancestor in (directory, *directory.parents) if ancestor.is_dir())
    if not os.access(there, os.W_OK | os.X_OK):
        return wrong(name, f"{there} can't be written by this user", f"chown it, or take another: {_OPTIONS[name]} DIR")
    free_bytes = shutil.disk_usage(there).free
    detail = f"{directory}: {free_bytes / 1024**3:.1f} GiB free"
    remedy = f"free some, or take another disk: {_OPTIONS[name]} DIR"
    if free_bytes < DISK_LEAST_BYTES:
        return wrong(name, detail, remedy)
    return warning(name, detail, remedy) if free_bytes < wanted_bytes else ok(name, detail)


_OPTIONS = {"state directory": "--state-dir", "cache directory": "--cache-dir"}


def _used(directory: Path) -> int:
    try:
        return usage(directory)[1]
    except OSError:
        return 0


def _port(name: str, option: str, address: str, holder: int | None) -> CheckupFinding:
    """Return whether it can be bound. The server that has the state directory may well be the one that has it."""
    try:
        busy = _answers(address.removeprefix("unix:")) if address.startswith("unix:") else not _bindable(*web_address(address))
    except (OSError, ValueError) as error:
        return wrong(name, f"{address} can't be listened on: {error}", f"name another: {option} ADDRESS")
    if not busy:
        return ok(name, f"{address} is free")
    if holder:
        return ok(name, f"{address} is in use, as it is by the server that runs")
    return wrong(name, f"{address} is in use", f"stop what has it, or name another: {option} ADDRESS")


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(CONNECT_S)
        return asking.connect_ex(path) == 0


def _bindable(host: str, port: int) -> bool:
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family, kind, protocol) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind(where)
            trying.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def _traces(settings: Settings) -> CheckupFinding:
    if not settings.trace:
        return ok("traces", "off")
    missing = missing_packages()
    if missing:
        return warning("traces", f"off, for packages are missing: {', '.join(missing)}", "pip install '.[trace]' in a clone")
    return ok("traces", f"sent to {settings.trace}")
