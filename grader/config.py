"""Settings of a server: read in `server/main.py`, checked here, then passed on.  Nothing else reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from grader import devices
from grader.log import LogFormat

DEFAULT_ADDRESS = "127.0.0.1:50551"
LEDGER_NAME, LOCK_NAME, SOCKET_NAME, CACHE_NAME = "ledger.sqlite3", "server.lock", "server.sock", "artifacts"
IMPORTED_NAME = "problems"


def state_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user's state lies unless told otherwise: $GRADER_STATE_DIR, $XDG_STATE_HOME/grader, ~/.local/state/grader."""
    if own := environment.get("GRADER_STATE_DIR"):
        return Path(own)
    if xdg := environment.get("XDG_STATE_HOME"):
        return Path(xdg) / "grader"
    return Path(environment.get("HOME") or Path.home()) / ".local" / "state" / "grader"


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where built artifacts lie unless told otherwise: $GRADER_CACHE_DIR; None is the state directory."""
    return Path(own) if (own := environment.get("GRADER_CACHE_DIR")) else None


class Settings(BaseModel):
    """What a server is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: str = DEFAULT_ADDRESS
    state_dir: Path = Field(default_factory=state_directory)
    cache_dir: Path | None = Field(default_factory=cache_directory)
    cache_bytes: int = Field(default=2 * 1024**3, ge=0)  # 0: nothing is kept, everything is built
    problems: tuple[Path, ...] = ()
    sandbox: Literal["auto", "docker", "bubblewrap", "process"] = "auto"
    box_root: str = "host"
    device: str = "auto"  # what "" means to a submission: auto, or as `grader/devices.py` says. Other GPUs are left alone
    lanes: int = Field(default=1, ge=1, le=64)  # emulated ones; every GPU is one beside them
    builders: int = Field(default=2, ge=1, le=256)
    queue_limit: int = Field(default=1000, ge=1)
    drain_s: float = Field(default=60.0, ge=0)
    lease_s: float = Field(default=30.0, gt=0)
    log_format: LogFormat = "console"

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        if value != "auto" and not devices.well_formed(value):
            raise ValueError(f"{value!r} is no device; write auto, {devices.FORMS}")
        return value

    @field_validator("state_dir", "cache_dir", "problems")
    @classmethod
    def _absolute(cls, value: Path | tuple[Path, ...] | None) -> Path | tuple[Path, ...] | None:
        if value is None or isinstance(value, Path):
            return value and value.absolute()
        return tuple(path.absolute() for path in value)

    @property
    def ledger_path(self) -> Path:
        """The database file."""
        return self.state_dir / LEDGER_NAME

    @property
    def cache_path(self) -> Path:
        """The directory of built artifacts; several servers may name the same."""
        return self.cache_dir or self.state_dir / CACHE_NAME

    @property
    def imported_path(self) -> Path:
        """The directory of problems that were imported."""
        return self.state_dir / IMPORTED_NAME

    @property
    def lock_path(self) -> Path:
        """The file whose lock says which server has the state directory."""
        return self.state_dir / LOCK_NAME

    @property
    def loopback(self) -> bool:
        """Whether only this host can connect."""
        host = self.listen.rsplit(":", 1)[0].strip("[]")
        return self.listen.startswith("unix:") or host in {"127.0.0.1", "::1", "localhost"} or host.startswith("127.")
