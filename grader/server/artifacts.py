"""The files of submissions, for their owners: listed, and handed out.  The API and the pages ask here."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from grader import access
from grader.artifacts.files import SubmissionFiles
from grader.errors import ArtifactNotFound
from grader.ledger import Ledger
from grader.model import Caller, SubmissionArtifact


class OwnedArtifacts:
    """Answers a submission's owner and administrators. For everybody else there is no such submission, whatever else of it they may see.

    retention: how long after it was made a file is there; None: for ever.
    """

    def __init__(self, ledger: Ledger, files: SubmissionFiles, retention: timedelta | None) -> None:
        self._ledger, self._files, self.retention = ledger, files, retention

    async def of(self, caller: Caller, submission_id: str) -> list[SubmissionArtifact]:
        """The files, by name. Raises SubmissionNotFound."""
        access.check_owned(caller, await self._ledger.get(submission_id))
        oldest = None if self.retention is None else self._ledger.now() - self.retention
        return await self._ledger.artifacts.of(submission_id, made_after=oldest)

    def holds(self, artifact: SubmissionArtifact) -> bool:
        """Whether this server has the bytes."""
        return self._files.holds(artifact.digest)

    async def read(self, caller: Caller, submission_id: str, name: str) -> bytes:
        """A file. Raises SubmissionNotFound, and ArtifactNotFound where there is no such file, or its bytes are not here."""
        found = next((one for one in await self.of(caller, submission_id) if one.name == name), None)
        content = None if found is None else await asyncio.to_thread(self._files.read, found.digest)
        if content is None:
            raise ArtifactNotFound(submission_id, name)
        return content
