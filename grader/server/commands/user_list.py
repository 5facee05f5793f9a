"""Lists of users, for `grader-server admin keys import`: read from a CSV file, and the keys written to another one."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from grader.rules.keys import Key, check_note, check_user

FORM = "a CSV file in UTF-8 with the heading `user`, or `user,note`, and a line for each user"
_SIZE_LIMIT_BYTES = 10 * 1024 * 1024


class KeyImportInvalid(ValueError):
    """Mistakes of a list of users, a line each."""


class UserLine(NamedTuple):
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
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        fault = f"is not CSV ({error}); close the quotes, and write one line for each user"
        raise KeyImportInvalid(f"{path}:{reader.line_num}: {fault}") from None
    if not rows:
        raise KeyImportInvalid(f"{path} is empty; write {FORM}")
    first, headings = rows[0]
    if [heading.lower() for heading in headings] not in (["user"], ["user", "note"]):
        raise KeyImportInvalid(f"{path}:{first}: the first line is not `user` or `user,note`; write {FORM}")
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


def to_csv(new_keys: Sequence[tuple[Key, str]]) -> str:
    """Users, their keys and the notes of these, with a heading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([("user", "key_id", "key", "note"), *((key.user, key.key_id, text, key.note) for key, text in new_keys)])
    return out.getvalue()
