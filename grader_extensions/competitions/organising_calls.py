"""Organisers' methods of the API while a competition runs: withdrawals, bans, and files that are read again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
import structlog

from grader import access
from grader.api.conversion import to_message
from grader.api.resource_names import COMPETITIONS, SUBMISSIONS, full_name, parse, resource_id
from grader.errors import CallRefused, ProblemInvalid
from grader.isolation import finish_despite_cancel
from grader.rules.quotas import shown_time
from grader.server import interceptors
from grader.server.request_limits import page_position, page_size, page_token
from grader.server.service import GraderServicer
from grader.v1 import competition_pb2, submission_pb2
from grader.v1 import grader_service_pb2 as api
from grader_extensions.competitions import actions
from grader_extensions.competitions.actions import checked_reason
from grader_extensions.competitions.model import Competition, Phase, Visibility
from grader_extensions.competitions.refusals import ReloadRefused
from grader_extensions.competitions.store import Competitions

P = ParamSpec("P")
T = TypeVar("T")
log = structlog.get_logger()

# What competitors rely on from the start: another value would change what is graded, compared or shown of them.
FIXED = (*("start", "problems", "mode", "score", "baseline", "processes", "tie_rule", "visibility"), *("secret", "secret_seed"))
UNSHOWN = ("statement", "secret", "secret_seed")  # long, or secret


def changes(before: Mapping[str, Competition], after: Mapping[str, Competition]) -> list[competition_pb2.CompetitionChange]:
    """Compare two readings, by id."""
    differences = []
    for competition_id in sorted(before.keys() | after.keys()):
        old, current = before.get(competition_id), after.get(competition_id)
        change = competition_pb2.CompetitionChange(competition=full_name(COMPETITIONS, competition_id))
        if old is None or current is None:
            change.kind = competition_pb2.COMPETITION_CHANGE_KIND_ADDED if old is None else competition_pb2.COMPETITION_CHANGE_KIND_REMOVED
        elif keys := _keys(old, current):
            change.kind = competition_pb2.COMPETITION_CHANGE_KIND_CHANGED
            change.keys.extend(keys)
        else:
            continue
        differences.append(change)
    return differences


def check_fair(before: Mapping[str, Competition], after: Mapping[str, Competition], now: datetime) -> None:
    """ReloadRefused where a competition that has begun would be another one for those who take part; it names all that is wrong."""
    wrong = [
        text for old in before.values() if old.phase(now) is not Phase.UPCOMING for text in _unfair(old, after.get(old.competition_id), now)
    ]
    if wrong:
        raise ReloadRefused("; ".join(wrong))


def _unfair(old: Competition, current: Competition | None, now: datetime) -> Iterator[str]:
    about, ended = f"competition {old.competition_id!r}", old.phase(now) is Phase.ENDED
    if current is None:
        if not ended:
            yield f"the file of {about}, which is running, is gone; put it back"
        return
    if fixed := [change.key for change in _keys(old, current) if change.key in FIXED]:
        names = ", ".join(f"'{key}'" for key in fixed)
        yield f"{about} has begun, so {names} can't change any more; write what was there before"
    if current.device_kinds[: len(old.device_kinds)] != old.device_kinds:
        yield f"{about} has begun, so 'devices' can only get more at its end; write those that were there first, in their order"
    if current.end_time < old.end_time and current.end_time <= now:
        yield f"'end' of {about} would be over by now, and later submissions would leave its boards; write a time to come, or the old one"
    if ended and current.end_time > now and old.visibility is Visibility.AFTER_END:
        yield f"{about} has ended, and everybody has seen all sources since, so 'end' can't be a time to come; make a new competition"


def _keys(old: Competition, current: Competition) -> list[competition_pb2.CompetitionKeyChange]:
    before, after = _values(old), _values(current)
    changed = []
    for key in before:
        if before[key] != after[key]:
            shown = {} if key in UNSHOWN else {"before": _shown(before[key]), "after": _shown(after[key])}
            changed.append(competition_pb2.CompetitionKeyChange(key=key, **shown))
    return changed


def _recorded(change: competition_pb2.CompetitionChange) -> str:
    kind = competition_pb2.CompetitionChangeKind.Name(change.kind).removeprefix("COMPETITION_CHANGE_KIND_").lower()
    keys = (f"{key.key}: {f'{key.before} -> {key.after}' if key.before or key.after else 'changed'}" for key in change.keys)
    return "; ".join([kind, *keys])


def _values(competition: Competition) -> dict[str, object]:
    return {
        "title": competition.title,
        "statement": competition.statement,
        "color": competition.color,
        "logo": "" if competition.logo is None else competition.logo.name,
        "problems": competition.problem_ids,
        "devices": competition.device_kinds,
        "start": competition.start_time,
        "end": competition.end_time,
        "freeze": competition.freeze_time,
        "mode": competition.mode.value,
        "hourly_limit": competition.hourly_limit,
        "daily_limit": competition.daily_limit,
        "score": competition.ranking.score_kind.value,
        "baseline": competition.ranking.baseline,
        "processes": competition.ranking.process_count,
        "tie_rule": competition.tie_rule.value,
        "visibility": competition.visibility.value,
        "secret": competition.secret_workloads,
        "secret_seed": competition.secret_seed,
    }


def _shown(value: object) -> str:
    match value:
        case datetime():
            return shown_time(value)
        case tuple():
            return ", ".join(map(str, value))
        case None:
            return "none"
    return str(value)


class OrganisingCalls:
    """Every change is in the ledger's record of actions and in the log."""

    def __init__(self, service: GraderServicer, competitions: Competitions) -> None:
        self._ledger, self._competitions, self._service = service.ledger, competitions, service
        self._reloading = asyncio.Lock()

    async def WithdrawSubmission(self, request: api.WithdrawSubmissionRequest) -> submission_pb2.Submission:
        """Withdraw a submission from the boards of its competition."""
        user, submission = interceptors.current_caller(), await self._ledger.get(parse(SUBMISSIONS, request.name))
        access.check_owned(user, submission)
        reason = checked_reason(request.reason, required=user.user != submission.new.user)  # another user has to get one
        competition = self._competitions.get(submission.new.competition_id) if submission.new.competition_id else None
        withdrawn = await self._write(actions.withdraw, submission.submission_id, competition, user, reason)
        log.info("submission_withdrawn", submission=submission.submission_id, competition=submission.new.competition_id, reason=reason)
        return await self._service.shown(withdrawn)

    async def RestoreSubmission(self, request: api.RestoreSubmissionRequest) -> submission_pb2.Submission:
        """Restore a withdrawn submission."""
        submission_id, reason = parse(SUBMISSIONS, request.name), checked_reason(request.reason, required=False)
        restored = await self._write(actions.restore, submission_id, interceptors.current_caller().user, reason)
        log.info("submission_restored", submission=submission_id, reason=reason)
        return await self._service.shown(restored)

    async def BanUser(self, request: api.BanUserRequest) -> competition_pb2.Ban:
        """Ban a user from a competition."""
        competition_id, user, reason = self._named(request, reason_required=True)
        new_ban = await self._write(actions.ban, competition_id, user, interceptors.current_caller().user, reason)
        log.info("user_banned", competition=competition_id, banned_user=user, reason=reason)
        return to_message(competition_pb2.Ban, new_ban)

    async def LiftBan(self, request: api.LiftBanRequest) -> api.LiftBanResponse:
        """Lift the ban of a user."""
        competition_id, user, reason = self._named(request, reason_required=False)
        lifted = await self._write(actions.lift_ban, competition_id, user, interceptors.current_caller().user, reason)
        log.info("ban_lifted", competition=competition_id, banned_user=user, lifted=lifted)
        return api.LiftBanResponse(lifted=lifted)

    async def ListBans(self, request: api.ListBansRequest) -> api.ListBansResponse:
        """Return who is banned."""
        listed = await self._ledger.database.read(partial(actions.bans_of, competition_id=self._competition_id(request.competition)))
        return api.ListBansResponse(bans=[to_message(competition_pb2.Ban, listed_ban) for listed_ban in listed])

    async def ListCompetitionActions(self, request: api.ListCompetitionActionsRequest) -> api.ListCompetitionActionsResponse:
        """Return a page of organisers' actions, newest first."""
        competition_id, size = self._competition_id(request.competition), page_size(request.page_size)
        scope = ("actions", competition_id)
        before = page_position(request.page_token, int, *scope)
        listed, following = await self._ledger.database.read(partial(actions.page, competition_id=competition_id, size=size, before=before))
        return api.ListCompetitionActionsResponse(
            actions=[to_message(competition_pb2.CompetitionAction, action) for action in listed],
            next_page_token=page_token(following, *scope),
        )

    async def ReloadCompetitions(self, request: api.ReloadCompetitionsRequest) -> api.ReloadCompetitionsResponse:
        """Read the files again, all of them or none. ReloadRefused where one is wrong or unfair."""
        return api.ReloadCompetitionsResponse(changes=await self._reload())

    async def reload(self) -> None:
        """Read the files again; what is wrong with them is logged."""
        try:
            await self._reload()
        except CallRefused as error:
            log.error("competitions_not_reloaded", error=str(error))
        except Exception:  # ours; the server goes on with what it has
            log.error("competitions_not_reloaded", exc_info=True)

    async def _reload(self) -> list[competition_pb2.CompetitionChange]:
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
            differences = {resource_id(COMPETITIONS, change.competition): _recorded(change) for change in competition_changes}
            # A caller that goes away must not leave a record of what was not done.
            await finish_despite_cancel(self._take(fresh, differences))
            return competition_changes

    async def _take(self, fresh: Competitions, differences: dict[str, str]) -> None:
        """Record a reading, and then have all calls see it."""
        await self._write(actions.record_reload, interceptors.current_caller().user, differences)
        self._competitions.replace(fresh)
        log.info("competitions_reloaded", changes=differences)

    async def _write(self, action: Callable[Concatenate[sa.Connection, datetime, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        now = self._ledger.now()
        result = await self._ledger.database.write(lambda connection: action(connection, now, *arguments, **named))
        self._competitions.recent.clear()
        return result

    def _named(self, request: api.BanUserRequest | api.LiftBanRequest, *, reason_required: bool) -> tuple[str, str, str]:
        """Return the competition's id, the user and the reason."""
        competition_id = self._competition_id(request.competition)
        access.check_name(request.user)
        return competition_id, request.user, checked_reason(request.reason, required=reason_required)

    def _competition_id(self, name: str) -> str:
        return self._competitions.get(parse(COMPETITIONS, name, "competition")).competition_id
