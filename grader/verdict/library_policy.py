"""What a problem's rule on libraries makes of the evidence.  Pure."""

from __future__ import annotations

from grader.model import Decision, Reason, Verdict
from sandbox.protocol import wire

NAMED = 4  # in the sentence for people


def used(evidence: wire.Evidence | None) -> tuple[str, ...]:
    """Everything that was found, each once."""
    return () if evidence is None else tuple(dict.fromkeys((*evidence.imported, *evidence.seen)))


def forbidden(evidence: wire.Evidence | None) -> Decision | None:
    """The decision where the problem forbids what was found; None where it does not."""
    found = used(evidence)
    if evidence is None or evidence.policy is not wire.Libraries.FORBIDDEN or not found:
        return None
    where = "the built kernel calls" if evidence.imported else "it was seen to call"
    named = ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more" if len(found) > NAMED else "")
    return (
        Verdict.DISQUALIFIED,
        Reason.POLICY,
        f"The problem forbids libraries, and {where} {named}; write that part as your own kernel.",
    )
