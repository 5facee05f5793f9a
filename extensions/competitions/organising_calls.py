"""Organisers' methods of the API while a competition runs: withdrawals, bans, and files that are read again."""

from __future__ import annotations

import asyncio

import structlog

from extensions.competitions.actions import CompetitionActions, checked_reason, needs_reason
from extensions.competitions.file_changes import CompetitionChange, changes, check_fair
from extensions.competitions.store import Competitions
from grader import access
from grader.api.conversion import to_message
from grader.api.resource_names import COMPETITIONS, SUBMISSIONS, parse
from grader.errors import CallRefused, FieldViolation, InvalidRequest, ProblemInvalid, ReloadRefused
from grader.isolation.cancellation import finish_despite_cancel
from grader.ledger import Ledger
from grader.rules.keys import check_user
from grader.server import interceptors, paging
from grader.server.service import GraderServicer
from grader.v1 import competition_pb2, submission_pb2
from grader.v1 import grader_service_pb2 as api

log = structlog.get_logger()


class OrganisingCalls:
    """Every change is in the ledger's record of actions and in the log."""

    def __init__(self, ledger: Ledger, competitions: Competitions, service: GraderServicer, actions: CompetitionActions) -> None:
        self._ledger, self._competitions, self._service = ledger, competitions, service
        self._actions = actions
        self._reloading = asyncio.Lock()

    async def WithdrawSubmission(self, request: api.WithdrawSubmissionRequest) -> submission_pb2.Submission:
        """Withdraw a submission from the boards of its competition."""
        user, submission = interceptors.current_caller(), await self._ledger.get(parse(SUBMISSIONS, request.name))
        access.check_owned(user, submission)
        reason = checked_reason(request.reason, required=needs_reason(user, submission))
        competition = self._competitions.get(submission.new.competition_id) if submission.new.competition_id else None
        withdrawn = await self._actions.withdraw(submission.submission_id, competition, user, reason)
        log.info("submission_withdrawn", submission=submission.submission_id, competition=submission.new.competition_id, reason=reason)
        return await self._service.shown(withdrawn)

    async def RestoreSubmission(self, request: api.RestoreSubmissionRequest) -> submission_pb2.Submission:
        """Restore a withdrawn submission."""
        submission_id, reason = parse(SUBMISSIONS, request.name), checked_reason(request.reason, required=False)
        restored = await self._actions.restore(submission_id, interceptors.current_caller().user, reason)
        log.info("submission_restored", submission=submission_id, reason=reason)
        return await self._service.shown(restored)

    async def BanUser(self, request: api.BanUserRequest) -> competition_pb2.Ban:
        """Ban a user from a competition."""
        competition_id, user = self._competition_id(request.competition), _user(request.user)
        reason = checked_reason(request.reason, required=True)
        new_ban = await self._actions.ban(competition_id, user, interceptors.current_caller().user, reason)
        log.info("user_banned", competition=competition_id, banned_user=user, reason=reason)
        return to_message(competition_pb2.Ban, new_ban)

    async def LiftBan(self, request: api.LiftBanRequest) -> api.LiftBanResponse:
        """Lift the ban of a user."""
        competition_id, user = self._competition_id(request.competition), _user(request.user)
        reason = checked_reason(request.reason, required=False)
        lifted = await self._actions.lift_ban(competition_id, user, interceptors.current_caller().user, reason)
        log.info("ban_lifted", competition=competition_id, banned_user=user, lifted=lifted)
        return api.LiftBanResponse(lifted=lifted)

    async def ListBans(self, request: api.ListBansRequest) -> api.ListBansResponse:
        """Return who is banned."""
        listed = await self._actions.bans(self._competition_id(request.competition))
        return api.ListBansResponse(bans=[to_message(competition_pb2.Ban, listed_ban) for listed_ban in listed])

    async def ListCompetitionActions(self, request: api.ListCompetitionActionsRequest) -> api.ListCompetitionActionsResponse:
        """Return a page of organisers' actions, newest first."""
        competition_id, size = self._competition_id(request.competition), paging.page_size(request.page_size)
        scope = ("actions", competition_id)
        before = paging.decode(request.page_token, int, *scope)
        listed, following = await self._actions.page(competition_id, size=size, before=before)
        return api.ListCompetitionActionsResponse(
            actions=[to_message(competition_pb2.CompetitionAction, action) for action in listed],
            next_page_token=paging.encode(following, *scope),
        )

    async def ReloadCompetitions(self, request: api.ReloadCompetitionsRequest) -> api.ReloadCompetitionsResponse:
        """Read the files again, all of them or none. ReloadRefused where one is wrong or unfair."""
        changed = await self._reload()
        return api.ReloadCompetitionsResponse(changes=[to_message(competition_pb2.CompetitionChange, change) for change in changed])

    async def reload(self) -> None:
        """Read the files again; what is wrong with them is logged."""
        try:
            await self._reload()
        except CallRefused as error:
            log.error("competitions_not_reloaded", error=str(error))
        except Exception:  # ours; the server goes on with what it has
            log.error("competitions_not_reloaded", exc_info=True)

    async def _reload(self) -> list[CompetitionChange]:
        async with self._reloading:
            try:
                fresh = await asyncio.to_thread(self._competitions.read_again)
            except (ProblemInvalid, OSError) as error:
                raise ReloadRefused(str(error)) from None
            before, after = (
                {competition.competition_id: competition for competition in store.all()} for store in (self._competitions, fresh)
            )
            check_fair(before, after, self._ledger.now())
            competition_changes = changes(before, after)
            differences = {change.competition_id: "; ".join([change.kind.value, *map(str, change.keys)]) for change in competition_changes}
            # A caller that goes away must not leave a record of what was not done.
            await finish_despite_cancel(self._take(fresh, differences))
            return competition_changes

    async def _take(self, fresh: Competitions, differences: dict[str, str]) -> None:
        """Record a reading, and then have all calls see it."""
        await self._actions.record_reload(interceptors.current_caller().user, differences)
        self._competitions.replace(fresh)
        log.info("competitions_reloaded", changes=differences)

    def _competition_id(self, name: str) -> str:
        return self._competitions.get(parse(COMPETITIONS, name, "competition")).competition_id


def _user(user: str) -> str:
    try:
        check_user(user)
    except ValueError as error:
        raise InvalidRequest([FieldViolation("user", str(error))]) from None
    return user
