"""The two named pipes through which a run box waits for its job, for the boxes and for the server."""

from __future__ import annotations

WAIT = "--wait"  # the runner's option: in which directory they are
READY = "ready"  # the runner writes to it once it has imported everything
GO = "go"  # it reads from it, asleep, until there is a job
