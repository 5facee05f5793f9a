"""What the API says of competitions, and what it asks of a submission that is made to one, or that is a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from grader import devices
from grader.api.messages import competition_to_proto
from grader.api.resource_names import COMPETITIONS, PROBLEMS, full_name, parse
from grader.errors import FieldViolation, InvalidSubmission, NoSuchDevice
from grader.intake import submission_check
from grader.ledger import Ledger
from grader.model import Competition, Phase, Problem
from grader.problems.competition_store import Competitions, first_shown, problem_for
from grader.problems.store import Problems
from grader.problems.sweep import SweepRequest, sweep_problem
from grader.rules import quotas
from grader.rules.quotas import Quota, Terms
from grader.rules.sweep import SweepInvalid
from grader.server import paging
from grader.v1 import competition_pb2, problem_pb2, submission_pb2
from grader.v1 import grader_service_pb2 as api
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind

LISTED_ANNOUNCEMENTS = 3  # of each competition in a list


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionAdmission:
    """Competitions, and what every user may hand in, to one or to none."""

    problems: Problems
    competitions: Competitions
    quotas: Sequence[Quota] = ()

    def check(self, request: api.SubmitRequest, device_kinds: Sequence[str]) -> tuple[submission_check.Accepted, Terms]:
        """What the request asks for, and on what terms it may be kept. Whether it comes in time is asked when it is kept."""
        if not request.submission.competition:
            accepted = _swept(submission_check.check(request, self.problems.get, device_kinds), request.submission, device_kinds)
            return accepted, Terms(quotas=tuple(self.quotas))
        if request.submission.mode == submission_pb2.MODE_SWEEP or request.submission.HasField("sweep"):
            raise InvalidSubmission([FieldViolation("mode", "a sweep is not for a competition; leave out the competition")])
        if request.allow_cached_result:
            raise InvalidSubmission([FieldViolation("allow_cached_result", "a competition grades every submission; leave it out")])
        competition = self.competitions.get(parse(COMPETITIONS, request.submission.competition, "competition"))
        kind = _device_kind(competition, request.submission.device_kind)
        accepted = submission_check.check(request, self._problem_of(competition), device_kinds)
        if accepted.new.mode in (wire.Mode.PROFILE, wire.Mode.SANITIZE):
            # What they find comes from processes that begin after secret workloads were run, and could carry what those left behind.
            text = f"a competition takes no MODE_{accepted.new.mode.name}; leave `competition` out to run it on the public workloads"
            raise InvalidSubmission([FieldViolation("mode", text)])
        if accepted.new.mode is not competition.mode and first_shown(accepted.problem, kind.partition(":")[0]) is None:
            text = f"only MODE_{competition.mode.name} runs hidden workloads, and {kind!r} has no other here; take that mode"
            raise InvalidSubmission([FieldViolation("mode", text)])
        if not devices.is_offered(kind, device_kinds):
            raise NoSuchDevice(kind, tuple(offer for offer in competition.device_kinds if devices.is_offered(offer, device_kinds)))
        new = replace(accepted.new, device_kind=kind, competition_id=competition.competition_id)
        terms = Terms(competition=competition, quotas=(*quotas.of_competition(competition), *self.quotas))
        return replace(accepted, new=new), terms

    def quotas_at(self, now: datetime) -> list[Quota]:
        """All that limit a user now: the server's, and those of competitions that take submissions."""
        competitions = [one for one in self.competitions.all() if one.phase(now) in (Phase.OPEN, Phase.FROZEN)]
        return [*self.quotas, *(quota for one in competitions for quota in quotas.of_competition(one))]

    async def get(self, request: api.GetCompetitionRequest, ledger: Ledger) -> competition_pb2.Competition:
        """One, with all that was announced."""
        found = self.competitions.get(parse(COMPETITIONS, request.name))
        announced = await ledger.competition_actions.announcements([found.competition_id])
        return competition_to_proto(found, ledger.now(), announced[found.competition_id])

    async def page(self, request: api.ListCompetitionsRequest, ledger: Ledger) -> api.ListCompetitionsResponse:
        """A page, by name."""
        size = paging.page_size(request.page_size)
        after = paging.decode(request.page_token, str, "competitions") or ""
        left = [one for one in self.competitions.all() if one.competition_id > after]
        following = left[size - 1].competition_id if len(left) > size else None
        announced = await ledger.competition_actions.announcements([one.competition_id for one in left[:size]])
        now = ledger.now()
        return api.ListCompetitionsResponse(
            competitions=[competition_to_proto(one, now, announced[one.competition_id][:LISTED_ANNOUNCEMENTS]) for one in left[:size]],
            next_page_token=paging.encode(following, "competitions"),
        )

    def _problem_of(self, competition: Competition) -> Callable[[str], Problem]:
        def find(problem_id: str) -> Problem:
            if problem_id not in competition.problem_ids:
                known = ", ".join(full_name(PROBLEMS, one) for one in competition.problem_ids)
                text = f"{problem_id!r} is not a problem of competition {competition.competition_id!r}; take one of: {known}"
                raise InvalidSubmission([FieldViolation("problem", text)])
            return problem_for(competition, self.problems.get(problem_id))

        return find


def _device_kind(competition: Competition, asked: str) -> str:
    """The device to grade on: the competition's first, where none is asked for."""
    kind = asked or competition.device_kinds[0]
    if kind not in competition.device_kinds:
        known = ", ".join(competition.device_kinds)
        text = f"{kind!r} is not a device of competition {competition.competition_id!r}; leave it out, or take one of: {known}"
        raise InvalidSubmission([FieldViolation("device_kind", text)])
    return kind


def _swept(accepted: submission_check.Accepted, asked: submission_pb2.Submission, device_kinds: Sequence[str]) -> submission_check.Accepted:
    """With the problem that a sweep is judged by, where it is one."""
    if accepted.new.mode is not wire.Mode.SWEEP:
        if asked.HasField("sweep"):
            raise InvalidSubmission([FieldViolation("sweep", "is for MODE_SWEEP only; set that mode, or leave it out")])
        return accepted
    kinds = [one for one in (devices.CUDA, devices.EMULATED) if one in device_kinds]  # where no device is named, a GPU is taken
    if accepted.new.device_kind:
        kinds = [DeviceKind(accepted.new.device_kind.partition(":")[0])]
    try:
        return replace(accepted, problem=sweep_problem(accepted.problem, _sweep_request(asked.sweep), kinds))
    except SweepInvalid as wrong:
        raise InvalidSubmission([FieldViolation(f"sweep.{wrong.key}", str(wrong))]) from None


def _sweep_request(asked: problem_pb2.Sweep) -> SweepRequest:
    given = {name: getattr(asked, name) for name in ("start", "stop", "factor", "step") if asked.HasField(name)}
    measure_s = asked.measure_duration.ToNanoseconds() / 1e9 if asked.HasField("measure_duration") else None
    return SweepRequest(axis=asked.axis or None, axes=dict(asked.axes), measure_s=measure_s, **given)
