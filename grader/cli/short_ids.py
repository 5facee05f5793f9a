"""Short ids of submissions: the beginning of an id stands for it where only one submission begins so."""

from __future__ import annotations

from collections.abc import Sequence

from grader.api.client import GraderClient
from grader.api.resource_names import SUBMISSIONS, full_name, resource_id
from grader.cli.exits import Misuse

ID_CHARS = 16  # of a whole id
SHORT_CHARS = 8  # of a short one in lists
_PAGE_SIZE = 1000  # an old server knows no prefix, and sends all there are
_CANDIDATES_SHOWN = 5


async def whole_name(client: GraderClient, name: str) -> str:
    """The full name of the submission that name begins. Misuse where none or several begin so. A whole id is not looked up."""
    prefix = resource_id(SUBMISSIONS, name)
    if len(prefix) >= ID_CHARS or not prefix.isalnum() or not prefix.isascii():
        return full_name(SUBMISSIONS, name)
    found: list[str] = []
    token = ""
    while True:
        page = await client.list_submissions(page_size=_PAGE_SIZE, page_token=token, id_prefix=prefix)
        ids = (resource_id(SUBMISSIONS, one.name) for one in page.submissions)
        found += [one for one in ids if one.startswith(prefix)]
        token = page.next_page_token
        if len(found) > _CANDIDATES_SHOWN or not token:
            break
    if prefix in found or len(found) == 1:
        return full_name(SUBMISSIONS, prefix if prefix in found else found[0])
    if not found:
        text = f"there is no submission of yours whose id begins with {prefix!r}; list them with: grader-cli list"
        raise Misuse(f"{text} (of another user's, write the whole id)")
    shown = ", ".join(found[:_CANDIDATES_SHOWN]) + (", ..." if len(found) > _CANDIDATES_SHOWN else "")
    raise Misuse(f"several submissions have an id that begins with {prefix!r}: {shown}; write more of it")


def short_ids(ids: Sequence[str]) -> list[str]:
    """Each id by its first characters: as few as no other of these begins with, and no fewer than SHORT_CHARS."""
    return [_shortest(one, set(ids) - {one}) for one in ids]


def _shortest(one: str, others: set[str]) -> str:
    length = SHORT_CHARS
    while length < len(one) and any(other.startswith(one[:length]) for other in others):
        length += 1
    return one[:length]
