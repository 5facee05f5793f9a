"""`grader-server admin keys import FILE`: a key for each user of a CSV file; the keys go to stdout or another file."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

from grader.ledger import Ledger
from grader.rules.keys import Key, check_note, check_user, new
from grader.server.admin import KEYS, add_key_terms, in_ledger, plain_key, print_note, read_duration, read_scopes
from grader.server.settings import add_json_option, add_ledger_options, print_line, run_command
from grader_extensions.export_file import csv_text

USER_LIST_FORM = "a CSV file in UTF-8 with the heading `user`, or `user,note`, and a line for each user"
USER_LIST_LIMIT_BYTES = 10 * 1024 * 1024


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code, as those of `grader-server admin`."""
    options = parser().parse_args(arguments)
    return run_command(KEYS, options, partial(in_ledger, _import_keys, options))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    description = "Makes one key for each user of a CSV file: all of them, or none."
    command_parser = argparse.ArgumentParser(prog=f"{KEYS} import", description=description)
    command_parser.add_argument("file", type=Path, metavar="FILE", help=USER_LIST_FORM)
    text = "write user,key_id,key,note there, readable for its owner only (stdout)"
    command_parser.add_argument("--out", type=Path, metavar="FILE", help=text)
    text = "make no key for users who have a valid one (an error)"
    command_parser.add_argument("--skip-existing", action="store_true", help=text)
    add_ledger_options(command_parser)
    add_json_option(command_parser)
    add_key_terms(command_parser)
    return command_parser


async def _import_keys(ledger: Ledger, options: argparse.Namespace) -> int:
    user_lines, now = read_user_list(options.file), ledger.now()
    duration, scopes = read_duration(options.expires), read_scopes(options.scopes)
    keyed = {(key.user, key.note) for key in await ledger.keys.all() if key.valid(now)}
    new_lines = without_keyed(user_lines, keyed, str(options.file), skip=options.skip_existing)
    expire_time = None if duration is None else now + duration
    new_keys = [new(user_line.user, scopes, now, expire_time=expire_time, note=user_line.note) for user_line in new_lines]
    text = keys_csv(new_keys)
    if options.json:
        text = json.dumps({"keys": [plain_key(key, now) | {"key": secret} for key, secret in new_keys]}, indent=2) + "\n"
    with nullcontext() if options.out is None else private_file(options.out, text):  # keys that no file holds must not be valid
        await ledger.keys.add([key for key, _ in new_keys])
    if options.out is None:
        print_line(text.rstrip("\n"))
    skipped = f", {len(user_lines) - len(new_lines)} users have one already" if len(new_lines) < len(user_lines) else ""
    print_note(f"{len(new_keys)} keys made in {ledger.database.shown}{skipped}")
    if new_keys:
        place = options.out or "stdout"
        print_note(
            f"they are in {place} and nowhere else: give each user their own, who stores it with: grader-cli login --server HOST:PORT"
        )
    return 0


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
    return csv_text(("user", "key_id", "key", "note"), *((key.user, key.key_id, text, key.note) for key, text in new_keys))
