"""Settings of a server: read in `server/main.py`, checked here, then passed on.  Nothing else reads the environment."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from grader import devices
from grader.isolations import AUTO
from grader.observability.log import LogFormat, LogLevel
from grader.peers import loopback
from grader.state_dir import state_directory as state_directory

DEFAULT_ADDRESS = "127.0.0.1:50551"
DEFAULT_FLEET_ADDRESS = "127.0.0.1:50552"
LEDGER_NAME, SOCKET_NAME, CACHE_NAME = "ledger.sqlite3", "server.sock", "artifacts"
IMPORTED_NAME, FILES_NAME = "problems", "submission-files"


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where built artifacts lie by default: $GRADER_CACHE_DIR; None is the state directory."""
    return Path(path) if (path := environment.get("GRADER_CACHE_DIR")) else None


def resident_toolchain(environment: Mapping[str, str] = os.environ) -> bool | None:
    """Return whether boxes see a copy of the toolchain in memory by default: $GRADER_RESIDENT_TOOLCHAIN is 1, 0 or auto (None)."""
    return {"1": True, "0": False}.get(environment.get("GRADER_RESIDENT_TOOLCHAIN", ""))


def web_address(text: str) -> tuple[str, int]:
    """Host and port of `--web ADDRESS`; of a port alone only this host can ask."""
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535 or (colon and not host):
        raise ValueError(f"{text!r} is not an address; write PORT, which only this host can reach, or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _check_device(value: str) -> str:
    if value != "auto" and not devices.well_formed(value):
        raise ValueError(f"{value!r} is not a device; write auto, {devices.FORMS}")
    return value


def _check_fleet(value: object) -> object:
    if value == "ray":  # its objects run pickled code where they are read: no process with a ledger imports it
        raise ValueError("Ray runs in another process: start this server with --fleet remote, and `grader-worker place` next to Ray's head")
    return value


def _check_database(value: str) -> str:
    if value and not value.startswith(("postgresql://", "postgres://")):  # not quoted: it may hold a password
        raise ValueError("is not a PostgreSQL URL; write postgresql://USER@HOST/DATABASE, or leave it out for SQLite")
    return value


def _check_web(value: str) -> str:
    web_address(value)
    return value


def _check_api_address(value: str) -> str:
    match = re.fullmatch(r"(https?://)?[^\s/]+:([0-9]{1,5})", value)
    if match is None or not 0 < int(match[2]) < 65536:
        raise ValueError(f"{value!r} is not an address for users; write HOST:PORT, such as grader.example.org:50551")
    return value


def _check_origins(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if value != "*" and re.fullmatch(r"https?://[a-z0-9.:\[\]-]+", value) is None:  # as browsers send it
            raise ValueError(f"{value!r} is not an origin; write https://HOST or https://HOST:PORT, in small letters and without a path")
    return values


IpAddress = Annotated[str, AfterValidator(lambda value: str(ipaddress.ip_address(value)))]
AbsolutePath = Annotated[Path, AfterValidator(Path.absolute)]


class Settings(BaseModel):
    """A server's settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    listen: str = DEFAULT_ADDRESS
    state_dir: AbsolutePath = Field(default_factory=state_directory)
    # "": SQLite in state_dir. It may hold a password. From the environment only for `grader-server`: a server inside another program
    # would grade what others wait for.
    database: Annotated[str, AfterValidator(_check_database)] = Field(default="", repr=False)
    cache_dir: AbsolutePath | None = Field(default_factory=cache_directory)
    cache_bytes: int = Field(default=2 * 1024**3, ge=0)  # 0: nothing is kept, everything is built
    problems: tuple[AbsolutePath, ...] = ()
    competitions: tuple[AbsolutePath, ...] = ()
    hourly_limit: int = Field(default=0, ge=0)  # submissions of each user; 0: any number
    daily_limit: int = Field(default=0, ge=0)
    sandbox: str = AUTO
    box_root: str = "host"
    # Whether boxes see a copy of the host's toolchain in memory; None: where there is room for one.
    resident_toolchain: bool | None = Field(default_factory=resident_toolchain)
    # What "" means to a submission: auto, or as `grader/devices.py` says. Other GPUs are left alone.
    device: Annotated[str, AfterValidator(_check_device)] = "auto"
    lanes: int = Field(default=1, ge=1, le=64)  # emulated ones; every GPU is one next to them
    builders: int | None = Field(default=None, ge=1, le=256)  # None: as `grader/server/wiring.py` computes it
    warm_boxes: int | None = Field(default=None, ge=0, le=64)  # None: two more than lanes
    # local: this host; or the fleet of an installed package, such as remote: workers that join.
    fleet: Annotated[str, BeforeValidator(_check_fleet)] = "local"
    fleet_listen: str = DEFAULT_FLEET_ADDRESS  # where workers join
    auth: Literal["auto", "keys", "none"] = "auto"  # auto: keys where other hosts can connect
    tls_certificate: AbsolutePath | None = None
    tls_key: AbsolutePath | None = None
    insecure_no_tls: bool = False  # something in front of this server does TLS
    queue_limit: int = Field(default=1000, ge=1)
    user_queue_share: float = Field(default=0.25, gt=0, le=1)  # of queue_limit, for each user; without keys there is one user and no share
    connection_limit: int = Field(default=4096, ge=1)  # to the API; those to the web port are counted by the two below
    web_connection_limit: int = Field(default=512, ge=1)
    web_address_limit: int = Field(default=128, ge=1)  # connections to the web port from one address
    trusted_proxy: tuple[IpAddress, ...] = ()  # whose X-Forwarded-For is believed
    health_call_limit: int = Field(default=256, ge=1)  # calls of health that are open, which need no key
    health_address_limit: int = Field(default=64, ge=1)
    drain_s: float = Field(default=60.0, ge=0)
    lease_s: float = Field(default=30.0, gt=0)
    log_format: LogFormat = "console"
    log_level: LogLevel = "info"
    web: Annotated[str, AfterValidator(_check_web)] | None = None  # None: no web port
    http_allow_origin: Annotated[
        tuple[str, ...], AfterValidator(_check_origins)
    ] = ()  # sites whose scripts may call the API over HTTP, as a browser names them; "*": all
    public_url: str = ""  # where browsers reach the web port; one of another name than this host's is a proxy's
    api_address: Annotated[str, AfterValidator(_check_api_address)] | None = None  # where users reach the API; None: pages derive it
    oidc_issuer: str = ""  # of the identity provider that users may sign in with; "": none
    oidc_client_id: str = ""
    oidc_client_secret_file: AbsolutePath | None = None
    oidc_name: str = ""  # what users call the provider; "": the issuer's host
    oidc_allow: tuple[str, ...] = ()  # who may sign in: rules as the package of the pages reads them
    # Where OTLP is taken; "": nothing is traced.
    trace: str = Field(default_factory=lambda: os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", ""))
    retain_sources_days: int = Field(default=0, ge=0)  # 0: for ever
    retain_events_days: int = Field(default=0, ge=0)
    retain_artifacts_days: int = Field(default=30, ge=0)  # files that a profile left
    submission_files_dir: AbsolutePath | None = None  # where those lie; None: in state_dir. Servers on one database name the same
    submission_files_bytes: int = Field(default=4 * 1024**3, ge=0)  # of all of them; the oldest go first

    # What installed parts alone act upon: see `ServerAdditions.settings`.
    EXTENSION_SETTINGS: ClassVar = ("http_allow_origin", "oidc_issuer", "retain_sources_days", "retain_events_days")

    @property
    def ledger_path(self) -> Path:
        """The database file, where `database` names no other database."""
        return self.state_dir / LEDGER_NAME

    @property
    def ledger(self) -> Path | str:
        """Return what `Ledger.open` takes."""
        return self.database or self.ledger_path

    @property
    def cache_path(self) -> Path:
        """The directory of built artifacts; several servers may name the same."""
        return self.cache_dir or self.state_dir / CACHE_NAME

    @property
    def submission_files_path(self) -> Path:
        """The directory of the files that submissions left."""
        return self.submission_files_dir or self.state_dir / FILES_NAME

    @property
    def imported_path(self) -> Path:
        """The directory of problems that were imported."""
        return self.state_dir / IMPORTED_NAME

    @property
    def loopback(self) -> bool:
        """Return whether only this host can connect: not through a proxy either."""
        named = [url.rpartition("://")[2].rstrip("/") for url in (self.public_url, self.api_address) if url]
        return not self.trusted_proxy and all(map(loopback, (self.listen, *named)))

    @property
    def user_queue_limit(self) -> int | None:
        """How many submissions of one user may wait at a time; None where callers need no keys, and users are not distinguished."""
        return max(1, int(self.queue_limit * self.user_queue_share)) if self.asks_keys else None

    @property
    def asks_keys(self) -> bool:
        """Return whether callers need a key."""
        return self.auth == "keys" or (self.auth == "auto" and not self.loopback)
