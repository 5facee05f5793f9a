"""A kernel after loading, as the loop launches it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandbox.devices import Arena, Device
from sandbox.protocol import wire
from sandbox.protocol.gate import Call, Status


class LaunchRefused(Exception):
    """The submission's own code failed in a way that has a name: what goes into the answer's status and message."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A kernel with its arguments. launch() is one launch; where it returns its outputs, finish() moves them to where the judge looks.
    blank(), there when the call asks for it, moves as much that holds nothing."""

    launch: Callable[[], object]
    finish: Callable[[object], None] | None = None
    blank: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A kernel, ready. bind(call) places its arguments, outside of anybody's time. take_error() returns the last error of its CUDA runtime
    as "name: text", or "", and clears it. own_operators: torch's names, such as `mine::scale.out`, for operators that the artifact defines.
    fills: torch can fill what the kernel allocates. libraries(): what it was loaded from, by now."""

    bind: Callable[[Call], Bound]
    uses_torch: bool
    take_error: Callable[[], str] = lambda: ""
    own_operators: frozenset[str] = frozenset()
    fills: bool = True
    libraries: Callable[[], Sequence[ctypes.CDLL]] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSetup:
    """Parts of a run, for an instrument: load() loads the kernel from the artifact, and is the first place where untrusted code runs."""

    load: Callable[[], Loaded]
    artifact_fd: int
    job: wire.RunnerJob
    arena: Arena
    device: Device
