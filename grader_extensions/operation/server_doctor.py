"""`grader-server doctor OPTIONS`: whether a server with the same options would start, and what should be done soon; a line each."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa

from grader import extensions
from grader.artifacts import usage
from grader.config import Settings, web_address
from grader.errors import GraderError, LedgerUnreachable, ProblemInvalid, SettingsInvalid
from grader.intake.gate import submit_policy
from grader.isolation.memory_toolchain import parts_of, size_of, why_not
from grader.isolation.settings import HOST_ROOT
from grader.isolation.toolchain import host_toolchain
from grader.ledger import migrate
from grader.ledger.tables import keys, submissions
from grader.observability.tracing import missing_packages
from grader.problems.store import Problems
from grader.server.auth import server_credentials, usable_until
from grader.server.main import parser as server_parser
from grader.server.settings import USAGE_ERROR, parse_settings, print_json, print_line
from grader.server.wiring import build_resources
from grader.state_dir import lock_holder
from grader_extensions.operation.check import reading
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


@dataclass(frozen=True, slots=True)
class CheckupFinding:
    """Result of a check. remedy: what to do; "" where there is nothing to do, or where detail says it."""

    name: str
    standing: CheckupStatus
    detail: str
    remedy: str = ""


_MARKS = {CheckupStatus.OK: "ok   ", CheckupStatus.WARNING: "soon ", CheckupStatus.WRONG: "WRONG"}


def main(arguments: Sequence[str]) -> int:
    """0 where a server would start, 1 where something is in its way, 2 where the options themselves are wrong."""
    options = {name: value for name, value in vars(parser().parse_args(arguments)).items() if value is not None}
    as_json = options.pop("json")
    settings = parse_settings("grader-server doctor", options)
    if settings is None:
        return USAGE_ERROR
    findings = list(look(settings))
    well = all(finding.standing is not CheckupStatus.WRONG for finding in findings)
    if as_json:
        print_json({"ok": well, "findings": [asdict(finding) for finding in findings]})
    else:
        print_line("\n".join(map(line, findings)))
    return 0 if well else 1


def parser() -> argparse.ArgumentParser:
    """The server's own options, and --json."""
    command_parser = argparse.ArgumentParser(
        prog="grader-server doctor",
        description="Says, a line each, what a server with these options would find here and what to do about it; changes nothing. "
        "Boxes and devices: grader-cli doctor. The exit code is 0: it would start, 1: something is in its way, 2: an option is wrong.",
        parents=[server_parser()],
        conflict_handler="resolve",  # --help is this command's
    )
    command_parser.add_argument("--json", action="store_true", help="print one JSON object")
    return command_parser


def line(finding: CheckupFinding) -> str:
    """A finding for people."""
    return f"{_MARKS[finding.standing]} {finding.name}: {finding.detail}" + (f"; do: {finding.remedy}" if finding.remedy else "")


def check(name: str, detail: str, remedy: str = "", *, wrong: bool = False) -> CheckupFinding:
    """Make a finding: all is well without a remedy, and with one it is soon to be done. wrong: a server would not start, or not work."""
    standing = CheckupStatus.WRONG if wrong else CheckupStatus.WARNING if remedy else CheckupStatus.OK
    return CheckupFinding(name, standing, detail, remedy)


def look(settings: Settings, now: datetime | None = None) -> Iterator[CheckupFinding]:
    """Everything, one after the other."""
    try:
        extensions.check_installed()
    except EntryPointInvalid as error:
        yield check("installed packages", str(error), wrong=True)
        return  # the rest needs them
    now = now or datetime.now(UTC)
    holder = lock_holder(settings.state_dir)
    yield check("server", f"process {holder} has {settings.state_dir}" if holder else f"none runs on {settings.state_dir}")
    yield from ledger(settings, now)
    yield _tls(settings, now)
    for package in extensions.command_lines():
        yield from (check(name, detail, wrong=wrong) for name, detail, wrong in package.checkups(settings))
    yield from _contents(settings)
    yield from space(settings)
    yield _port("gRPC port", "--listen", settings.listen, holder)
    if settings.web is not None:
        yield _port("web port", "--web", settings.web, holder)
    missing = missing_packages() if settings.trace else []
    traces = f"off, for packages are missing: {', '.join(missing)}" if missing else f"sent to {settings.trace}" if settings.trace else "off"
    yield check("traces", traces, "pip install '.[trace]' in a clone" if missing else "")
    yield toolchain(settings)


def toolchain(settings: Settings) -> CheckupFinding:
    """Return whether a server would keep a copy of the toolchain in memory for its boxes; see docs/security.md for what that is for."""
    name = "toolchain in memory"
    if settings.box_root != HOST_ROOT:
        return check(name, f"none; boxes have the toolchain of {settings.box_root}")
    if settings.resident_toolchain is False:
        return check(name, "off: --no-resident-toolchain, or GRADER_RESIDENT_TOOLCHAIN=0")
    with tempfile.TemporaryDirectory(prefix="grader-doctor-") as place:
        size_bytes = size_of(parts_of(host_toolchain(Path(place) / "etc", ())))
    reason = why_not(size_bytes, limit_bytes=build_resources()[1])
    if reason is None:
        return check(name, f"{size_bytes / 1024**3:.1f} GiB, copied by the first server, and kept some minutes when the last has gone")
    if settings.resident_toolchain:
        return check(name, reason, "or leave --resident-toolchain out", wrong=True)
    return check(name, f"none: {reason}", "serve competitions with --resident-toolchain only")


def ledger(settings: Settings, now: datetime) -> Iterator[CheckupFinding]:
    """Its schema, whether the clock goes by it, and keys where callers need one."""
    no_key = "make one: grader-server admin keys create USER"
    if not settings.database and not settings.ledger_path.exists():
        yield check("ledger", f"{settings.ledger_path} is made when the server starts")
        if settings.asks_keys:
            yield check("keys", "callers need one, and there is none", no_key, wrong=True)
        return
    try:
        with reading(settings.ledger) as connection:
            revision = migrate.current(connection)
            yield _schema(revision)
            if revision == migrate.HEAD:
                yield _clock(connection, now)
            if revision == migrate.HEAD and settings.asks_keys:
                opens = sa.and_(keys.c.revoke_time.is_(None), sa.or_(keys.c.expire_time.is_(None), keys.c.expire_time > now))
                count = connection.scalar(sa.select(sa.func.count()).select_from(keys).where(opens)) or 0
                yield check("keys", f"{count} valid") if count else check("keys", "callers need one, and none is valid", no_key, wrong=True)
    except LedgerUnreachable as error:
        detail, remedy = f"{error.database} can't be opened: {error.detail}", "start the database, and let this user connect to it"
        yield check("ledger", detail, remedy, wrong=True)


def _schema(revision: str | None) -> CheckupFinding:
    if revision == migrate.HEAD:
        return check("ledger", f"schema version {revision}, the newest")
    if revision is None:
        return check("ledger", "the database is empty; the server makes its tables when it starts")
    if revision < migrate.HEAD:
        return check("ledger", f"schema version {revision}; the server upgrades it to {migrate.HEAD} at its start", "back it up before")
    detail = f"schema version {revision}, and this program knows {migrate.HEAD}"
    return check("ledger", detail, "take the newer program that wrote it", wrong=True)


def _clock(connection: sa.Connection, now: datetime) -> CheckupFinding:
    """Against what the ledger has seen, and against the database's own clock where that is another host's."""
    newest = connection.scalar(sa.select(sa.func.max(submissions.c.create_time)))
    ahead = newest - now if newest is not None else timedelta()
    if connection.dialect.name == "postgresql":
        ahead = max(ahead, abs(connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one() - now), key=abs)
    if ahead <= CLOCK_WARNING:
        return check("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC, which agrees with the ledger")
    detail = f"{now:%Y-%m-%d %H:%M:%S} UTC here; the ledger is {ahead.total_seconds():.1f} s apart"
    return check("clock", detail, "let this host and the database's keep time: timedatectl set-ntp true", wrong=ahead > CLOCK_WRONG)


def _tls(settings: Settings, now: datetime) -> CheckupFinding:
    certificate, key = settings.tls_certificate, settings.tls_key
    try:
        server_credentials(settings)
        if certificate is None or key is None:
            reach = "only this host can connect" if settings.loopback else "something in front of this server does it"
            return check("TLS", f"off; {reach}")
        end_time = usable_until(certificate, key)
    except SettingsInvalid as error:
        return check("TLS", error.message, wrong=True)
    remedy = "renew it; the server takes the new files without a restart" if end_time - now < TLS_SOON else ""
    return check("TLS", f"{certificate} may be used until {end_time:%Y-%m-%d}", remedy)


def _contents(settings: Settings) -> Iterator[CheckupFinding]:
    unreadable, reports = list[ProblemInvalid](), list[tuple[str, str]]()
    try:
        problems = Problems.load(settings.problems, settings.imported_path, report=unreadable.append)
        count = len(problems.all())
        yield check("problems", f"{count} loaded" if count else "there are none", "" if count else "name some: --problems DIR")
        if unreadable:
            names = ", ".join(problem.path for problem in unreadable)
            remedy = "import them again with this version, or remove the files"
            yield check("imported problems", f"these can't be read: {names}", remedy)
        submit_policy(settings, problems, lambda detail, remedy: reports.append((detail, remedy)))
    except GraderError as error:  # it names the file, and the key in it
        yield check("problems and competitions", str(error), wrong=True)
    else:
        yield from (check("competitions", detail, remedy) for detail, remedy in reports)


def space(settings: Settings) -> Iterator[CheckupFinding]:
    """Yield what is left where the server writes."""
    yield _space("state directory", "--state-dir", settings.state_dir, DISK_WARNING_BYTES)
    if settings.cache_bytes:
        try:
            used_bytes = usage(settings.cache_path)[1]
        except OSError:
            used_bytes = 0
        yield _space("cache directory", "--cache-dir", settings.cache_path, settings.cache_bytes - used_bytes)


def _space(name: str, option: str, directory: Path, wanted_bytes: int) -> CheckupFinding:
    there = next(ancestor for ancestor in (directory, *directory.parents) if ancestor.is_dir())
    if not os.access(there, os.W_OK | os.X_OK):
        return check(name, f"{there} can't be written by this user", f"chown it, or take another: {option} DIR", wrong=True)
    free_bytes = shutil.disk_usage(there).free
    remedy = f"free some, or take another disk: {option} DIR" if free_bytes < max(wanted_bytes, DISK_LEAST_BYTES) else ""
    return check(name, f"{directory}: {free_bytes / 1024**3:.1f} GiB free", remedy, wrong=free_bytes < DISK_LEAST_BYTES)


def _port(name: str, option: str, address: str, holder: int | None) -> CheckupFinding:
    """Return whether it can be bound. The server that has the state directory may well be the one that has it."""
    try:
        busy = _answers(address.removeprefix("unix:")) if address.startswith("unix:") else not _bindable(*web_address(address))
    except (OSError, ValueError) as error:
        return check(name, f"{address} can't be listened on: {error}", f"name another: {option} ADDRESS", wrong=True)
    if busy and not holder:
        return check(name, f"{address} is in use", f"stop what has it, or name another: {option} ADDRESS", wrong=True)
    return check(name, f"{address} is in use, as it is by the server that runs" if busy else f"{address} is free")


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(CONNECT_S)
        return asking.connect_ex(path) == 0


def _bindable(host: str, port: int) -> bool:
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        socket.create_server(place[:2], family=family, dualstack_ipv6=family == socket.AF_INET6).close()  # as gRPC binds
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise
    return True
