"""`grader-server admin SUBJECT ...`: API keys, and the subjects of packages, with a running server or without one.

Writes to the ledger itself; a server that runs follows within seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Any

from grader.config import Settings
from grader.extensions import PACKAGE, admin_commands
from grader.ledger import Ledger
from grader.model import Scope
from grader.rules.keys import USER_FORM, Key
from grader.server.settings import (
    USAGE_ERROR,
    add_json_option,
    add_ledger_options,
    print_json,
    print_line,
    print_table,
    run_command,
    usage_error,
)

PROGRAM = "grader-server admin"
KEYS = f"{PROGRAM} keys"
SUBJECTS = {"keys": "API keys: who may call this server, and for what"}
KEY_HEADINGS = ("ID", "USER", "SCOPES", "STATE", "MADE (UTC)", "ENDS (UTC)", "NOTE")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_LONGEST = timedelta(days=36_500)

LedgerWork = Callable[[Ledger, argparse.Namespace], Awaitable[int]]


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code: 0, 2 where it is wrong, 3 where the ledger or a file fails."""
    additions = admin_commands()
    for count in (2, 1):  # a package may add an action to a subject: `keys import`
        if (addition := additions.get(" ".join(arguments[:count]))) is not None:
            return int(import_module(addition.module).main(arguments[count:]))
    subject = arguments[0] if arguments else ""
    if subject in SUBJECTS:
        options = parser().parse_args(arguments)
        return run_command(KEYS, options, partial(options.work, options))
    help_wanted = subject in ("-h", "--help")
    summaries = SUBJECTS | {name: command.summary for name, command in additions.items()}
    lines = [f"usage: {PROGRAM} SUBJECT ... (each has --help)", *(f"  {name:14}{summary}" for name, summary in summaries.items())]
    if subject and not help_wanted:
        lines.insert(0, f"{PROGRAM}: unknown subject {subject!r}; {PACKAGE} adds some")
    print("\n".join(lines), file=sys.stdout if help_wanted else sys.stderr)
    return 0 if help_wanted else USAGE_ERROR


def parser() -> argparse.ArgumentParser:
    """The command line of SUBJECTS. Each command sets `work`, a function of the options and the settings."""
    description = "What an administrator does in a server's state, with a running server or without one."
    command_parser = argparse.ArgumentParser(prog=PROGRAM, description=description)
    subjects = command_parser.add_subparsers(dest="subject", required=True)
    where, as_json, terms = (argparse.ArgumentParser(add_help=False) for _ in range(3))
    add_ledger_options(where)
    add_json_option(as_json)
    add_key_terms(terms)
    usage, description = f"{KEYS} [-h] ACTION ... ({PACKAGE} adds import)", "Makes, lists and revokes API keys, while a server runs too."
    add = action_adder(subjects.add_parser("keys", usage=usage, description=description))
    text = "make a key and print it, this time only: the server stores a digest"
    create = add("create", partial(in_ledger, _create_key), text, where, as_json, terms)
    create.add_argument("user", metavar="USER", help=f"its user: {USER_FORM}")
    create.add_argument("--note", default="", metavar="TEXT", help="what it is for, for the list")
    add("list", partial(in_ledger, _list_keys), "list all keys, without their secrets", where, as_json)
    revoke = add("revoke", partial(in_ledger, _revoke_key), "revoke a key; servers refuse it within seconds", where, as_json)
    revoke.add_argument("key_id", metavar="ID", help="the key's id, as `list` shows it")
    return command_parser


def action_adder(subject: argparse.ArgumentParser) -> Callable[..., argparse.ArgumentParser]:
    """Return a function that adds an action to a subject: of its name, its work, a line of help and parent parsers."""
    actions = subject.add_subparsers(prog=subject.prog, required=True, metavar="ACTION")

    def add(name: str, work: Callable[..., int], text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        action: argparse.ArgumentParser = actions.add_parser(name, parents=parents, help=text)
        action.set_defaults(work=work)
        return action

    return add


def add_key_terms(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a new key is good for."""
    parser.add_argument("--scopes", default="submit,read", metavar="LIST", help=f"scopes, from {', '.join(Scope)} (submit,read)")
    parser.add_argument("--expires", default="90d", metavar="TIME", help="when it expires, such as 90d, 12h or 30m, or never (90d)")


def in_ledger(work: LedgerWork, options: argparse.Namespace, settings: Settings) -> int:
    """Open the ledger of the settings, which the work finds in its options, too."""

    async def run() -> int:
        async with Ledger.open(settings.ledger) as ledger:
            options.settings = settings
            return await work(ledger, options)

    return asyncio.run(run())


async def _create_key(ledger: Ledger, options: argparse.Namespace) -> int:
    duration, now = read_duration(options.expires), ledger.now()
    expire_time = None if duration is None else now + duration
    key, text = await ledger.keys.create(options.user, read_scopes(options.scopes), expire_time=expire_time, note=options.note)
    if options.json:
        print_json(plain_key(key, now) | {"key": text})
        return 0
    # The key alone on stdout, so that it can be piped; the rest is for people.
    print_line(text)
    print_note(f"key {key.key_id} of {key.user} in {ledger.database.shown}: {_key_row(key, now)[2]}, ends {_time(key.expire_time)}")
    print_note("keep it now: it is not shown again. Its owner stores it with: grader-cli login --server HOST:PORT")
    return 0


async def _list_keys(ledger: Ledger, options: argparse.Namespace) -> int:
    keys, now = await ledger.keys.all(), ledger.now()
    if options.json:
        print_json({"keys": [plain_key(key, now) for key in keys]})
    else:
        print_table(KEY_HEADINGS, *(_key_row(key, now) for key in keys))
    return 0


async def _revoke_key(ledger: Ledger, options: argparse.Namespace) -> int:
    key = await ledger.keys.revoke(options.key_id)
    if key is None:
        return usage_error(KEYS, f"there is no key {options.key_id[:40]!r} in {ledger.database.shown}; list them with: {KEYS} list")
    if options.json:
        print_json(plain_key(key, ledger.now()))
    else:
        print_line(f"key {key.key_id} of {key.user} is revoked; running servers refuse it within seconds")
    return 0


def read_scopes(text: str) -> frozenset[Scope]:
    """The scopes of a key; ValueError."""
    try:
        return frozenset(Scope(word.strip()) for word in text.split(","))
    except ValueError:
        raise ValueError(f"--scopes {text!r} is not a list of scopes; write some of these with commas: {', '.join(Scope)}") from None


def read_duration(text: str) -> timedelta | None:
    """How long a key is good for; None is for ever. ValueError."""
    if text == "never":
        return None
    match = re.fullmatch(r"([0-9]{1,9})([dhm])", text)
    duration = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else timedelta(0)
    if not timedelta(0) < duration <= _LONGEST:
        raise ValueError(f"--expires {text!r} is not a duration; write one such as 90d, 12h or 30m, or never")
    return duration


def _state(key: Key, now: datetime) -> str:
    if key.revoke_time is not None:
        return "revoked"
    return "valid" if key.valid(now) else "expired"


def _key_row(key: Key, now: datetime) -> tuple[str, ...]:
    scopes = ",".join(scope for scope in Scope if scope in key.scopes)
    return key.key_id, key.user, scopes, _state(key, now), _time(key.create_time), _time(key.expire_time), key.note


def plain_key(key: Key, now: datetime) -> dict[str, Any]:
    """A key as JSON has it, without its secret."""
    return {
        "key_id": key.key_id,
        "user": key.user,
        "scopes": [str(scope) for scope in Scope if scope in key.scopes],
        "state": _state(key, now),
        "note": key.note,
        "create_time": key.create_time.isoformat(),
        "expire_time": None if key.expire_time is None else key.expire_time.isoformat(),
        "revoke_time": None if key.revoke_time is None else key.revoke_time.isoformat(),
    }


def _time(time: datetime | None) -> str:
    return "never" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


def print_note(line: str) -> None:
    """Print what people read next to keys, on standard error."""
    sys.stderr.write(f"{KEYS}: {line}\n")
