"""A ledger with problems and a competition, and its pages on a port of this host; for tools, tests and pictures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from grader.config import Settings
from grader.ledger import Ledger
from grader.problems.competition_store import Competitions
from grader.problems.store import Problems
from grader.server.auth import Authenticator
from grader.server.submission_watch import SubmissionWatch
from grader.web import pages
from grader.web.serving import application, web_serving

START = datetime(2026, 5, 1, tzinfo=UTC)
FREEZE, END = START + timedelta(hours=47), START + timedelta(hours=48)
# Of every competition here: what else it has goes before and after this.
TIMES = """
start = 2026-05-01T00:00:00Z
end = 2026-05-03T00:00:00Z
freeze = 2026-05-02T23:00:00Z
secret_seed = "00112233445566778899aabbccddeeff"
"""


class MovableClock:
    """A time that stands still until it is set."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        """The time."""
        return self.now


@dataclass(kw_only=True)
class PageSite:
    """gate: None where no keys are asked for."""

    ledger: Ledger
    problems: Problems
    competitions: Competitions
    clock: MovableClock
    watch: SubmissionWatch
    gate: Authenticator | None
    address: str = ""

    def url(self, path: str = "") -> str:
        """The address of a path."""
        return f"http://{self.address}{path}"


S = TypeVar("S", bound=PageSite)


@asynccontextmanager
async def page_site(
    kind: type[S], place: Path, competition: str, *, open_server: bool = False, web: str = "127.0.0.1:0", **options: Any
) -> AsyncIterator[S]:
    """A site of a kind, its files below place, where problems lie in `problems`; the clock stands at START. competition: a
    competition.toml; options: of the pages' routes."""
    (place / "competition.toml").write_text(competition)
    problems = Problems.load((place / "problems",), place / "imported")
    competitions = Competitions.load((place / "competition.toml",), problems)
    clock = MovableClock()
    async with Ledger.open(Settings(state_dir=place / "state").ledger_path, now=clock) as ledger:
        here = kind(
            ledger=ledger,
            problems=problems,
            competitions=competitions,
            clock=clock,
            watch=SubmissionWatch(ledger, competitions),
            gate=None if open_server else Authenticator(ledger.keys),
        )
        usual = {"standings_s": 0, "events": here.watch, "gate": here.gate, **options}
        routes = pages.routes(ledger, problems, competitions, open_server=open_server, **usual)
        async with web_serving(web, application(scrape=_scrape, unready=_unready, routes=routes)) as here.address:
            yield here


async def _scrape() -> bytes:
    return b""


async def _unready() -> tuple[str, ...]:
    return ()
