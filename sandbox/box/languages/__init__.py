"""Languages, a file each: how a kernel is built in the build box, and loaded and launched in the run box.

A language promises: `headers` yields ways to answer the includes of a job's sources, best first, a sentence in the place of one that is
not to be had; the last is headers, and decides. `libraries` says what is linked: flags, and by their paths those that are loaded before
the artifact. Neither runs anything of the submission. `check` says from the artifact's bytes alone what is missing; `load` returns a
function that does a call, and is the first place where untrusted code runs. RETURNS says whether a kernel returns its outputs, so that
they have to be copied to where the judge looks.

A language that is not compiled file by file has `build` in the place of `headers`, `libraries` and `check`: from the job, the directory of
its files and an empty one to the attempt and its note. It may run the submission, in processes of its own.
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
class Bound:
    """A kernel with its arguments. launch() is one launch; where it returns its outputs, finish() moves them to where the judge looks.
    blank(), there when the call asks for it, moves as much that holds nothing."""

    launch: Callable[[], object]
    finish: Callable[[object], None] | None = None
    blank: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A kernel, ready. bind(call) places its arguments, outside of anybody's time."""

    bind: Callable[[Call], Bound]
    uses_torch: bool
