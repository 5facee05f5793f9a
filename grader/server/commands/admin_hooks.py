"""`grader-server admin hooks ...`: whom the server tells of finished submissions, and what did not arrive."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from grader.config import Settings
from grader.errors import DeliveryNotFound, GraderError, HookNotFound, SettingsInvalid
from grader.formats.validation_messages import describe
from grader.ledger import Ledger
from grader.ledger.hooks import Delivery, DeliveryState, Hook
from grader.server.settings import add_ledger_options
from grader.views.sanitize import one_line
from grader.webhooks import public_http

MISUSED, FAILED = 2, 3
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

Work = Callable[[Ledger, argparse.Namespace], Awaitable[int]]


def main(arguments: Sequence[str]) -> int:
    """Do what the words say. 0; 2 where they are wrong, 3 where the ledger can't be used."""
    asked = parser().parse_args(list(arguments))
    try:
        return asyncio.run(_run(asked))
    except (HookNotFound, DeliveryNotFound, SettingsInvalid, public_http.UrlRefused) as error:
        sys.stderr.write(f"grader-server admin hooks: {error}\n")
        return MISUSED
    except GraderError as error:
        sys.stderr.write(f"grader-server admin hooks: {error}\n")
        return FAILED


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="grader-server admin hooks",
        description="Webhooks: URLs that the server notifies of finished submissions. docs/api.md says what they get.",
    )
    words = made.add_subparsers(metavar="WORD", required=True)

    def word(name: str, work: Work, text: str) -> argparse.ArgumentParser:
        added = words.add_parser(name, help=text, description=text)
        added.set_defaults(work=work)
        add_ledger_options(added)
        added.add_argument("--json", action="store_true", help="print JSON")
        return added

    create = word("create", _create, "Notify a URL of submissions from now on; prints the signing secret, this time only")
    create.add_argument("url", metavar="URL", help="https://HOST/PATH")
    create.add_argument("--user", default="", help="only for this user's submissions (everybody's)")
    create.add_argument("--competition", default="", help="only for submissions to this competition (all)")
    word("list", _list, "List webhooks, with the states of their deliveries")
    remove = word("remove", _remove, "Remove a webhook, with its waiting deliveries")
    remove.add_argument("hook", metavar="HOOK")
    deliveries = word("deliveries", _deliveries, "List deliveries, newest first, with the last answer")
    deliveries.add_argument("hook", metavar="HOOK", nargs="?", default="", help="only of this webhook")
    deliveries.add_argument("--state", choices=[*DeliveryState], help="only those")
    deliveries.add_argument("--limit", type=int, default=100, metavar="N", help="how many (100)")
    retry = word("retry", _retry, "Send again, for another day: one delivery, or all of a webhook that were given up")
    which = retry.add_mutually_exclusive_group(required=True)
    which.add_argument("delivery", metavar="DELIVERY", nargs="?", default="")
    which.add_argument("--hook", default="", metavar="HOOK")
    return made


async def _run(asked: argparse.Namespace) -> int:
    given = {name: value for name in ("state_dir", "database") if (value := getattr(asked, name)) is not None}
    try:
        settings = Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsInvalid("--" + str(first["loc"][0]).replace("_", "-"), describe(first)) from None
    async with Ledger.open(settings.ledger) as ledger:
        return int(await asked.work(ledger, asked))


async def _create(ledger: Ledger, asked: argparse.Namespace) -> int:
    to = public_http.target(asked.url)
    if not to.tls and to.host not in _LOOPBACK:
        raise public_http.UrlRefused("write https://; http:// goes to this host only, and only from a server with --hooks-allow-private")
    hook, secret = await ledger.hooks.create(asked.url, user=asked.user, competition_id=asked.competition)
    lines = [f"webhook {hook.hook_id}", f"secret {secret}", "Keep the secret where the receiver reads it: it is not shown again."]
    _print(asked, {"hook_id": hook.hook_id, "secret": secret}, lines)
    return 0


async def _list(ledger: Ledger, asked: argparse.Namespace) -> int:
    hooks = await ledger.hooks.all()
    _print(asked, [_data(one) for one in hooks], [_line(one) for one in hooks] or ["There are no webhooks."])
    return 0


async def _remove(ledger: Ledger, asked: argparse.Namespace) -> int:
    await ledger.hooks.remove(asked.hook)
    _print(asked, {"hook_id": asked.hook}, [f"webhook {asked.hook} was removed"])
    return 0


async def _deliveries(ledger: Ledger, asked: argparse.Namespace) -> int:
    states = (DeliveryState(asked.state),) if asked.state else ()
    found = await ledger.hooks.deliveries(asked.hook, states=states, limit=max(asked.limit, 1))
    _print(asked, [_data(one) for one in found], [_line(one) for one in found] or ["There are none."])
    return 0


async def _retry(ledger: Ledger, asked: argparse.Namespace) -> int:
    count = await ledger.hooks.retry(delivery_id=asked.delivery, hook_id=asked.hook)
    _print(asked, {"count": count}, [f"{count} to be sent again by a running server"])
    return 0


def _data(one: Hook | Delivery) -> dict[str, Any]:
    data = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(one).items()}
    return data | {"counts": dict(one.counts)} if isinstance(one, Hook) else data


def _line(one: Hook | Delivery) -> str:
    if isinstance(one, Delivery):
        when = f", next {one.next_time:%Y-%m-%d %H:%M:%S} UTC" if one.state is DeliveryState.WAITING else ""
        status = f": {one_line(one.last_status)}" if one.last_status else ""
        return f"{one.delivery_id}  {one.hook_id}  {one.event}  {one.submission_id}  {one.state}, attempt {one.attempt}{when}{status}"
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in one.counts)
    scope = f"{one.user or 'everybody'}, {one.competition_id or 'everything'}"
    return f"{one.hook_id}  {one_line(one.url)}  {one_line(scope)}  {'removed' if one.end_time else counts}"


def _print(asked: argparse.Namespace, data: Any, lines: Sequence[str]) -> None:
    sys.stdout.write(json.dumps(data, indent=2) + "\n" if asked.json else "".join(f"{line}\n" for line in lines))
