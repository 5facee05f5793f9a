"""Settings that the server passes to an isolation, and the protections that tests may take away one at a time."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

HOST_ROOT = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSettings:
    """Where boxes live and what their root is made of.

    state_id: a hash of the server's state directory; `sweep` removes the boxes that carry it and an earlier `run_id`.
    runtime_dir: a directory of this server alone; made if missing. Not on a `noexec` mount if artifacts are run from it.
    box_root: "host" (the host's toolchain and Python environment, read-only) or "image:NAME" (docker only).
    memory_toolchain_dir: the copy of the host's toolchain in memory, which boxes see; None: they see the files on disk.
    yields_cores: whether boxes that run kernels without a GPU give way to all else, since the host has a GPU whose time is dearer.
    hidden_paths: never visible in a box, should they lie below a bound path; the problems' directory for one.
    """

    state_id: str
    runtime_dir: Path
    box_root: str = HOST_ROOT
    docker_host: str | None = None
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))
    hidden_paths: tuple[Path, ...] = ()
    memory_toolchain_dir: Path | None = None
    yields_cores: bool = False

    def __post_init__(self) -> None:
        if not self.state_id.isalnum() or not self.run_id.isalnum():
            raise ValueError(f"state_id {self.state_id!r} and run_id {self.run_id!r} name cgroups and labels; use letters and digits only")
        kind, _, image = self.box_root.partition(":")
        if self.box_root != HOST_ROOT and (kind != "image" or not image.strip()):
            raise ValueError(f"box_root {self.box_root!r} is not known; write 'host' or 'image:NAME'")

    @property
    def etc_directory(self) -> Path:
        """Where the passwd and group that boxes see are written: in memory, where the toolchain is."""
        return self.runtime_dir / "etc" if self.memory_toolchain_dir is None else self.memory_toolchain_dir / f"own-etc-{self.run_id}"

    @property
    def image(self) -> str | None:
        """The image to start boxes from; None for the host's own toolchain."""
        return None if self.box_root == HOST_ROOT else self.box_root.removeprefix("image:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Protections:
    """Protections that keep a box in.  All on; a control test takes one away to prove that its attack needs it.

    Not reachable from settings, command line or API, and it must stay so.
    """

    own_network: bool = True
    own_pids: bool = True
    own_ipc: bool = True
    own_uid: bool = True
    read_only_root: bool = True
    drop_capabilities: bool = True
    no_new_privileges: bool = True
    no_nested_namespaces: bool = True
    masked_proc: bool = True
    memory_limit: bool = True
    process_limit: bool = True
    tmp_limit: bool = True
    shm_limit: bool = True
    rlimits: bool = True
    seccomp: bool = True
    extra_binds: tuple[tuple[str, str], ...] = ()
