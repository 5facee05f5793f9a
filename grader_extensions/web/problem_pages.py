"""Pages of problems: the list, each problem, and its starter files."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from statistics import median
from typing import Any

from aiohttp import web

from grader import access
from grader.api import messages
from grader.errors import SubmissionNotFound
from grader.model import Caller, Problem, Submission, SubmissionState
from grader.v1 import problem_pb2, submission_pb2
from grader.views import formatting
from grader_extensions.authoring.starter_files import starter, with_roles
from grader_extensions.competitions.model import Competition, Phase
from grader_extensions.web.site import UNKNOWN_ADDRESS, PageAbsent, Site, attachment, page_number
from grader_extensions.web.views import PagePosition, competition_head
from sandbox.protocol import wire
from sandbox.protocol.signatures import CUDA, PYTHON, TORCH_EXTENSION, cuda_signature

LISTED, REPORTS = 20, 4  # the newest submissions that are looked at for baseline times; a report is some 200 kB
_ENDINGS = {CUDA: ".cu", TORCH_EXTENSION: "_torch.cu", PYTHON: ".py"}
TIMED = frozenset((wire.Mode.BENCHMARK, wire.Mode.RANKED))


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterFile:
    """A file by its name. language: as `submit --language` takes it."""

    language: str
    name: str
    content: str


def starter_files(problem: Problem) -> list[StarterFile]:
    """A file for each of the problem's languages, in its order, but for those whose arguments are not known and those of other packages."""
    files = []
    for language in problem.languages:
        content = starter(problem.spec, language, cuda=cuda_signature(problem.spec), title=problem.title)
        if content:
            files.append(StarterFile(language=language, name=f"{problem.problem_id}{_ENDINGS[language]}", content=content))
    return files


class ProblemPages:
    """Answers GET requests."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def problems(self, request: web.Request) -> web.Response:
        """The list of problems."""
        all_problems = await asyncio.to_thread(
            lambda: [messages.problem_to_proto(stored_problem) for stored_problem in self._site.problems.all()]
        )
        return await self._site.page(request, "problems.html", problems(all_problems, page=page_number(request)))

    async def problem(self, request: web.Request) -> web.Response:
        """The page of a problem."""
        site, stored_problem = self._site, self._site.problems.get(request.match_info["id"])
        caller = site.viewer(request)
        rows = await site.competitions.recent.get(
            ("baselines", stored_problem.digest, caller.admin, site.readable()), lambda: self._baselines(caller, stored_problem)
        )
        shown = problem(
            messages.problem_to_proto(stored_problem),
            starter_files(stored_problem),
            site.competitions.all(),
            site.now(),
            baselines=rows,
            server=site.api_address.seen_by(request),
            login=site.api_address.login(request) if site.sessions is not None else "",
        )
        return await site.page(request, "problem.html", shown)

    async def starter(self, request: web.Request) -> web.Response:
        """A starter file, to save."""
        stored_problem = self._site.problems.get(request.match_info["id"])
        for starter_file in starter_files(stored_problem):
            if starter_file.name == request.match_info["name"]:
                return attachment(starter_file.name, starter_file.content.encode())
        raise PageAbsent

    async def _baselines(self, caller: Caller, problem: Problem) -> list[dict[str, Any]]:
        """PyTorch's times, by the newest submissions that this caller may see."""
        ledger, readable, timed = self._site.ledger, self._site.readable(), list[Submission]()
        of_problem = [entry.competition_id for entry in self._site.competitions.all() if problem.problem_id in entry.problem_ids]
        for competition_id in [""] if caller.admin else [name for name in of_problem if name in readable]:
            visible = access.submission_filter(caller, "", competition_id, readable)
            listed, _ = await ledger.page(
                size=LISTED, problem_id=problem.problem_id, states=(SubmissionState.SUCCEEDED,), submission_filter=visible
            )
            timed += [submission for submission in listed if submission.new.mode in TIMED]
        newest = nlargest(REPORTS, timed, key=lambda submission: submission.create_time)
        shown = []
        for submission in await ledger.heads([submission.submission_id for submission in newest], reports=True):
            was = await ledger.problem(submission.problem_digest)
            with suppress(SubmissionNotFound):
                access.check_seen(caller, submission, readable)
                if _same_sizes(was, problem):
                    shown.append(await self._site.message(submission))
        return baseline_rows(messages.problem_to_proto(problem), reversed(shown))


def _same_sizes(was: Problem, now: Problem) -> bool:
    """Return whether PyTorch did the same then, at the sizes that are shown now."""
    before = {workload.workload_id: workload.axes for workload in was.spec.workloads if not workload.hidden}
    shown = [workload for workload in now.spec.workloads if not workload.hidden]
    return was.spec.reference == now.spec.reference and all(before.get(workload.workload_id) == workload.axes for workload in shown)


# From here on pure: problems come as the API shows them, without hidden workloads.


def problems(found_problems: Sequence[problem_pb2.Problem], *, page: int = 1) -> dict[str, Any]:
    """The list of problems, by name."""
    place = PagePosition(page, len(found_problems))
    return {"problems": [problem_row(message) for message in found_problems[place.shown]], "place": place}


def problem_row(message: problem_pb2.Problem) -> dict[str, Any]:
    """A problem in a list."""
    problem_id = message.name.rpartition("/")[2]
    return {
        "id": problem_id,
        "title": message.title or problem_id,
        "format": message.format,
        "languages": ", ".join(message.languages),
        "public_count": len(message.workloads),
        "hidden_count": message.hidden_workload_count,
    }


def problem(
    message: problem_pb2.Problem,
    starters: Sequence[StarterFile],
    competitions: Iterable[Competition],
    now: datetime,
    *,
    baselines: Sequence[Mapping[str, Any]] = (),
    server: str = UNKNOWN_ADDRESS,
    login: str = "",
) -> dict[str, Any]:
    """All that an author needs to start. server: the API's address. login: the command, where keys are required."""
    row = problem_row(message)
    used = [competition for competition in competitions if row["id"] in competition.problem_ids]
    running = [competition for competition in used if competition.phase(now) in (Phase.OPEN, Phase.FROZEN)]
    submit = f"grader-cli submit {starters[0].name if starters else 'FILE'} --problem {row['id']}"
    budget = (
        f"; over all, at most {message.tolerance.budget_factor:g} times PyTorch's own error against float64"
        if message.tolerance.HasField("budget_factor")
        else ""
    )
    return row | {
        "statement": message.statement.strip(),
        "entry": message.entry,
        "signature": message.cuda_signature,
        "tensors": [_tensor(role, tensor) for role, tensor in with_roles(message)],
        "tolerance": f"{message.tolerance.atol:g} + {message.tolerance.rtol:g} * |reference| for each element, integers exactly{budget}",
        "axes": list(message.axes),
        "workloads": [
            {
                "id": workload.workload_id,
                "sizes": [f"{workload.axes[axis]:,}" for axis in message.axes],
                "device": workload.device_kind or "any",
                "tolerance": f"{workload.tolerance.atol:g} + {workload.tolerance.rtol:g} * |reference|"
                if workload.HasField("tolerance")
                else "as above",
            }
            for workload in message.workloads
        ],
        "by_device": any(workload.device_kind for workload in message.workloads),
        "own_tolerances": any(workload.HasField("tolerance") for workload in message.workloads),
        "baselines": list(baselines),
        "baseline_names": formatting.baselines(name for row in baselines for name in row["times"]),
        "starters": [{"language": starter.language, "name": starter.name, "content": starter.content} for starter in starters],
        "competitions": [competition_head(competition, now) for competition in used],
        "login": login,
        "server_known": server != UNKNOWN_ADDRESS,
        "submit": f"{submit} --server {server}",
        "submit_to": [
            competition_head(competition, now) | {"command": f"{submit} --competition {competition.competition_id} --server {server}"}
            for competition in running
        ],
    }


def baseline_rows(message: problem_pb2.Problem, submissions: Iterable[submission_pb2.Submission]) -> list[dict[str, Any]]:
    """PyTorch's times at the public sizes, of the newest of these submissions on each device that has them. submissions: newest first,
    with reports as the API shows them."""
    by_device: dict[str, list[dict[str, Any]]] = {}
    for submission in submissions:
        report = submission.report
        device = report.environment.device or report.environment.device_kind
        if device in by_device:
            continue
        times: dict[str, defaultdict[str, list[int]]] = {workload.workload_id: defaultdict(list) for workload in message.workloads}
        for measurement in report.measurements:
            if not measurement.hidden and measurement.workload_id in times:
                for name, samples in measurement.baselines.items():
                    times[measurement.workload_id][name].append(samples.median_duration.ToNanoseconds())
        rows = [
            {"device": device, "workload_id": workload_id, "times": {name: formatting.time(median(ns)) for name, ns in by_name.items()}}
            for workload_id, by_name in times.items()
            if by_name
        ]
        if rows:
            by_device[device] = rows
    return [row for _, rows in sorted(by_device.items()) for row in rows]


def _tensor(role: str, tensor: problem_pb2.Tensor) -> dict[str, str]:
    return {"role": role, "name": tensor.name, "dtype": tensor.dtype, "shape": ", ".join(tensor.shape) if tensor.shape else "by value"}
