"""`grader-server admin SUBJECT ...`: keys, the queue and lanes, with a running server or without one.

Writes to the ledger and the state directory itself; a server that runs follows within seconds.
"""

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
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from grader.api.resource_names import SUBMISSIONS, resource_id
from grader.config import Settings
from grader.extensions import PACKAGE, admin_commands
from grader.ledger import Ledger
from grader.ledger.queue import QueueEntry
from grader.model import Scope
from grader.rules.keys import USER_FORM, Key, check_note, check_user, new
from grader.server.server_state import EVERY_LANE, NAME, Cordons, running_lanes
from grader.server.settings import (
    USAGE_ERROR,
    add_json_option,
    add_ledger_options,
    print_json,
    print_line,
    print_table,
    run_command,
    state_dir_option,
    usage_error,
)

PROGRAM = "grader-server admin"
KEYS, QUEUE, LANES = f"{PROGRAM} keys", f"{PROGRAM} queue", f"{PROGRAM} lanes"
SUBJECTS = {
    "keys": "API keys: who may call this server, and for what",
    "queue": "the queue: who waits, who is next, and whether it is paused",
    "lanes": "lanes and workers: what each does, which get no work for now, and which are looked at again",
}
KEY_HEADINGS = ("ID", "USER", "SCOPES", "STATE", "MADE (UTC)", "ENDS (UTC)", "NOTE")
QUEUE_HEADINGS = ("next", "submission", "user", "mode", "device", "competition", "since", "at")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_LONGEST = timedelta(days=36_500)

LedgerWork = Callable[[Ledger, argparse.Namespace], Awaitable[int]]


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code: 0, 2 where it is wrong, 3 where the ledger or a file fails."""
    subject = arguments[0] if arguments else ""
    if subject in SUBJECTS:
        options = parser().parse_args(arguments)
        return run_command(f"{PROGRAM} {subject}", options, partial(options.work, options))
    additions = admin_commands()
    if subject in additions:
        return int(import_module(additions[subject].module).main(arguments[1:]))
    help_wanted = subject in ("-h", "--help")
    summaries = SUBJECTS | {name: command.summary for name, command in additions.items()}
    lines = [f"usage: {PROGRAM} SUBJECT ... (each has --help)", *(f"  {name:10}{summary}" for name, summary in summaries.items())]
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

    def actions_of(subject: str, description: str, **options: Any) -> Callable[..., argparse.ArgumentParser]:
        actions = subjects.add_parser(subject, description=description, **options).add_subparsers(required=True, metavar="ACTION")

        def add(name: str, work: Callable[..., int], text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
            action: argparse.ArgumentParser = actions.add_parser(name, parents=parents, help=text)
            action.set_defaults(work=work)
            return action

        return add

    terms.add_argument("--scopes", default="submit,read", metavar="LIST", help=f"scopes, from {', '.join(Scope)} (submit,read)")
    terms.add_argument("--expires", default="90d", metavar="TIME", help="when it expires, such as 90d, 12h or 30m, or never (90d)")
    add = actions_of("keys", "Makes, lists and revokes API keys, while a server runs too.")
    text = "make a key and print it, this time only: the server stores a digest"
    create = add("create", partial(_in_ledger, _create_key), text, where, as_json, terms)
    create.add_argument("user", metavar="USER", help=f"its user: {USER_FORM}")
    create.add_argument("--note", default="", metavar="TEXT", help="what it is for, for the list")
    text = "make one key for each user of a CSV file: all of them, or none"
    several = add("import", partial(_in_ledger, _import_keys), text, where, as_json, terms)
    several.add_argument("file", type=Path, metavar="FILE", help=USER_LIST_FORM)
    several.add_argument("--out", type=Path, metavar="FILE", help="write user,key_id,key,note there, readable for its owner only (stdout)")
    several.add_argument("--skip-existing", action="store_true", help="make no key for users who have a valid one (an error)")
    add("list", partial(_in_ledger, _list_keys), "list all keys, without their secrets", where, as_json)
    revoke = add("revoke", partial(_in_ledger, _revoke_key), "revoke a key; servers refuse it within seconds", where, as_json)
    revoke.add_argument("key_id", metavar="ID", help="the key's id, as `list` shows it")

    add = actions_of("queue", "Shows the queue, stops it, and changes its order.")
    add("list", partial(_in_ledger, _list_queue), "what runs, and what waits in the order in which it is taken up", where, as_json)
    text = "let this server end what it has and begin nothing more; submissions are taken and wait, also after a restart"
    add("pause", _pause, text, where)
    add("resume", _resume, "begin again", where)
    first = add("first", partial(_in_ledger, _take_first), "take this one up before all others that wait", where)
    first.add_argument("submission", metavar="ID", help="the whole id of a submission that waits")

    add = actions_of(
        "lanes",
        "Shows lanes, and takes lanes and workers out of service. A running server follows within seconds. What is cordoned "
        "stays so after restarts.",
        epilog="A NAME is a lane as `list` and /metrics show it (cuda:0, or gpu-1/cuda:0 at a worker), or a worker (gpu-1).",
        parents=[state_dir_option()],
    )
    state_dir = state_dir_option(again=True)
    cordon = add("cordon", _cordon, "let it end what it has, and give it nothing more", state_dir)
    cordon.add_argument("name", metavar="NAME", help="a lane or a worker")
    add("uncordon", _uncordon, "give it work again", state_dir).add_argument("name", metavar="NAME")
    add("list", _list_lanes, "list every lane of the running server with its state, and what is cordoned", state_dir, as_json)
    return command_parser


def _in_ledger(work: LedgerWork, options: argparse.Namespace, settings: Settings) -> int:
    async def run() -> int:
        async with Ledger.open(settings.ledger) as ledger:
            options.settings = settings
            return await work(ledger, options)

    return asyncio.run(run())


async def _create_key(ledger: Ledger, options: argparse.Namespace) -> int:
    lasting, now = _lasting(options.expires), ledger.now()
    expire_time = None if lasting is None else now + lasting
    key, text = await ledger.keys.create(options.user, _scopes(options.scopes), expire_time=expire_time, note=options.note)
    if options.json:
        print_json(_plain_key(key, now) | {"key": text})
        return 0
    # The key alone on stdout, so that it can be piped; the rest is for people.
    print_line(text)
    _say(f"key {key.key_id} of {key.user} in {ledger.database.shown}: {_key_row(key, now)[2]}, ends {_time(key.expire_time)}")
    _say("keep it now: it is not shown again. Its owner stores it with: grader-cli login --server HOST:PORT")
    return 0


async def _import_keys(ledger: Ledger, options: argparse.Namespace) -> int:
    user_lines, now = read_user_list(options.file), ledger.now()
    lasting, scopes = _lasting(options.expires), _scopes(options.scopes)
    keyed = {(key.user, key.note) for key in await ledger.keys.all() if key.valid(now)}
    new_lines = without_keyed(user_lines, keyed, str(options.file), skip=options.skip_existing)
    expire_time = None if lasting is None else now + lasting
    new_keys = [new(user_line.user, scopes, now, expire_time=expire_time, note=user_line.note) for user_line in new_lines]
    text = keys_csv(new_keys)
    if options.json:
        text = json.dumps({"keys": [_plain_key(key, now) | {"key": secret} for key, secret in new_keys]}, indent=2) + "\n"
    with nullcontext() if options.out is None else private_file(options.out, text):  # keys that no file holds must not be valid
        await ledger.keys.add([key for key, _ in new_keys])
    if options.out is None:
        print_line(text.rstrip("\n"))
    skipped = f", {len(user_lines) - len(new_lines)} users have one already" if len(new_lines) < len(user_lines) else ""
    _say(f"{len(new_keys)} keys made in {ledger.database.shown}{skipped}")
    if new_keys:
        place = options.out or "stdout"
        _say(f"they are in {place} and nowhere else: give each user their own, who stores it with: grader-cli login --server HOST:PORT")
    return 0


async def _list_keys(ledger: Ledger, options: argparse.Namespace) -> int:
    keys, now = await ledger.keys.all(), ledger.now()
    if options.json:
        print_json({"keys": [_plain_key(key, now) for key in keys]})
    else:
        print_table(KEY_HEADINGS, *(_key_row(key, now) for key in keys))
    return 0


async def _revoke_key(ledger: Ledger, options: argparse.Namespace) -> int:
    key = await ledger.keys.revoke(options.key_id)
    if key is None:
        return usage_error(KEYS, f"there is no key {options.key_id[:40]!r} in {ledger.database.shown}; list them with: {KEYS} list")
    if options.json:
        print_json(_plain_key(key, ledger.now()))
    else:
        print_line(f"key {key.key_id} of {key.user} is revoked; running servers refuse it within seconds")
    return 0


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


def _key_row(key: Key, now: datetime) -> tuple[str, ...]:
    scopes = ",".join(scope for scope in Scope if scope in key.scopes)
    return key.key_id, key.user, scopes, _state(key, now), _time(key.create_time), _time(key.expire_time), key.note


def _plain_key(key: Key, now: datetime) -> dict[str, Any]:
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
    sys.stderr.write(f"{KEYS}: {line}\n")


def _pause(options: argparse.Namespace, settings: Settings) -> int:
    Cordons(settings.state_dir).add(EVERY_LANE)
    print_line(f"paused: what runs ends, and what comes waits. Go on with: {QUEUE} resume")
    return 0


def _resume(options: argparse.Namespace, settings: Settings) -> int:
    if not Cordons(settings.state_dir).remove(EVERY_LANE):
        return usage_error(QUEUE, "the queue of this server is not paused; with several servers, name its --state-dir")
    print_line("the queue goes on")
    return 0


async def _take_first(ledger: Ledger, options: argparse.Namespace) -> int:
    submission_id = resource_id(SUBMISSIONS, options.submission)
    await ledger.take_first(submission_id)
    print_line(f"{submission_id} is taken up next")
    return 0


async def _list_queue(ledger: Ledger, options: argparse.Namespace) -> int:
    entries, now = await ledger.queue_entries(), ledger.now()
    cordons = Cordons(options.settings.state_dir)
    cordons.look()
    paused = EVERY_LANE in cordons.names
    if options.json:
        submissions = [
            {
                "submission": entry.submission_id,
                "state": entry.state,
                "user": entry.user,
                "mode": entry.mode,
                "device": entry.device_kind,
                "competition": entry.competition_id,
                "since": entry.since.isoformat(),
                "worker": entry.worker_id,
            }
            for entry in entries
        ]
        print_json({"paused": paused, "submissions": submissions})
        return 0
    if paused:
        print_line(f"paused: `{QUEUE} resume` lets it go on")
    if entries:
        print_table(QUEUE_HEADINGS, *_queue_rows(entries, now))
    else:
        print_line("nothing waits, and nothing runs")
    return 0


def _queue_rows(entries: Sequence[QueueEntry], now: datetime) -> Iterator[tuple[str, ...]]:
    place = 0
    for entry in entries:
        place += not entry.worker_id
        minutes, seconds = divmod(int(max((now - entry.since).total_seconds(), 0.0)), 60)
        since = f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
        fields = entry.user or "-", entry.mode, entry.device_kind or "any", entry.competition_id or "-"
        yield "runs" if entry.worker_id else str(place), entry.submission_id, *fields, since, entry.worker_id


def _cordon(options: argparse.Namespace, settings: Settings) -> int:
    name = options.name
    if NAME.fullmatch(name) is None:
        return usage_error(LANES, f"{name!r} can't be the name of a lane or a worker; `{LANES} list` shows names, such as gpu-1/cuda:0")
    Cordons(settings.state_dir).add(name)
    print_line(f"{name} ends what it has and gets nothing more. Undo it with: {LANES} uncordon {name}")
    lanes = running_lanes(settings.state_dir)
    if lanes is not None and not any(f"{lane.name}/".startswith(f"{name}/") for lane in lanes):
        print_line(f"No lane has this name now, and no worker with a lane. It holds for one that joins later; {LANES} list shows names")
    return 0


def _uncordon(options: argparse.Namespace, settings: Settings) -> int:
    if not Cordons(settings.state_dir).remove(options.name):
        return usage_error(LANES, f"{options.name} is not cordoned; `{LANES} list` shows what is")
    print_line(f"{options.name} gets work again")
    return 0


def _list_lanes(options: argparse.Namespace, settings: Settings) -> int:
    lanes, cordons = running_lanes(settings.state_dir), Cordons(settings.state_dir)
    cordons.look()
    cordoned = sorted(cordons.names)
    if options.json:
        states = [{"name": lane.name, "state": lane.state.value} for lane in lanes or ()]
        print_json({"running": lanes is not None, "lanes": states, "cordoned": cordoned})
        return 0
    if lanes:
        print_table(("lane", "state"), *((lane.name, lane.state.value) for lane in lanes))
    else:
        print_line(f"no server runs on {settings.state_dir}" if lanes is None else "the server has no lanes now")
    print_line(f"cordoned: {', '.join(cordoned)}" if cordoned else "nothing is cordoned")
    return 0


# Lists of users, for `keys import`: read from a CSV file, and the keys written to another one.

USER_LIST_FORM = "a CSV file in UTF-8 with the heading `user`, or `user,note`, and a line for each user"
USER_LIST_LIMIT_BYTES = 10 * 1024 * 1024


class KeyImportInvalid(ValueError):
    """Mistakes of a list of users, a line each."""


class UserLine(NamedTuple):
    """A user who gets a key. line: where in the file, from 1."""

    line: int
    user: str
    note: str = ""


def read_user_list(path: Path) -> list[UserLine]:
    """The users of a file. KeyImportInvalid with every mistake, each with its line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KeyImportInvalid(f"{path} can't be read: {error.strerror}; name {USER_LIST_FORM}") from None
    if len(data) > USER_LIST_LIMIT_BYTES:
        raise KeyImportInvalid(f"{path} has more than {USER_LIST_LIMIT_BYTES} bytes; split it")
    try:
        text = data.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise KeyImportInvalid(f"{path}:{line}: is not UTF-8; save the file as CSV in UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        fault = f"is not CSV ({error}); close the quotes, and write one line for each user"
        raise KeyImportInvalid(f"{path}:{reader.line_num}: {fault}") from None
    if not rows:
        raise KeyImportInvalid(f"{path} is empty; write {USER_LIST_FORM}")
    first, headings = rows[0]
    if [heading.lower() for heading in headings] not in (["user"], ["user", "note"]):
        raise KeyImportInvalid(f"{path}:{first}: the first line is not `user` or `user,note`; write {USER_LIST_FORM}")
    user_lines, mistakes, earlier_lines = list[UserLine](), list[str](), dict[tuple[str, ...], UserLine]()
    for line, row in rows[1:]:
        try:
            if len(row) != len(headings):
                raise ValueError(f"has {len(row)} fields, and the heading has {len(headings)}; quote a field with a comma in it")
            user_lines.append(_user_line(UserLine(line=line, user=row[0], note=row[1] if len(row) > 1 else ""), earlier_lines))
        except ValueError as error:
            mistakes.append(f"{path}:{line}: {error}")
    if not user_lines and not mistakes:
        mistakes.append(f"{path} has a heading and no users; write a line for each user")
    if mistakes:
        raise KeyImportInvalid("\n".join(mistakes))
    return user_lines


def _user_line(user_line: UserLine, earlier_lines: dict[tuple[str, ...], UserLine]) -> UserLine:
    """Check a line. earlier_lines: earlier ones, by user, and by user and note. ValueError."""
    check_user(user_line.user)
    check_note(user_line.note)
    earlier = earlier_lines.setdefault((user_line.user,), user_line)
    if earlier is not user_line and not (earlier.note and user_line.note):
        remedy = "leave one of them out, or, for the members of a team, give each a note of their own"
        raise ValueError(f"user {user_line.user!r} is on line {earlier.line} too; {remedy}")
    if (same := earlier_lines.setdefault((user_line.user, user_line.note), user_line)) is not user_line:
        raise ValueError(f"user {user_line.user!r} with this note is on line {same.line} too; leave one of them out")
    return user_line


def without_keyed(user_lines: Sequence[UserLine], keyed: Collection[tuple[str, str]], name: str, *, skip: bool) -> list[UserLine]:
    """The users who have no valid key yet, and the members of teams. KeyImportInvalid where some have one and are not to be skipped.

    keyed: users with the notes of their valid keys. A user of several lines is a team, whose members go by their notes.
    """
    count, users = Counter(user_line.user for user_line in user_lines), {user for user, _ in keyed}
    new_lines, mistakes = [], []
    for user_line in user_lines:
        is_member = count[user_line.user] > 1
        if (user_line.user, user_line.note) not in keyed if is_member else user_line.user not in users:
            new_lines.append(user_line)
        else:
            remedy = "leave the line out, revoke the key, or pass --skip-existing"
            mistakes.append(f"{name}:{user_line.line}: user {user_line.user!r} has a valid key already; {remedy}")
    if mistakes and not skip:
        raise KeyImportInvalid("\n".join(mistakes))
    return new_lines


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


def keys_csv(new_keys: Sequence[tuple[Key, str]]) -> str:
    """Users, their keys and the notes of these, with a heading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([("user", "key_id", "key", "note"), *((key.user, key.key_id, text, key.note) for key, text in new_keys)])
    return out.getvalue()
