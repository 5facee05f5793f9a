"""A ledger with a competition in it, and its pages on a port."""

import json
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from grader.config import Settings
from grader.ledger import Ledger
from grader.model import Score, SourceFile
from grader.problems.competition_store import Competitions, problem_for
from grader.problems.store import Problems
from grader.server.auth import Authenticator
from grader.server.submission_watch import SubmissionWatch
from grader.web import pages
from grader.web.serving import application, web_serving
from sandbox.protocol import wire
from tests import fakes

START = datetime(2026, 5, 1, tzinfo=UTC)
END = START + timedelta(days=2)
FREEZE = END - timedelta(hours=1)
COMPETITION = """
name = "spring"
title = {title}
problems = ["sum", "other"]
devices = ["emulated", "cuda"]
start = 2026-05-01T00:00:00Z
end = 2026-05-03T00:00:00Z
freeze = 2026-05-02T23:00:00Z
visibility = "{visibility}"
secret_seed = "00112233445566778899aabbccddeeff"

[[secret]]
problem = "sum"
axes = {{ n = 70368 }}
"""


class Clock:
    def __init__(self, now=START):
        self.now = now

    def __call__(self):
        return self.now


class Site:
    """What tests put in and look at."""

    def __init__(self, ledger, problems, competitions, clock):
        self.ledger, self.problems, self.competitions, self.clock, self.address = ledger, problems, competitions, clock, ""

    def url(self, path=""):
        return f"http://{self.address}{path}"

    async def enter(
        self, user, score, *, problem_id="sum", half=0.02, device="H200", official=True, at=None, competition_id="spring",
        sources=None, labels=None, stored=False, **changes,
    ):  # fmt: skip
        """An accepted ranked submission; labels are its tags, parent_id and annotations, changes are of its report. stored: to the problem
        that the site has, and not to a fake of the same name."""
        before, self.clock.now = self.clock.now, at or self.clock.now
        problem = self.problems.get(problem_id) if stored else fakes.problem(problem_id, digest=f"{problem_id:d<64}")
        if competition_id:
            problem = problem_for(self.competitions.get(competition_id), problem)
        sources = sources or (SourceFile(path="kernel.cu", content=fakes.SOURCE),)
        new = fakes.new_submission(problem_id=problem_id, user=user, competition_id=competition_id, **(labels or {}))
        new = replace(new, mode=wire.Mode.RANKED, sources=sources)
        made = await self.ledger.submit(new, problem)
        environment = replace(
            fakes.ENVIRONMENT, device=device, device_kind="cuda", clock=wire.Clock.DEVICE_EVENTS if official else wire.Clock.HOST
        )
        found = Score(value=score, low=score * (1 - half), high=score * (1 + half))
        held = await self.ledger.lease("w", ttl_s=30)
        report = replace(fakes.report(), environment=environment, score=found, measurements=(timed(),), flags=())
        await self.ledger.settle(held, replace(report, **changes))
        self.clock.now = before
        return made.submission_id


def timed(workload_id="n64"):
    """A measurement with samples worth drawing: the subject twice as fast as eager, and one outlier."""
    draw = random.Random(7)
    subject = tuple(int(draw.gauss(100_000, 2_000)) for _ in range(120))
    eager = tuple(int(draw.gauss(200_000, 4_000)) for _ in range(120))
    compiled = tuple(int(draw.gauss(150_000, 9_000)) for _ in range(60))
    made = fakes.measurement(workload_id)
    baselines = {"eager": wire.Samples(durations_ns=eager), "compile": wire.Samples(durations_ns=compiled)}
    return replace(made, certified=wire.Samples(durations_ns=subject), baselines=baselines)


@asynccontextmanager
async def site(
    place, *, title='"Spring sprint"', visibility="after_end", open_server=False, web="127.0.0.1:0", problem_title="A sum", **options
):
    """A site whose clock stands at the competition's start; ledger, files and all below place."""
    for name in ("sum", "other"):
        fakes.write_problem(place / "problems", name, fakes.PROBLEM_TOML.format(name=name).replace('"A sum"', json.dumps(problem_title)))
    (place / "competition.toml").write_text(COMPETITION.format(title=title, visibility=visibility))
    problems = Problems.load((place / "problems",), place / "imported")
    competitions = Competitions.load((place / "competition.toml",), problems)
    clock = Clock()
    async with Ledger.open(Settings(state_dir=place / "state").ledger_path, now=clock) as ledger:
        made = Site(ledger, problems, competitions, clock)
        made.watch = SubmissionWatch(ledger, competitions)
        made.gate = None if open_server else Authenticator(ledger.keys)
        usual = {"standings_s": 0, "events": made.watch, "gate": made.gate, **options}
        routes = pages.routes(ledger, problems, competitions, open_server=open_server, **usual)

        async def scrape():
            return b""

        async def unready():
            return ()

        async with web_serving(web, application(scrape=scrape, unready=unready, routes=routes)) as made.address:
            yield made
