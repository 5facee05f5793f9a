"""`grader-server admin keys create|import|list|revoke`: writes to the ledger itself; a server that runs sees it within seconds."""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from grader.config import Settings
from grader.ledger import Ledger
from grader.model import Scope
from grader.rules.keys import USER_FORM, Key, check_note, check_user, new
from grader.server.settings import add_json_option, add_ledger_options, print_json, print_line, print_table, run_command, usage_error

PROGRAM = "grader-server admin keys"
Work = Callable[[Ledger, argparse.Namespace], Awaitable[int]]
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_LONGEST = timedelta(days=36_500)


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code: 0, 2 where they are wrong, 3 where the ledger fails."""
    options = parser().parse_args(arguments)
    return run_command(PROGRAM, options, lambda settings: asyncio.run(_in_ledger(settings, _WORKS[options.action], options)))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    where = argparse.ArgumentParser(add_help=False)
    add_ledger_options(where)
    add_json_option(where)
    command_parser = argparse.ArgumentParser(prog=PROGRAM, description="Makes, lists and revokes API keys, while a server runs too.")
    actions = command_parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", parents=[where], help="make a key and print it, this time only: the server stores a digest")
    create.add_argument("user", metavar="USER", help=f"its user: {USER_FORM}")
    create.add_argument("--scopes", default="submit,read", metavar="LIST", help=f"its scopes, from {', '.join(Scope)} (submit,read)")
    create.add_argument("--expires", default="90d", metavar="TIME", help="when it expires, such as 90d, 12h or 30m, or never (90d)")
    create.add_argument("--note", default="", metavar="TEXT", help="what it is for, for the list")
    several = actions.add_parser("import", parents=[where], help="make one key for each user of a CSV file: all of them, or none")
    several.add_argument("file", type=Path, metavar="FILE", help=FORM)
    several.add_argument("--out", type=Path, metavar="FILE", help="write user,key_id,key,note there, readable for its owner only (stdout)")
    several.add_argument("--scopes", default="submit,read", metavar="LIST", help="as of create (submit,read)")
    several.add_argument("--expires", default="90d", metavar="TIME", help="as of create (90d)")
    several.add_argument("--skip-existing", action="store_true", help="make no key for users who have a valid one (an error)")
    actions.add_parser("list", parents=[where], help="list all keys, without their secrets")
    revoke = actions.add_parser("revoke", parents=[where], help="revoke a key; servers refuse it within seconds")
    revoke.add_argument("key_id", metavar="ID", help="the key's id, as `list` shows it")
    return command_parser


async def _in_ledger(settings: Settings, work: Work, options: argparse.Namespace) -> int:
    async with Ledger.open(settings.ledger) as ledger:
        return await work(ledger, options)


async def _create(ledger: Ledger, options: argparse.Namespace) -> int:
    lasting = _lasting(options.expires)
    key, text = await ledger.keys.create(
        options.user, _scopes(options.scopes), expire_time=None if lasting is None else ledger.now() + lasting, note=options.note
    )
    if options.json:
        print_json(_plain(key, ledger.now()) | {"key": text})
        return 0
    # The key alone on stdout, so that it can be piped; the rest is for people.
    print_line(text)
    _say(f"key {key.key_id} of {key.user} in {ledger.database.shown}: {_row(key, ledger.now())[2]}, ends {_time(key.expire_time)}")
    _say("keep it now: it is not shown again. Its owner stores it with: grader-cli login --server HOST:PORT")
    return 0


async def _import(ledger: Ledger, options: argparse.Namespace) -> int:
    user_lines, now = read(options.file), ledger.now()
    lasting, scopes = _lasting(options.expires), _scopes(options.scopes)
    keyed = {(key.user, key.note) for key in await ledger.keys.all() if key.valid(now)}
    wanted = without_keyed(user_lines, keyed, str(options.file), skip=options.skip_existing)

    expire_time = None if lasting is None else now + lasting
    new_keys = [new(user_line.user, scopes, now, expire_time=expire_time, note=user_line.note) for user_line in wanted]
    text = to_csv(new_keys)
    if options.json:
        text = json.dumps({"keys": [_plain(key, now) | {"key": secret} for key, secret in new_keys]}, indent=2) + "\n"
    with nullcontext() if options.out is None else private_file(options.out, text):  # keys that no file holds must not be valid
        await ledger.keys.add([key for key, _ in new_keys])
    if options.out is None:
        print_line(text.rstrip("\n"))
    skipped = f", {len(user_lines) - len(wanted)} users have one already" if len(wanted) < len(user_lines) else ""
    _say(f"{len(new_keys)} keys made in {ledger.database.shown}{skipped}")
    if new_keys:
        where = "stdout" if options.out is None else str(options.out)
        _say(f"they are in {where} and nowhere else: give each user their own, who stores it with: grader-cli login --server HOST:PORT")
    return 0


async def _list(ledger: Ledger, options: argparse.Namespace) -> int:
    keys, now = await ledger.keys.all(), ledger.now()
    if options.json:
        print_json({"keys": [_plain(key, now) for key in keys]})
    else:
        print_table(("ID", "USER", "SCOPES", "STATE", "MADE (UTC)", "ENDS (UTC)", "NOTE"), *(_row(key, now) for key in keys))
    return 0


async def _revoke(ledger: Ledger, options: argparse.Namespace) -> int:
    key = await ledger.keys.revoke(options.key_id)
    if key is None:
        return usage_error(PROGRAM, f"there is no key {options.key_id[:40]!r} in {ledger.database.shown}; list them with: {PROGRAM} list")
    if options.json:
        print_json(_plain(key, ledger.now()))
    else:
        print_line(f"key {key.key_id} of {key.user} is revoked; running servers refuse it within seconds")
    return 0


_WORKS: dict[str, Work] = {"create": _create, "import": _import, "list": _list, "revoke": _revoke}


def _scopes(text: str) -> frozenset[Scope]:
    try:
        return frozenset(Scope(word.strip()) for word in text.split(","))
    except ValueError:
        raise ValueError(f"--scopes {text!r} is not a list of scopes; write some of these with commas: {', '.join(Scope)}") from None


def _lasting(text: str) -> timedelta | None:
    """How long; None is for ever."""
    if text == "never":
        return None
    match = re.fullmatch(r"([0-9]{1,9})([dhm])", text)
    lasting = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else timedelta(0)
    if not timedelta(0) < lasting <= _LONGEST:
        raise ValueError(f"--expires {text!r} is not a duration; write one such as 90d, 12h or 30m, or never")
    return lasting


def _state(key: Key, now: datetime) -> str:
    if key.revoke_time is not None:
        return "revoked"
    return "valid" if key.valid(now) else "expired"


def _row(key: Key, now: datetime) -> tuple[str, ...]:
    scopes = ",".join(scope for scope in Scope if scope in key.scopes)
    return key.key_id, key.user, scopes, _state(key, now), _time(key.create_time), _time(key.expire_time), key.note


def _plain(key: Key, now: datetime) -> dict[str, Any]:
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


def _say(line: str) -> None:
    sys.stderr.write(f"{PROGRAM}: {line}\n")


# Lists of users, for `import`.

HEADINGS = ("user", "note")
FORM = "a CSV file in UTF-8 with the heading `user`, or `user,note`, and a line for each user"
_SIZE_LIMIT_BYTES = 10 * 1024 * 1024


class KeyImportInvalid(ValueError):
    """Mistakes of a list of users, a line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLine:
    """A user who gets a key. line: where in the file, from 1."""

    line: int
    user: str
    note: str = ""


def read(path: Path) -> list[UserLine]:
    """The users of a file. KeyImportInvalid with every mistake, each with its line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KeyImportInvalid(f"{path} can't be read: {error.strerror}; name {FORM}") from None
    if len(data) > _SIZE_LIMIT_BYTES:
        raise KeyImportInvalid(f"{path} has more than {_SIZE_LIMIT_BYTES} bytes; split it")
    try:
        text = data.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise KeyImportInvalid(f"{path}:{line}: is not UTF-8; save the file as CSV in UTF-8") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> list[UserLine]:
    """The users of a text; name: of its file, for messages."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        for row in reader:
            rows.append((reader.line_num, [cell.strip() for cell in row]))
    except csv.Error as error:
        raise KeyImportInvalid(
            f"{name}:{reader.line_num}: is not CSV ({error}); close the quotes, and write one line for each user"
        ) from None
    filled = [(line, row) for line, row in rows if any(row)]
    if not filled:
        raise KeyImportInvalid(f"{name} is empty; write {FORM}")
    first, headings = filled[0][0], [heading.lower() for heading in filled[0][1]]
    if headings not in (list(HEADINGS[:1]), list(HEADINGS)):
        raise KeyImportInvalid(f"{name}:{first}: the first line is not `user` or `user,note`; write {FORM}")
    user_lines, mistakes = [], []
    lines: dict[tuple[str, str], int] = {}
    first_of: dict[str, UserLine] = {}
    for line, row in filled[1:]:
        if len(row) != len(headings):
            mistakes.append(f"{name}:{line}: has {len(row)} fields, and the heading has {len(headings)}; quote a field with a comma in it")
            continue
        user_line = UserLine(line=line, user=row[0], note=row[1] if len(row) > 1 else "")
        try:
            check_user(user_line.user)
            check_note(user_line.note)
        except ValueError as error:
            mistakes.append(f"{name}:{line}: {error}")
            continue
        earlier = first_of.setdefault(user_line.user, user_line)
        if earlier is not user_line and not (earlier.note and user_line.note):
            remedy = "leave one of them out, or, for the members of a team, give each a note of their own"
            mistakes.append(f"{name}:{line}: user {user_line.user!r} is on line {earlier.line} too; {remedy}")
            continue
        if (same := lines.setdefault((user_line.user, user_line.note), line)) != line:
            mistakes.append(f"{name}:{line}: user {user_line.user!r} with this note is on line {same} too; leave one of them out")
            continue
        user_lines.append(user_line)
    if not user_lines and not mistakes:
        mistakes.append(f"{name} has a heading and no users; write a line for each user")
    if mistakes:
        raise KeyImportInvalid("\n".join(mistakes))
    return user_lines


def without_keyed(user_lines: Sequence[UserLine], keyed: Collection[tuple[str, str]], name: str, *, skip: bool) -> list[UserLine]:
    """The users who have no valid key yet, and the members of teams. KeyImportInvalid where some have one and are not to be skipped.

    keyed: users with the notes of their valid keys. A user of several lines is a team, whose members go by their notes.
    """
    count, users = Counter(user_line.user for user_line in user_lines), {user for user, _ in keyed}
    again = [
        user_line
        for user_line in user_lines
        if ((user_line.user, user_line.note) in keyed if count[user_line.user] > 1 else user_line.user in users)
    ]
    if again and not skip:
        remedy = "leave the line out, revoke the key, or pass --skip-existing"
        raise KeyImportInvalid(
            "\n".join(f"{name}:{user_line.line}: user {user_line.user!r} has a valid key already; {remedy}" for user_line in again)
        )
    skipped = {user_line.line for user_line in again}
    return [user_line for user_line in user_lines if user_line.line not in skipped]


@contextmanager
def private_file(path: Path, text: str) -> Iterator[None]:
    """A new file with this text for its owner only; removed again where the context fails. KeyImportInvalid where it can't be made."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise KeyImportInvalid(f"--out: {path} is there already, and may hold keys; name another file") from None
    except OSError as error:
        raise KeyImportInvalid(f"--out: {path} can't be written: {error.strerror}; name another file") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def to_csv(new_keys: Sequence[tuple[Key, str]]) -> str:
    """Users, their keys and the notes of these, with a heading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("user", "key_id", "key", "note"))
    writer.writerows((key.user, key.key_id, text, key.note) for key, text in new_keys)
    return out.getvalue()
