"""A lease as a worker of another host gets it, and back.  Pure."""

from __future__ import annotations

from dataclasses import replace

from pydantic import TypeAdapter, ValidationError

from grader.model import Lease, Submission, SubmissionState

LEASE_LIMIT_BYTES = 48 * 1024 * 1024  # below what a message may have; sources are at most 1 MiB, a problem may carry weights and modules
_LEASE = TypeAdapter(Lease)


def lease_to_bytes(lease: Lease) -> bytes:
    """JSON of what grading needs; nothing of earlier attempts, of judgements, or of the server's worker."""
    submission = lease.submission
    bare = Submission(
        submission_id=submission.submission_id,
        new=submission.new,
        problem_digest=submission.problem_digest,
        state=SubmissionState.RUNNING,
        create_time=submission.create_time,
        attempt_count=submission.attempt_count,
    )
    return _LEASE.dump_json(replace(lease, submission=bare, worker_id=""))


def lease_from_bytes(content: bytes) -> Lease:
    """The reverse; ValueError where it is no lease."""
    try:
        return _LEASE.validate_json(content)
    except ValidationError as error:  # it quotes sources and hidden sizes
        raise ValueError(f"not a lease: {error.error_count()} errors, the first in {error.errors()[0]['loc']}") from None
