"""A site filled as in the middle of a competition: two problems of kernels_examples, a board, and one user's submissions of every kind.

Users, times and scores are made up; everything else is the product's own.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from grader.errors import FieldViolation, InvalidSubmission
from grader.model import Caller, Lease, NewSubmission, Report, Scope, SourceFile, Submission
from grader.v1 import grader_service_pb2 as api
from grader_extensions.competitions.competition_file import problem_for
from grader_extensions.competitions.tests.ledger_actions import LedgerActions
from grader_extensions.web.site import ApiAddress
from grader_extensions.web.tests.site import START, TIMES, PageSite, page_site
from sandbox.protocol import wire
from tests.server import made_up_reports as reports

EXAMPLES = Path(__file__).parents[3] / "kernels_examples"
OWNER, PROBLEM, OTHER_PROBLEM, COMPETITION = "team-003", "row_softmax", "vector_add", "spring"
COMPETITION_TOML = f"""
name = "spring"
title = "Spring sprint"
statement = "Two kernels, two days. Your best accepted submission to each problem counts."
problems = ["row_softmax", "vector_add"]
devices = ["cuda"]
hourly_limit = 10
visibility = "after_end"
color = "#14532d"
{TIMES}
[[secret]]
problem = "row_softmax"
axes = {{ rows = 64, cols = 1001 }}
"""
LONG_NAME = "cyd-with-a-name-as-long-as-names-may-be-here"
SHORT_SOURCE = 'extern "C" void solve(const float* x, float* y, long rows, long cols, void* stream) {}\n'


async def refuse(request: api.SubmitRequest) -> Submission:
    """Take no submission: every form comes back with what is wrong."""
    raise InvalidSubmission([FieldViolation("problem", "is empty; choose one"), FieldViolation("sources", "has no file")])


@dataclass(kw_only=True)
class FilledSite(PageSite):
    """key: of OWNER. paths: of every kind of page, by name."""

    key: str = ""
    paths: dict[str, str] = field(default_factory=dict)

    async def enter(
        self, user: str, report: Report, *, source: str = SHORT_SOURCE, problem_id: str = PROBLEM, competition_id: str = COMPETITION
    ) -> str:
        """A submission that has this report; its id."""
        await self.submit(user, source=source, problem_id=problem_id, competition_id=competition_id)
        lease = await self.lease()
        await self.ledger.settle(lease, report)
        return lease.submission.submission_id

    async def lease(self) -> Lease:
        """The submission that has waited longest."""
        lease = await self.ledger.lease("w", ttl_s=3000)
        assert lease is not None
        return lease

    async def submit(self, user: str, *, source: str = SHORT_SOURCE, problem_id: str = PROBLEM, competition_id: str = COMPETITION) -> str:
        """A ranked submission that waits; its id."""
        problem = self.problems.get(problem_id)
        if competition_id:
            problem = problem_for(self.competitions.get(competition_id), problem)
        sources = (SourceFile(path="softmax.cu", content=source),)
        draft = NewSubmission(
            problem_id=problem_id, language="cuda", sources=sources, user=user, competition_id=competition_id, mode=wire.Mode.RANKED
        )
        return (await self.ledger.submit(draft, problem)).submission_id


@asynccontextmanager
async def filled_site(
    place: Path, *, entry_count: int = 6, flags: Sequence[str] = ("THROTTLED",), **options: Any
) -> AsyncIterator[FilledSite]:
    """Serve the site at a port of this host, its files below place. entry_count: of the board; flags: of some entries; options: routes'."""
    for name in (PROBLEM, OTHER_PROBLEM):
        shutil.copytree(EXAMPLES / name, place / "problems" / name)
    usual: dict[str, Any] = {
        "api_address": ApiAddress(listen="0.0.0.0:50551"),
        "take": refuse,
        "device_kinds": lambda: ("cuda", "emulated"),
        **options,
    }
    async with page_site(FilledSite, place, COMPETITION_TOML, **usual) as here:
        await fill(here, entry_count, flags)
        yield here


async def fill(here: FilledSite, entry_count: int, flags: Sequence[str]) -> None:
    """Enter users, and submissions of OWNER that are accepted, withdrawn, wrong, profiled, and being graded."""
    source, wrong_source = ((EXAMPLES / PROBLEM / name).read_text() for name in ("block_tree.cu", "half_a_warp.cu"))
    draw, score = random.Random(5), 3.1
    for number in range(1, entry_count + 1):
        score *= draw.uniform(0.93, 0.999)
        here.clock.now = START + timedelta(minutes=7 * number)
        user = LONG_NAME if number == 1 else f"team-{number:03}"
        await here.enter(user, reports.accepted(score, flags=flags if number % 7 == 5 else ()), source=source)
    here.clock.now = START + timedelta(hours=14)
    finished = await here.enter(OWNER, reports.accepted(3.3), source=source)
    older = await here.enter(OWNER, reports.accepted(2.2), source=wrong_source)
    wide_log = replace(reports.BUILD, log="ptxas info    : " + "x" * 3000)
    wrong = await here.enter(OWNER, replace(reports.mismatched(), build=wide_log), source=f"{SHORT_SOURCE}// {'x' * 300}\n")
    actions, spring = LedgerActions(here.ledger), here.competitions.get(COMPETITION)
    await actions.withdraw(older, spring, Caller(user=OWNER), "half of a warp reads what the other half has not written")
    profiled = await here.enter(OWNER, reports.profiled(), competition_id="")
    await here.enter("team-001", reports.accepted(1.4), problem_id=OTHER_PROBLEM)
    running = await here.submit(OWNER)
    await here.ledger.append(await here.lease(), [reports.ENVIRONMENT, wire.Progress(stage=wire.Stage.BUILDING)])
    here.key = (await here.ledger.keys.create(OWNER, frozenset((Scope.SUBMIT, Scope.READ))))[1]
    here.paths = {
        "home": "/",
        "competitions": "/competitions",
        "overall": f"/competitions/{COMPETITION}",
        "board": f"/competitions/{COMPETITION}?problem={PROBLEM}",
        "user": f"/users/{OWNER}",
        "search": "/search?q=s",
        "problems": "/problems",
        "problem": f"/problems/{PROBLEM}",
        "sign in": "/sign-in",
        "not found": "/nothing",
        "refused": "/compare?a=1",
        "account": "/account",
        "own submissions": "/submissions",
        "submit": f"/submit?problem={PROBLEM}&competition={COMPETITION}",
        "report": f"/submissions/{finished}",
        "withdrawn": f"/submissions/{older}",
        "report of a wrong answer": f"/submissions/{wrong}",
        "profile": f"/submissions/{profiled}",
        "sources": f"/submissions/{finished}/sources",
        "wide sources": f"/submissions/{wrong}/sources",
        "running": f"/submissions/{running}",
        "compare": f"/compare?a={older}&b={finished}",
    }
