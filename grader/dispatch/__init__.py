"""Takes submissions from the queue, gives each a lane with a judge, and writes down the facts. It decides no verdict."""

from __future__ import annotations

from typing import Protocol


class Worker(Protocol):
    """Grades submissions, and has to know when there is something to do."""

    def wake(self) -> None:
        """A submission or a run was queued."""

    def check(self, submission_id: str) -> None:
        """A running submission may have to be cancelled."""
