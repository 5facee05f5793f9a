"""A ledger with a competition in it, and its pages on a port."""

import html
import json
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from grader.artifacts import SubmissionFiles
from grader.config import Settings
from grader.ledger import Ledger
from grader.model import Score, SourceFile
from grader.problems.store import Problems
from grader.server import interceptors
from grader.server.auth import Authenticator
from grader.server.service import GraderServicer, OwnedArtifacts
from grader.server.submission_watch import SubmissionWatch
from grader.server.web_port import application, web_serving
from grader_extensions.competitions.boards import BoardCalls
from grader_extensions.competitions.competition_file import problem_for
from grader_extensions.competitions.server_part import calls_of
from grader_extensions.competitions.store import Competitions
from grader_extensions.web import pages
from grader_extensions.web.report.report_file import environment
from grader_extensions.web.sessions import Sessions
from grader_extensions.web.site import Site as WebSite
from grader_extensions.web.tests.signed_in import reader
from sandbox.protocol import wire
from tests import fakes
from tests.clock import Clock

START = datetime(2026, 5, 1, tzinfo=UTC)
FREEZE, END = START + timedelta(hours=47), START + timedelta(hours=48)
# Of every competition here: what else it has goes before and after this.
TIMES = """
start = 2026-05-01T00:00:00Z
end = 2026-05-03T00:00:00Z
freeze = 2026-05-02T23:00:00Z
secret_seed = "00112233445566778899aabbccddeeff"
"""


@dataclass(kw_only=True)
class PageSite:
    """gate: None where no keys are asked for."""

    ledger: Ledger
    problems: Problems
    competitions: Competitions
    clock: Clock
    service: GraderServicer  # that the pages ask
    gate: Authenticator | None
    address: str = ""

    def url(self, path=""):
        """The address of a path."""
        return f"http://{self.address}{path}"

    def servicer(self, viewer):
        """Return the API's service on this ledger, called by this viewer."""
        interceptors.enter_call(viewer)
        service = GraderServicer(self.ledger, self.problems, worker=None, policy=self.competitions)
        service.add(calls_of(BoardCalls(self.ledger, self.competitions)))
        return service

    def web_site(self, **fields):
        """Return what all pages share, with these fields of it; else that of an open server."""
        fields = {"service": self.service, "open_server": True, "templates": environment()} | fields
        return WebSite(competitions=self.competitions, **fields)


@asynccontextmanager
async def page_site(kind, place, competition, *, open_server=False, web="127.0.0.1:0", **options):
    """A site of a kind, its files below place, where problems lie in `problems`; the clock stands at START. competition: a
    competition.toml; options: of the API's service, of what all pages share, and of the pages' routes."""
    (place / "competition.toml").write_text(competition)
    problems = Problems.load((place / "problems",), place / "imported")
    competitions = Competitions.load((place / "competition.toml",), problems)
    clock = Clock(START)
    async with Ledger.open(Settings(state_dir=place / "state").ledger_path, now=clock) as ledger:
        service = GraderServicer(ledger, problems, worker=None, policy=competitions, watch=SubmissionWatch(ledger, competitions))
        service.artifacts = OwnedArtifacts(ledger, SubmissionFiles(place / "files", 1 << 20), None)
        for name in {"artifacts", "watch", "take", "device_kinds"} & options.keys():
            setattr(service, name, options.pop(name))
        here = kind(
            ledger=ledger,
            problems=problems,
            competitions=competitions,
            clock=clock,
            service=service,
            gate=None if open_server else Authenticator(ledger.keys),
        )
        fields = {name: options.pop(name) for name in WebSite.__dataclass_fields__.keys() & options.keys()}
        sessions = None if here.gate is None else Sessions(here.gate, ledger.now)
        competitions.recent.seconds = 0
        shared = here.web_site(**{"open_server": open_server, "sessions": sessions, **fields})
        routes = pages.routes(shared, **options)
        async with web_serving(web, application(scrape=_scrape, unready=_unready, routes=routes)) as here.address:
            yield here


async def _scrape():
    return b""


async def _unready():
    return ()


COMPETITION = """
name = "spring"
title = {title}
problems = ["sum", "other"]
devices = ["emulated", "cuda"]
visibility = "{visibility}"
{times}
[[secret]]
problem = "sum"
axes = {{ n = 70368 }}
"""


class Site(PageSite):
    """The ledger and pages that tests put submissions in and look at."""

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
        draft = fakes.new_submission(problem_id=problem_id, user=user, competition_id=competition_id, **(labels or {}))
        draft = replace(draft, mode=wire.Mode.RANKED, sources=sources)
        submission = await self.ledger.submit(draft, problem)
        environment = replace(
            fakes.ENVIRONMENT, device=device, device_kind="cuda", clock=wire.Clock.DEVICE_EVENTS if official else wire.Clock.HOST
        )
        interval = Score(value=score, low=score * (1 - half), high=score * (1 + half))
        lease = await self.ledger.lease("w", ttl_s=30)
        report = replace(fakes.report(), environment=environment, score=interval, measurements=(timed(),), flags=())
        await self.ledger.settle(lease, replace(report, **changes))
        self.clock.now = before
        return submission.submission_id


def timed(workload_id="n64"):
    """A measurement with samples worth drawing: the subject twice as fast as eager, and one outlier."""
    draw = random.Random(7)
    subject = tuple(int(draw.gauss(100_000, 2_000)) for _ in range(120))
    eager = tuple(int(draw.gauss(200_000, 4_000)) for _ in range(120))
    compiled = tuple(int(draw.gauss(150_000, 9_000)) for _ in range(60))
    measurement = fakes.measurement(workload_id)
    baselines = {"eager": wire.Samples(durations_ns=eager), "compile": wire.Samples(durations_ns=compiled)}
    return replace(measurement, certified=wire.Samples(durations_ns=subject), baselines=baselines)


@asynccontextmanager
async def site(place, *, title='"Spring sprint"', visibility="after_end", problem_title="A sum", style="", **options):
    """A site whose clock stands at the competition's start; ledger, files and all below place. style: keys of the competition."""
    for name in ("sum", "other"):
        fakes.write_problem(place / "problems", name, fakes.PROBLEM_TOML.format(name=name).replace('"A sum"', json.dumps(problem_title)))
    competition = COMPETITION.format(title=title, visibility=visibility, times=f"{TIMES}{style}")
    async with page_site(Site, place, competition, **options) as opened_site:
        yield opened_site


@asynccontextmanager
async def read_site(place, *, unescaped=False, **options):
    """The site, with `get` of its pages without a session: the answer, also where it is a redirect, and its text."""
    async with site(place, **options) as opened_site, reader(opened_site.url()) as stranger:

        async def get(path, **headers):
            answer, text = await stranger.get(path, **headers)
            return answer, html.unescape(text) if unescaped else text

        opened_site.get, opened_site.session = get, stranger.session
        yield opened_site


@asynccontextmanager
async def signed_site(tmp_path, **options):
    """A site, and a browser of it."""
    async with site(tmp_path, **options) as here, reader(here.url()) as browser:
        yield here, browser
