"""What is shown to whoever opens a page: nobody is asked for a key there, so it is what everybody may see."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from grader.config import loopback
from grader.model import Competition, Phase, Visibility


def shows_submission(competition: Competition | None, now: datetime, *, open_server: bool) -> bool:
    """Whether report and sources are shown of a submission to this competition, or to none.

    Only where the competition opens them to all and has ended; or on an open server, which asks nobody for keys and can be reached from
    its own host only: whoever gets there may ask the API for everything.
    """
    if open_server:
        return True
    return competition is not None and competition.visibility is Visibility.AFTER_END and competition.phase(now) is Phase.ENDED


def asked_from_here(host: str, header_names: Iterable[str]) -> bool:
    """Whether a request names this host and came through no proxy. Else a page of a strange name that leads here (DNS rebinding) could
    read everything, and so could everybody where a proxy makes an open server's port public."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    forwarded = any(one.lower() in ("forwarded", "via") or one.lower().startswith("x-forwarded-") for one in header_names)
    return bool(name) and not forwarded and loopback(f"{name}:0")
