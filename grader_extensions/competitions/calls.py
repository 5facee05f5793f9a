"""Calls of a client about competitions, boards and rejudges."""

from __future__ import annotations

from typing import Unpack

from grader.api.client import LONG_DEADLINE_S, GraderClient, PageQuery
from grader.v1 import competition_pb2, rejudge_pb2, submission_pb2
from grader.v1 import grader_service_pb2 as api
from grader_extensions.competitions import refusals as refusals  # which a client makes of the server's answers


class CompetitionCalls:
    """The calls, over a client."""

    def __init__(self, client: GraderClient) -> None:
        self._answer, self._stub = client.answer, client.stub

    async def get_competition(self, name: str) -> competition_pb2.Competition:
        """Return a competition."""
        return await self._answer(self._stub.GetCompetition, api.GetCompetitionRequest(name=name))

    async def list_competitions(self, **page: Unpack[PageQuery]) -> api.ListCompetitionsResponse:
        """Return a page, by name."""
        return await self._answer(self._stub.ListCompetitions, api.ListCompetitionsRequest(**page))

    async def get_leaderboard(
        self, competition: str, *, problem: str = "", device: str = "", **page: Unpack[PageQuery]
    ) -> competition_pb2.Leaderboard:
        """Return a page of a board."""
        request = api.GetLeaderboardRequest(competition=competition, problem=problem, device=device, **page)
        return await self._answer(self._stub.GetLeaderboard, request)

    async def create_rejudge(self, rejudge: rejudge_pb2.Rejudge, *, request_id: str) -> rejudge_pb2.Rejudge:
        """Have submissions judged again. The same request_id with the same rejudge goes on with the one that it made."""
        request = api.CreateRejudgeRequest(rejudge=rejudge, request_id=request_id)
        return await self._answer(self._stub.CreateRejudge, request, LONG_DEADLINE_S)

    async def get_rejudge(self, name: str) -> rejudge_pb2.Rejudge:
        """Return a rejudge, with what it changes."""
        return await self._answer(self._stub.GetRejudge, api.GetRejudgeRequest(name=name), LONG_DEADLINE_S)

    async def list_rejudges(self, **page: Unpack[PageQuery]) -> api.ListRejudgesResponse:
        """Return a page, newest first, without what they change."""
        return await self._answer(self._stub.ListRejudges, api.ListRejudgesRequest(**page))

    async def apply_rejudge(self, name: str) -> rejudge_pb2.Rejudge:
        """Let its judgements count. Safe to retry."""
        return await self._answer(self._stub.ApplyRejudge, api.ApplyRejudgeRequest(name=name), LONG_DEADLINE_S)

    async def discard_rejudge(self, name: str) -> rejudge_pb2.Rejudge:
        """Drop them. Safe to retry."""
        return await self._answer(self._stub.DiscardRejudge, api.DiscardRejudgeRequest(name=name), LONG_DEADLINE_S)

    async def withdraw(self, name: str, *, reason: str = "") -> submission_pb2.Submission:
        """Take a submission off the boards of its competition. Safe to retry."""
        return await self._answer(self._stub.WithdrawSubmission, api.WithdrawSubmissionRequest(name=name, reason=reason))

    async def restore(self, name: str, *, reason: str = "") -> submission_pb2.Submission:
        """Put a submission that was withdrawn back on the boards. Safe to retry."""
        return await self._answer(self._stub.RestoreSubmission, api.RestoreSubmissionRequest(name=name, reason=reason))

    async def ban_user(self, competition: str, user: str, *, reason: str) -> competition_pb2.Ban:
        """Let a user take no part in a competition any more. Safe to retry."""
        return await self._answer(self._stub.BanUser, api.BanUserRequest(competition=competition, user=user, reason=reason))

    async def lift_ban(self, competition: str, user: str, *, reason: str = "") -> bool:
        """Let a user take part again; whether there was a ban."""
        request = api.LiftBanRequest(competition=competition, user=user, reason=reason)
        return bool((await self._answer(self._stub.LiftBan, request)).lifted)

    async def list_bans(self, competition: str) -> api.ListBansResponse:
        """Return who is banned from a competition."""
        return await self._answer(self._stub.ListBans, api.ListBansRequest(competition=competition))

    async def list_competition_actions(self, competition: str, **page: Unpack[PageQuery]) -> api.ListCompetitionActionsResponse:
        """Return a page of what organisers did, newest first."""
        return await self._answer(self._stub.ListCompetitionActions, api.ListCompetitionActionsRequest(competition=competition, **page))

    async def reload_competitions(self) -> api.ReloadCompetitionsResponse:
        """Have the server read the files of its competitions again; what differs."""
        return await self._answer(self._stub.ReloadCompetitions, api.ReloadCompetitionsRequest(), LONG_DEADLINE_S)
