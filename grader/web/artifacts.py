"""Hands out the files of submissions.  What is in them came from a kernel's process, so a browser must save it and never show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from aiohttp import web

from grader.errors import ArtifactNotFound
from grader.model import Caller, SubmissionArtifact
from grader.views import formatting

# Over the headers of pages: no type that a browser renders, and if one did, in no origin and without scripts.
HEADERS = {"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'", "Cache-Control": "private, no-store"}


class ArtifactSource(Protocol):
    """The files of submissions, for callers who own them; else SubmissionNotFound."""

    async def of(self, caller: Caller, submission_id: str) -> list[SubmissionArtifact]:
        """The files, by name."""

    def holds(self, artifact: SubmissionArtifact) -> bool:
        """Whether its bytes are here."""

    async def read(self, caller: Caller, submission_id: str, name: str) -> bytes:
        """A file's bytes; ArtifactNotFound where there are none."""


class NoArtifacts:
    """A server that keeps none."""

    async def of(self, caller: Caller, submission_id: str) -> list[SubmissionArtifact]:
        """None."""
        return []

    def holds(self, artifact: SubmissionArtifact) -> bool:
        """It does not."""
        return False

    async def read(self, caller: Caller, submission_id: str, name: str) -> bytes:
        """There is none."""
        raise ArtifactNotFound(submission_id, name)


def rows(found: Sequence[SubmissionArtifact], source: ArtifactSource) -> list[dict[str, Any]]:
    """What a page lists."""
    return [
        {"name": one.name, "tool": one.tool, "size": formatting.byte_count(one.size_bytes), "available": source.holds(one)} for one in found
    ]


def attachment(name: str, content: bytes) -> web.Response:
    """A file to save. name: a plain file name, as the ledger has it."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(body=content, content_type="application/octet-stream", headers=headers)
