"""Reads a list of users for `grader-server admin keys import`, and writes their keys down."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grader.rules.keys import Key, check_note, check_user

HEADINGS = ("user", "note")
FORM = "a CSV file in UTF-8 with the heading `user`, or `user,note`, and a line for each user"
_SIZE_LIMIT_BYTES = 10 * 1024 * 1024


class KeyImportInvalid(ValueError):
    """What is wrong with the list, a line each."""


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
    first, headings = filled[0][0], [one.lower() for one in filled[0][1]]
    if headings not in (list(HEADINGS[:1]), list(HEADINGS)):
        raise KeyImportInvalid(f"{name}:{first}: the first line is not `user` or `user,note`; write {FORM}")
    found, mistakes = [], []
    lines: dict[tuple[str, str], int] = {}
    first_of: dict[str, UserLine] = {}
    for line, row in filled[1:]:
        if len(row) != len(headings):
            mistakes.append(f"{name}:{line}: has {len(row)} fields, and the heading has {len(headings)}; quote a field with a comma in it")
            continue
        one = UserLine(line=line, user=row[0], note=row[1] if len(row) > 1 else "")
        try:
            check_user(one.user)
            check_note(one.note)
        except ValueError as error:
            mistakes.append(f"{name}:{line}: {error}")
            continue
        known = first_of.setdefault(one.user, one)
        if known is not one and not (known.note and one.note):
            remedy = "leave one of them out, or, for the members of a team, give each a note of their own"
            mistakes.append(f"{name}:{line}: user {one.user!r} is on line {known.line} too; {remedy}")
            continue
        if (same := lines.setdefault((one.user, one.note), line)) != line:
            mistakes.append(f"{name}:{line}: user {one.user!r} with this note is on line {same} too; leave one of them out")
            continue
        found.append(one)
    if not found and not mistakes:
        mistakes.append(f"{name} has a heading and no users; write a line for each user")
    if mistakes:
        raise KeyImportInvalid("\n".join(mistakes))
    return found


def without_keyed(found: Sequence[UserLine], keyed: Collection[tuple[str, str]], name: str, *, skip: bool) -> list[UserLine]:
    """The users who have no valid key yet, and the members of teams. KeyImportInvalid where some have one and are not to be skipped.

    keyed: users with the notes of their valid keys. A user of several lines is a team, whose members go by their notes.
    """
    count, users = Counter(one.user for one in found), {user for user, _ in keyed}
    again = [one for one in found if ((one.user, one.note) in keyed if count[one.user] > 1 else one.user in users)]
    if again and not skip:
        remedy = "leave the line out, revoke the key, or pass --skip-existing"
        raise KeyImportInvalid("\n".join(f"{name}:{one.line}: user {one.user!r} has a valid key already; {remedy}" for one in again))
    skipped = {one.line for one in again}
    return [one for one in found if one.line not in skipped]


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


def to_csv(made: Sequence[tuple[Key, str]]) -> str:
    """Users, their keys and the notes of these, with a heading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("user", "key_id", "key", "note"))
    writer.writerows((key.user, key.key_id, text, key.note) for key, text in made)
    return out.getvalue()
