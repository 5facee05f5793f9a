"""`grader-server backup` and `grader-server check`, on both databases, while a server has the ledger open."""

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
import stat

import psycopg
import pytest

from grader.config import LEDGER_NAME
from grader.ledger import Ledger
from grader.model import Failure
from grader.server.main import main
from tests import fakes

DATABASES = ["sqlite", "postgresql"]
OK, BROKEN, UNUSABLE = 0, 1, 2
SECRET = "s3cr3t-w0rd"


@pytest.fixture(params=DATABASES)
def where(request, tmp_path, monkeypatch):
    """Return where the ledger is: options, and what `Ledger.open` takes."""
    monkeypatch.delenv("GRADER_DATABASE", raising=False)
    if request.param == "sqlite":
        yield ["--state-dir", str(tmp_path)], tmp_path / LEDGER_NAME
        return
    postgres = request.getfixturevalue("postgres")
    monkeypatch.setenv("PATH", f"{postgres.bin_dir}:{os.environ['PATH']}")
    url = postgres.database()
    yield ["--state-dir", str(tmp_path), "--database", url], url


@pytest.fixture
async def ledger(where):
    """A ledger with one submission in each state, open."""
    async with Ledger.open(where[1]) as ledger:
        submissions = [await ledger.submit(fakes.new_submission(), fakes.problem()) for _ in range(5)]
        graded, broken = [await ledger.lease("w1", ttl_s=600) for _ in range(2)]
        await ledger.append(graded, [fakes.ENVIRONMENT, fakes.trial()])
        await ledger.settle(graded, fakes.report())
        await ledger.release(broken, Failure(reason="PROBLEM_BROKEN", message="no reference", final=True))
        await ledger.lease("w1", ttl_s=600)
        await ledger.cancel(submissions[3].submission_id)
        yield ledger


def statement(where, *texts):
    """Write into the ledger behind its back."""
    location = where[1]
    with contextlib.closing(psycopg.connect(location) if isinstance(location, str) else sqlite3.connect(location)) as connection:
        for text in texts:
            connection.execute(text)
        connection.commit()


async def run(*words):
    """A command beside the ledger that is open."""
    return await asyncio.to_thread(main, [str(word) for word in words])


async def broken_checks(where, capsys):
    capsys.readouterr()
    code = await run("check", "--json", *where[0])
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] == (code == OK)
    return {check["name"] for check in report["checks"] if not check["ok"]}


async def test_a_ledger_in_use_is_whole(where, ledger, capsys):
    """Each check has a line with its result."""
    assert await run("check", *where[0]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 8 and all(line.startswith("ok ") for line in lines)


DAMAGE = {
    "a judgement that is not its row": ("UPDATE judgements SET summary = 'another'", {"judgements"}),
    "a judgement that is lost": ("DELETE FROM judgements", {"judgements", "judgement_sequences"}),
    "a score that was changed": ("UPDATE submissions SET score = 9.5 WHERE state = 'succeeded'", {"judgements"}),
    "a fact that is lost": ("DELETE FROM events WHERE number = 1 AND sequence = 4", {"judged_events"}),
    "a last event that is lost": ("DELETE FROM events WHERE number = 1 AND sequence = 5", {"event_sequences"}),
    "an event of what runs that is lost": ("DELETE FROM events WHERE number = 3 AND sequence = 1", {"event_sequences"}),
    "a lease on what is finished": ("UPDATE submissions SET worker_id = 'w' WHERE number = 1", {"leases"}),
    "a run that is nobody's": ("UPDATE submissions SET worker_id = NULL WHERE state = 'running'", {"workers"}),
    "an end that is not known": ("UPDATE submissions SET end_time = NULL WHERE number = 2", {"end_times"}),
    "a failure without reason": ("UPDATE submissions SET failure = NULL", {"failures"}),
}


async def test_each_damage_is_found_and_named(where, ledger, capsys):
    """And only what is damaged: each is done to the same ledger and undone."""
    tables, columns = ("judgements", "events"), ("worker_id", "end_time", "failure", "score")
    statement(where, *(f"CREATE TABLE kept_{name} AS SELECT * FROM {name}" for name in ("submissions", *tables)))
    query = "(SELECT {0} FROM kept_submissions WHERE kept_submissions.number = submissions.number)"
    undo = [f"UPDATE submissions SET {', '.join(f'{name} = {query.format(name)}' for name in columns)}"]
    undo += [text for name in tables for text in (f"DELETE FROM {name}", f"INSERT INTO {name} SELECT * FROM kept_{name}")]
    for damage, (text, wanted) in DAMAGE.items():
        statement(where, text)
        assert await broken_checks(where, capsys) == wanted, damage
        statement(where, *undo)
    assert await broken_checks(where, capsys) == set()


async def test_a_foreign_key_that_leads_nowhere_is_found(where, ledger, capsys):
    """On PostgreSQL it can only be one that was switched off."""
    if isinstance(where[1], str):
        statement(where, "ALTER TABLE judgements DROP CONSTRAINT fk_judgements_number")
    else:
        statement(where, "PRAGMA foreign_keys = OFF")
        statement(where, "UPDATE judgements SET problem_digest = 'nothing'")
    assert await broken_checks(where, capsys) == {"foreign_keys"}


async def test_tables_of_another_version_are_told_and_not_looked_into(where, ledger, capsys):
    """The other checks could not even be asked."""
    statement(where, "UPDATE alembic_version SET version_num = '0001'")
    assert await run("check", *where[0]) == BROKEN
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("BROKEN schema: version 0001") and "upgrades" in line


def test_a_ledger_that_is_not_there_can_not_be_checked(tmp_path, capsys):
    """And none is made by asking."""
    assert main(["check", "--state-dir", str(tmp_path / "a")]) == UNUSABLE
    assert "--state-dir" in capsys.readouterr().err and not (tmp_path / "a").exists()
    assert main(["check", "--database", f"postgresql://u:{SECRET}@/x?host={tmp_path}"]) == UNUSABLE
    message = capsys.readouterr().err
    assert "postgresql://u@/x" in message and SECRET not in message


SQLITE = pytest.mark.parametrize("where", ["sqlite"], indirect=True)


@SQLITE
async def test_a_backup_is_a_whole_ledger_and_only_its_owners(where, ledger, tmp_path, capsys):
    """Made while a server writes; restored, every submission is there, and the next one gets the next number."""
    before = (await ledger.page(size=9))[0]
    assert await run("backup", tmp_path / "b", *where[0]) == OK
    assert "To restore it" in capsys.readouterr().out
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if ".b." in path.name or path.name.startswith("b")) == ["b"]
    await ledger.submit(fakes.new_submission(), fakes.problem())  # after it, and not in it
    (tmp_path / "restored").mkdir()
    shutil.copy(tmp_path / "b", tmp_path / "restored" / LEDGER_NAME)
    assert await run("check", "--state-dir", tmp_path / "restored") == OK
    async with Ledger.open(tmp_path / "restored" / LEDGER_NAME) as again:
        assert (await again.page(size=9))[0] == before
        assert before[0].submission_id != (await again.submit(fakes.new_submission(), fakes.problem())).submission_id


@SQLITE
async def test_a_backup_overwrites_nothing_unless_it_is_told_to(where, ledger, tmp_path, capsys):
    """And says how to tell it."""
    (tmp_path / "b").write_text("precious")
    assert await run("backup", tmp_path / "b", *where[0]) == UNUSABLE
    assert "--force" in capsys.readouterr().err and (tmp_path / "b").read_text() == "precious"
    assert await run("backup", tmp_path / "b", "--force", *where[0]) == OK
    assert (tmp_path / "b").stat().st_size > 10_000 and stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600


@pytest.mark.parametrize("page", [1, -4])
async def test_a_damaged_ledger_gives_no_backup_and_keeps_the_old_one(page, tmp_path, capsys, monkeypatch):
    """A broken ledger must not replace a whole backup."""
    monkeypatch.delenv("GRADER_DATABASE", raising=False)
    async with Ledger.open(tmp_path / LEDGER_NAME) as ledger:
        for _ in range(20):
            await ledger.submit(fakes.new_submission("x" * 5000), fakes.problem())
    with (tmp_path / LEDGER_NAME).open("r+b") as file:
        file.seek(4096 * page, os.SEEK_SET if page > 0 else os.SEEK_END)
        file.write(b"\xff" * 4096 * 3)
    (tmp_path / "b").write_text("precious")
    assert main(["backup", str(tmp_path / "b"), "--force", "--state-dir", str(tmp_path)]) == BROKEN
    assert "check" in capsys.readouterr().err and (tmp_path / "b").read_text() == "precious"
    assert main(["check", "--state-dir", str(tmp_path)]) == BROKEN
    assert "BROKEN integrity: " in capsys.readouterr().out


def test_of_postgresql_the_command_to_run_is_told(tmp_path, capsys):
    """With everything but the password, and nothing is left behind."""
    url = f"postgresql://grader:{SECRET}@db.example:5433/ledger"
    assert main(["backup", str(tmp_path / "b"), "--database", url]) == UNUSABLE
    error = capsys.readouterr().err
    assert "pg_dump --format=custom" in error and "db.example" in error and f"--file={tmp_path / 'b'}" in error and SECRET not in error
    assert list(tmp_path.iterdir()) == []
