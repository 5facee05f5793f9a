"""Pages of problems: the list, each problem, and its starter files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from aiohttp import web

from grader import access
from grader.api import messages
from grader.errors import SubmissionNotFound
from grader.model import Caller, Competition, Phase, Problem, Submission, SubmissionState
from grader.rules.disclosure import Redactor
from grader.v1 import problem_pb2, submission_pb2
from grader.views import formatting
from grader.views.starter_files import StarterFile, starter_files
from grader.web.site import UNKNOWN_ADDRESS, PageAbsent, Site, attachment, page_number
from grader.web.views import PAGE_SIZE, PagePosition, competition_head
from sandbox.protocol import wire

LISTED, REPORTS = 20, 4  # the newest submissions that are looked at for baseline times; a report is some 200 kB
TIMED = frozenset((wire.Mode.BENCHMARK, wire.Mode.RANKED))


class ProblemPages:
    """Answers GET requests."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def problems(self, request: web.Request) -> web.Response:
        """The list."""
        found = await asyncio.to_thread(lambda: [messages.problem_to_proto(one) for one in self._site.problems.all()])
        return await self._site.page(request, "problems.html", problems(found, page=page_number(request)))

    async def problem(self, request: web.Request) -> web.Response:
        """One."""
        site, found = self._site, self._site.problems.get(request.match_info["id"])
        caller = site.viewer(request)
        rows = await site.recent(("baselines", found.digest, *self._sight(caller)), lambda: self._baselines(caller, found))
        shown = problem(
            messages.problem_to_proto(found),
            starter_files(found),
            site.competitions.all(),
            site.now(),
            baselines=rows,
            server=site.server_address(request),
            asks_keys=site.asks_keys,
        )
        return await site.page(request, "problem.html", shown)

    async def starter(self, request: web.Request) -> web.Response:
        """A starter file, to save."""
        found = self._site.problems.get(request.match_info["id"])
        for one in starter_files(found):
            if one.name == request.match_info["name"]:
                return attachment(one.name, one.content.encode())
        raise PageAbsent

    def _sight(self, caller: Caller) -> tuple[object, ...]:
        """What decides which submissions this caller sees."""
        return caller.admin, access.opened(self._site.competitions.all(), self._site.now())

    async def _baselines(self, caller: Caller, problem: Problem) -> list[dict[str, Any]]:
        """PyTorch's times, by the newest submissions that this caller may see."""
        ledger, competitions, now = self._site.ledger, self._site.competitions.all(), self._site.now()
        if caller.admin:
            lists = [access.which(caller, "", "", competitions, now)]
        else:
            opened = [one.competition_id for one in competitions if problem.problem_id in one.problem_ids]
            lists = [
                access.which(caller, "", one, competitions, now)
                for one in opened
                if access.sees_competition(caller, one, competitions, now)
            ]
        found: list[Submission] = []
        for which in lists:
            listed, _ = await ledger.page(
                size=LISTED, problem_id=problem.problem_id, states=(SubmissionState.SUCCEEDED,), submission_filter=which
            )
            found += listed
        newest = sorted((one for one in found if one.new.mode in TIMED), key=lambda one: one.create_time, reverse=True)[:REPORTS]
        shown = []
        for one in await ledger.with_reports([one.submission_id for one in newest]):
            was = await ledger.problem(one.problem_digest)
            if self._may_see(caller, one) and _same_sizes(was, problem):
                shown.append(messages.submission_to_proto(one, Redactor.of(was)))
        return baseline_rows(messages.problem_to_proto(problem), reversed(shown))

    def _may_see(self, caller: Caller, submission: Submission) -> bool:
        try:
            access.check_seen(caller, submission, self._site.competitions.all(), self._site.now())
        except SubmissionNotFound:
            return False
        return True


def _same_sizes(was: Problem, now: Problem) -> bool:
    """Whether PyTorch did the same then, at the sizes that are shown now."""
    before = {one.workload_id: one.axes for one in was.spec.workloads if not one.hidden}
    shown = [one for one in now.spec.workloads if not one.hidden]
    return was.spec.reference == now.spec.reference and all(before.get(one.workload_id) == one.axes for one in shown)


# From here on pure: problems come as the API shows them, without hidden workloads.


def problems(found: Sequence[problem_pb2.Problem], *, page: int = 1) -> dict[str, Any]:
    """The list of problems, by name."""
    place = PagePosition(page, len(found))
    return {"problems": [problem_row(one) for one in found[place.first : place.first + PAGE_SIZE]], "place": place}


def problem_row(one: problem_pb2.Problem) -> dict[str, Any]:
    """A problem in a list."""
    problem_id = one.name.rpartition("/")[2]
    return {
        "id": problem_id,
        "title": one.title or problem_id,
        "format": one.format,
        "languages": ", ".join(one.languages),
        "public_count": len(one.workloads),
        "hidden_count": one.hidden_workload_count,
    }


def problem(
    one: problem_pb2.Problem,
    starters: Sequence[StarterFile],
    competitions: Iterable[Competition],
    now: datetime,
    *,
    baselines: Sequence[Mapping[str, Any]] = (),
    server: str = UNKNOWN_ADDRESS,
    asks_keys: bool = False,
) -> dict[str, Any]:
    """All that an author needs to start. server: the API's address."""
    row = problem_row(one)
    used = [one for one in competitions if row["id"] in one.problem_ids]
    running = [one for one in used if one.phase(now) in (Phase.OPEN, Phase.FROZEN)]
    submit = f"grader-cli submit {starters[0].name if starters else 'FILE'} --problem {row['id']}"
    return row | {
        "statement": one.statement.strip(),
        "entry": one.entry,
        "signature": one.cuda_signature,
        "tensors": [_tensor("input", tensor) for tensor in one.inputs] + [_tensor("output", tensor) for tensor in one.outputs],
        "tolerance": _tolerance(one.tolerance),
        "axes": list(one.axes),
        "workloads": [_workload(workload, one.axes) for workload in one.workloads],
        "by_device": any(workload.device_kind for workload in one.workloads),
        "own_tolerances": any(workload.HasField("tolerance") for workload in one.workloads),
        "baselines": list(baselines),
        "baseline_names": formatting.baselines(name for row in baselines for name in row["times"]),
        "starters": [{"language": one.language, "name": one.name, "content": one.content} for one in starters],
        "competitions": [competition_head(one, now) for one in used],
        "login": f"grader-cli login --server {server}" if asks_keys else "",
        "server_known": server != UNKNOWN_ADDRESS,
        "submit": f"{submit} --server {server}",
        "submit_to": [
            competition_head(one, now) | {"command": f"{submit} --competition {one.competition_id} --server {server}"} for one in running
        ],
    }


def baseline_rows(one: problem_pb2.Problem, found: Iterable[submission_pb2.Submission]) -> list[dict[str, Any]]:
    """PyTorch's times at the public sizes, of the newest of these submissions on each device that has them. found: newest first, with
    reports as the API shows them."""
    public = {workload.workload_id: dict(workload.axes) for workload in one.workloads}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    seen: set[str] = set()
    for submission in found:
        report = submission.report
        device = report.environment.device or report.environment.device_kind
        if device in seen:
            continue
        times: dict[str, dict[str, list[int]]] = {}
        for measured in report.measurements:
            if measured.hidden or measured.workload_id not in public:
                continue
            for name, samples in measured.baselines.items():
                times.setdefault(measured.workload_id, {}).setdefault(name, []).append(formatting.duration_ns(samples.median_duration))
        if times:
            seen.add(device)
        for workload_id in public:
            if workload_id in times:
                of = {name: formatting.time(median(known)) for name, known in times[workload_id].items()}
                rows[device, workload_id] = {"device": device, "workload_id": workload_id, "times": of}
    return [rows[key] for key in sorted(rows, key=lambda key: (key[0], list(public).index(key[1])))]


def _tensor(role: str, one: problem_pb2.Tensor) -> dict[str, str]:
    return {"role": role, "name": one.name, "dtype": one.dtype, "shape": ", ".join(one.shape) if one.shape else "by value"}


def _tolerance(of: problem_pb2.Tolerance) -> str:
    budget = f"; over all, at most {of.budget_factor:g} times PyTorch's own error against float64" if of.HasField("budget_factor") else ""
    return f"{of.atol:g} + {of.rtol:g} * |reference| for each element, integers exactly{budget}"


def _workload(one: problem_pb2.Workload, axes: Iterable[str]) -> dict[str, Any]:
    return {
        "id": one.workload_id,
        "sizes": [f"{one.axes[axis]:,}" for axis in axes],
        "device": one.device_kind or "any",
        "tolerance": f"{one.tolerance.atol:g} + {one.tolerance.rtol:g} * |reference|" if one.HasField("tolerance") else "as above",
    }
