"""The files that submissions leave, such as what profilers write: bounded, by the digest of their content, in one directory.

What lies here came out of boxes: nobody here looks into it, and it is handed out as bytes only. Which submission has which file is in the
ledger. Servers may share the directory, as they may share the ledger.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import structlog

from grader.artifacts import evict, files_in, make_private, write_whole
from grader.isolation.pickup import Refusal, pick_up
from sandbox.protocol.box_files import FILE_LIMIT_BYTES

log = structlog.get_logger()

# Of a submission: what is over a limit is left out, and the profile names it.
SUBMISSION_LIMIT_BYTES = 64 * 1024 * 1024
FILE_COUNT_LIMIT = 64
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
CHUNK_BYTES = 256 * 1024
FRESH_S = 3600.0  # so long a file may lie here before the ledger has it
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BATCH = 500


class SubmissionFiles:
    """Files by digest, at most limit_bytes of them: the oldest go first. The directory is made when the first file is kept."""

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self.directory, self.limit_bytes = directory, limit_bytes

    def keep(self, content: bytes) -> str | None:
        """Keep a file, and return its digest; None where it is larger than all that may lie here."""
        if len(content) > self.limit_bytes:
            return None
        make_private(self.directory, "submission_files_dir")
        digest = hashlib.sha256(content).hexdigest()
        path = self.directory / digest
        try:
            os.utime(path, follow_symlinks=False)
        except FileNotFoundError:
            write_whole(path, content)
        sizes = ((facts.st_mtime_ns, path, facts.st_size) for path, facts in self._files())
        evict(sizes, self.limit_bytes, "submission_file_evicted", but=digest)
        return digest

    def read(self, digest: str) -> bytes | None:
        """The bytes of a file; None where it is not here, or is no longer what it was."""
        if _DIGEST.fullmatch(digest) is None or not self.directory.is_dir():
            return None
        content = pick_up(self.directory, digest, limit_bytes=FILE_LIMIT_BYTES)
        if isinstance(content, Refusal):
            return None
        if hashlib.sha256(content).hexdigest() != digest:
            log.warning("submission_file_damaged", digest=digest)
            return None
        return content

    def holds(self, digest: str) -> bool:
        """Return whether a file is here."""
        return _DIGEST.fullmatch(digest) is not None and (self.directory / digest).is_file()

    async def remove_unknown(self, unknown: Callable[[Sequence[str]], Awaitable[set[str]]], *, fresh_s: float = FRESH_S) -> int:
        """Remove what no submission has; how many files. unknown: tells those of some digests that the ledger does not have."""
        before = time.time() - fresh_s
        old = [path.name for path, facts in self._files() if facts.st_mtime < before]
        count = 0
        for first in range(0, len(old), _BATCH):
            for digest in await unknown(old[first : first + _BATCH]):
                (self.directory / digest).unlink(missing_ok=True)
                count += 1
        return count

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        return ((path, facts) for path, facts in files_in(self.directory) if _DIGEST.fullmatch(path.name))


def chunks(content: bytes) -> Iterator[bytes]:
    """The content in pieces of at most CHUNK_BYTES; one empty piece of an empty file."""
    for start in range(0, max(len(content), 1), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]
