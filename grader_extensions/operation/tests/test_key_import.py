"""`admin keys import`: one key for each user of a file, all or none, and every mistake with its line."""

import asyncio
import csv
import io

import pytest

from grader.ledger import Ledger
from grader.server.admin import main


@pytest.fixture
def admin(tmp_path, capsys):
    """Run the command over a file with this text; exit code, stdout, stderr."""

    def run(text, *words, name="users.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        code = main(["keys", "import", str(path), "--state-dir", str(tmp_path / "state"), *words])
        return code, *capsys.readouterr()

    return run


def keys(tmp_path):
    async def stored():
        async with Ledger.open(tmp_path / "state" / "ledger.sqlite3") as ledger:
            return await ledger.keys.all()

    return asyncio.run(stored())


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_each_user_gets_one_key_on_stdout(admin, tmp_path):
    """The text of each opens what the ledger has; notes arrive; blank lines and a byte order mark are no users."""
    code, out, err = admin('\ufeffuser,note\nann,"team 1, red"\n\n  ben , \n')
    assert code == 0 and [row["user"] for row in rows(out)] == ["ann", "ben"]
    there = {key.user: key for key in keys(tmp_path)}
    assert there["ann"].note == "team 1, red" and there["ben"].note == ""
    assert all(there[row["user"]].key_id == row["key_id"] in row["key"] for row in rows(out))
    assert "2 keys made" in err and rows(out)[0]["key"] not in err


def test_a_file_of_keys_is_for_its_owner_only_and_never_overwritten(admin, tmp_path):
    code, out, _ = admin("user\nann\n", "--out", str(tmp_path / "keys.csv"))
    assert code == 0 and out == ""
    assert (tmp_path / "keys.csv").stat().st_mode & 0o777 == 0o600 and len(rows((tmp_path / "keys.csv").read_text())) == 1
    code, _, err = admin("user\nben\n", "--out", str(tmp_path / "keys.csv"))
    assert code == 2 and "is there already, and may hold keys; name another file" in err
    assert len(keys(tmp_path)) == 1, "no key is made that is nowhere written down"


def test_users_who_have_a_key_are_an_error_or_skipped(admin, tmp_path):
    """So that the same list with late entrants can be imported again."""
    assert admin("user\nann\n")[0] == 0
    code, out, err = admin("user\nann\nben\n", "--out", str(tmp_path / "keys.csv"))
    assert code == 2 and "users.csv:2: user 'ann' has a valid key already; leave the line out" in err and out == ""
    assert not (tmp_path / "keys.csv").exists()
    code, out, err = admin("user\nann\nben\n", "--skip-existing")
    assert code == 0 and [row["user"] for row in rows(out)] == ["ben"] and "1 users have one already" in err


def test_every_mistake_has_its_line_and_no_key_is_made(admin, tmp_path):
    code, out, err = admin("user\nann\nann\nbad name!\nben,x\ncy\n")
    assert code == 2 and out == ""
    lines = [line.removeprefix("grader-server admin keys: ") for line in err.splitlines()]
    assert [line.split("users.csv:")[1].split(":")[0] for line in lines] == ["3", "4", "5"]
    assert "user 'ann' is on line 2 too; leave one of them out, or, for the members of a team" in lines[0] and "has 2 fields" in lines[2]
    assert keys(tmp_path) == []
    assert "users.csv:2: a note is one line" in admin(f"user,note\nann,{'x' * 201}\n")[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; write a CSV file"),
        ("ann\nben\n", ":1: the first line is not `user` or `user,note`"),
        ("user;note\nann;x\n", ":1: the first line is not"),
        ("user\n", "has a heading and no users"),
        ('user\n"ann\n', ":2: is not CSV"),
        (b"user\nann\n\xff\n", ":3: is not UTF-8; save the file as CSV in UTF-8"),
    ],
)
def test_what_is_no_list_is_refused_with_what_to_write(admin, text, message):
    code, _, err = admin(text)
    assert code == 2 and message in err


def test_a_user_on_several_lines_is_a_team_of_members_with_notes(admin, tmp_path):
    """Each has a key of the same user. A member who comes later gets one by the whole list."""
    code, out, _ = admin("user,note\nred,ann\nred,ben\nsolo,\n")
    assert code == 0 and [(row["user"], row["note"]) for row in rows(out)] == [("red", "ann"), ("red", "ben"), ("solo", "")]
    assert len({row["key"] for row in rows(out)}) == 3
    late = "user,note\nred,ann\nred,ben\nred,cyd\nsolo,\n"
    assert admin(late)[0] == 2
    code, out, _ = admin(late, "--skip-existing")
    assert code == 0 and [(row["user"], row["note"]) for row in rows(out)] == [("red", "cyd")]


@pytest.mark.parametrize("text", ["red,ann\nred,\n", "red,\nred,ann\n", "red,ann\nred,ann\n"])
def test_members_that_can_not_be_told_apart_are_a_mistake(admin, tmp_path, text):
    code, _, err = admin(f"user,note\n{text}")
    assert code == 2 and "users.csv:3: user 'red'" in err and "is on line 2 too" in err
    assert keys(tmp_path) == []
