"""Languages, a file each: how a kernel is built in the build box, and loaded and launched in the run box.

A language promises: `headers` yields ways to answer the includes of a job's sources, best first, a sentence in the place of one that is
not to be had; the last is headers, and decides. `libraries` says what is linked: flags, and by their paths those that are loaded before
the artifact. Neither runs anything of the submission. `check` says from the artifact's bytes alone what is missing; `load` returns a
function that does a call, and is the first place where untrusted code runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.gate import Call, Status


class Refused(Exception):
    """The submission's own code failed in a way that has a name: what goes into the answer's status and message."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A kernel, ready. bind(call) places its arguments; calling what it returns is one launch; finish() then moves what a kernel
    returned into the output arena."""

    bind: Callable[[Call], Callable[[], object]]
    finish: Callable[[Call, object], None]
    uses_torch: bool
