"""The redactor of each submission, by the problem that it was made to."""

from __future__ import annotations

from grader.ledger import Ledger
from grader.model import Submission
from grader.rules.disclosure import Redactor


class Redactors:
    """Reads each problem once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, Redactor] = {}

    async def of(self, digest: str) -> Redactor:
        """Of the problem as it was when the submission was made."""
        if digest not in self._known:
            self._known[digest] = Redactor.for_problem(await self._ledger.problem(digest))
        return self._known[digest]

    async def of_events(self, submission: Submission) -> Redactor:
        """Events stay those of the problem that it was first judged by, whatever it was judged by again."""
        redactor = await self.of(submission.problem_digest)
        for judgement in await self._ledger.judgements(submission.submission_id) if submission.judgement_count > 1 else ():
            redactor = redactor.merged_with(await self.of(judgement.problem_digest))
        return redactor
