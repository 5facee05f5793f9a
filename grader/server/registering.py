"""Lets people make a key for themselves with a registration code: so many in a competition, and so many a minute from an address."""

from __future__ import annotations

from collections import deque
from datetime import timedelta

import structlog

from grader.api.conversion import timestamp
from grader.api.resource_names import COMPETITIONS, full_name
from grader.errors import FieldViolation, InvalidRequest, RegistrationRefused, RegistrationsLimited
from grader.ledger import Ledger
from grader.model import Scope
from grader.problems.competition_store import Competitions
from grader.rules.identities import like_provider_user
from grader.rules.keys import new
from grader.v1 import grader_service_pb2 as api

log = structlog.get_logger()

MINUTE = timedelta(minutes=1)
ADDRESS_LIMIT = 30  # keys made from one address in a minute: a room of people may share one
VALID_AFTER_END = timedelta(days=30)
# A user with one of these names, on a board or in a list, looks like somebody who speaks for the server.
RESERVED = frozenset({"admin", "administrator", "grader", "organiser", "organisers", "organizer", "organizers", "root"})
SCOPES = frozenset({Scope.SUBMIT, Scope.READ})


class Registering:
    """Answers Register. This process counts per address, and the ledger per competition."""

    def __init__(self, ledger: Ledger, competitions: Competitions) -> None:
        self._ledger, self._competitions = ledger, competitions
        self._made = deque[tuple[float, str]]()  # when, in seconds, and from which address, oldest first

    async def register(self, request: api.RegisterRequest, code: str, address: str) -> api.RegisterResponse:
        """Make a key. code: sent in place of a key; address: of the caller. RegistrationRefused; RegistrationsLimited."""
        now = self._ledger.now()
        competition = self._competitions.of_registration_code(code, now)
        if competition is None:  # the caller sent a key, or this server asks for none
            raise RegistrationRefused("no registration code was sent; send one in place of a key")
        try:
            expire_time = competition.end_time + VALID_AFTER_END
            key, text = new(request.user, SCOPES, now, expire_time=expire_time, note=f"registered for {competition.competition_id}")
        except ValueError as error:
            raise InvalidRequest([FieldViolation("user", str(error))]) from None
        if key.user in RESERVED:
            raise RegistrationRefused(f"the name {key.user!r} is reserved; choose another")
        if like_provider_user(key.user):
            text = "ends like the name of a user of an identity provider, in '-' and six or more hexadecimal digits"
            raise RegistrationRefused(f"the name {key.user!r} {text}; choose another")
        self._count(address, now.timestamp())
        await self._ledger.keys.register(key, competition.competition_id, competition.registration_limit)
        log.info("user_registered", competition=competition.competition_id, registered_user=key.user, key=key.key_id)
        return api.RegisterResponse(
            user=key.user,
            key=text,
            expire_time=timestamp(expire_time),
            competition=full_name(COMPETITIONS, competition.competition_id),
        )

    def _count(self, address: str, now_s: float) -> None:
        while self._made and self._made[0][0] <= now_s - MINUTE.total_seconds():
            self._made.popleft()
        times_s = [time_s for time_s, made_from in self._made if made_from == address]
        if len(times_s) >= ADDRESS_LIMIT:
            raise RegistrationsLimited(ADDRESS_LIMIT, max(times_s[0] + MINUTE.total_seconds() - now_s, 1.0))
        self._made.append((now_s, address))
