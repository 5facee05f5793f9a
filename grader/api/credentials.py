"""The keys that a user has stored, by server, and the default server: a file that only the user can read.  No key is ever printed."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from grader.errors import SettingsInvalid

FILE_NAME = "credentials.json"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credential:
    """How one server is called. It has no repr: a key in a traceback would be a key in a log."""

    key: str = ""
    tls: bool | None = None  # None: what the address says, or else TLS beyond this host
    ca: str | None = None  # in PEM; None: the authorities that everybody trusts
    plain_text: bool = False  # the user said that the key may travel in plain text


_TYPES = {"key": str, "tls": bool | None, "ca": str | None, "plain_text": bool}


@dataclass(slots=True, kw_only=True, repr=False)
class StoredServers:
    """Contents of the file. default: the server as it was written at login; "": none."""

    servers: dict[str, Credential]
    default: str = ""


def _read(stored: Any) -> StoredServers:
    """The contents of parsed JSON; ValueError, KeyError, TypeError or AttributeError if it has another form."""
    servers, default = {}, stored.get("default", "")
    for server, fields in stored["servers"].items():
        servers[server] = Credential(**{name: value for name, value in fields.items() if name in _TYPES})
    if not all(isinstance(getattr(credential, name), kind) for credential in servers.values() for name, kind in _TYPES.items()):
        raise TypeError("a field has the wrong type")
    if not isinstance(default, str):
        raise TypeError("the default server is not a text")
    return StoredServers(servers=servers, default=default)


def directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where they are kept: $XDG_CONFIG_HOME/grader, ~/.config/grader."""
    above = environment.get("XDG_CONFIG_HOME")
    return (Path(above) if above else Path(environment.get("HOME") or Path.home()) / ".config") / "grader"


def bare(server: str) -> str:
    """A server's address without its scheme: what its credential goes by."""
    return server.removeprefix("https://").removeprefix("http://").rstrip("/").lower() if not server.startswith("unix:") else server


def find(server: str, environment: Mapping[str, str] = os.environ) -> Credential:
    """Return what to call the server with: the key in $GRADER_KEY before the stored one, an empty one where there is neither."""
    stored = CredentialStore(directory(environment)).all().get(bare(server), Credential())
    key = environment.get("GRADER_KEY", "").strip()
    return replace(stored, key=key) if key else stored


class CredentialStore:
    """The file."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def all(self) -> dict[str, Credential]:
        """By server; SettingsInvalid where others could have read or written the file."""
        return self._load().servers

    def default(self) -> str:
        """The server that is used where none is named, "" for none; SettingsInvalid as in `all`."""
        return self._load().default

    def _load(self) -> StoredServers:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return StoredServers(servers={})
        except OSError as error:
            raise SettingsInvalid(str(self.path), f"can't be read: {error.strerror}") from None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise SettingsInvalid(
                    str(self.path), "is not a file of yours; move it away and store your keys again with `grader-cli login`"
                )
            if status.st_mode & _OTHERS:
                text = f"others can read the keys in it; revoke them if somebody did, and run: chmod 600 {self.path}"
                raise SettingsInvalid(str(self.path), text)
            try:
                return _read(json.loads(file.read()))
            except (ValueError, KeyError, TypeError, AttributeError):  # what it says is not quoted: there are keys in it
                raise SettingsInvalid(str(self.path), "is damaged; remove it and store your keys again with `grader-cli login`") from None

    def put(self, server: str, credential: Credential, *, default: bool = False) -> None:
        """Keep it, in place of what was there for this server. default: the server is the default from now on."""

        def change(stored: StoredServers) -> None:
            stored.servers[bare(server)] = credential
            stored.default = server if default else stored.default

        self._change(change)

    def remove(self, server: str) -> bool:
        """Forget the server, also as the default; whether it was known."""

        def change(stored: StoredServers) -> bool:
            stored.default = "" if bare(stored.default) == bare(server) else stored.default
            return stored.servers.pop(bare(server), None) is not None

        return self._change(change)

    def _change(self, change: Callable[[StoredServers], T]) -> T:
        """Make a change at a time, so that two logins at once are both stored."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.parent.chmod(0o700)  # whatever the umask, and no matter who made it
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SettingsInvalid(str(self.path.parent), f"keys can't be kept there: {error.strerror}; set XDG_CONFIG_HOME") from None
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            stored = self._load()
            result = change(stored)
            servers = {name: asdict(credential) for name, credential in sorted(stored.servers.items())}
            text = json.dumps({"servers": servers, **({"default": stored.default} if stored.default else {})}, indent=2)
            written = self.path.with_name(f".{FILE_NAME}.{secrets.token_hex(4)}")
            try:
                descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(descriptor, "w") as file:
                    file.write(text + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                written.replace(self.path)  # anybody who reads meanwhile sees the old or the new, whole
            finally:
                written.unlink(missing_ok=True)
            return result
        finally:
            os.close(directory)
