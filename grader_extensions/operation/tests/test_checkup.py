"""Findings of `grader-server doctor`, and that it changes nothing."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from grader.config import Settings
from grader.ledger import Ledger
from grader.model import Scope
from grader.server.main import main
from grader.state_dir import state_lock
from grader_extensions.operation import server_doctor as checkup
from grader_extensions.operation.server_doctor import CheckupStatus
from tests import fakes

NOW = datetime.now(UTC)


@pytest.fixture
def settings(tmp_path):
    fakes.write_problem(tmp_path / "problems", "sum")
    bare = Settings(listen=f"unix:{tmp_path}/s", state_dir=tmp_path / "state", problems=(tmp_path / "problems",), database="", trace="")
    bare.state_dir.mkdir()
    return bare


def check_of(settings, name, now=NOW, **changes):
    (result,) = [check for check in checkup.look(settings.model_copy(update=changes), now) if check.name == name]
    return result


async def submitted(settings, at):
    async with Ledger.open(settings.ledger, now=lambda: at) as ledger:
        await ledger.submit(fakes.new_submission(), fakes.problem())


def test_a_bare_machine_is_well_and_left_bare(settings):
    """Nothing is wrong before the first start, and nothing was made by looking."""
    assert {check.standing for check in checkup.look(settings)} == {CheckupStatus.OK}
    assert list(settings.state_dir.iterdir()) == []


async def test_a_clock_behind_the_ledger_is_wrong(settings):
    """Leases and windows go by it; a little is a warning."""
    await submitted(settings, NOW)
    standings = [check_of(settings, "clock", NOW - timedelta(seconds=behind)).standing for behind in (0, 10, 3600)]
    assert standings == [CheckupStatus.OK, CheckupStatus.WARNING, CheckupStatus.WRONG]


def test_a_database_that_does_not_answer_is_wrong_and_its_password_is_not_said(settings):
    """The whole of what is printed has no secret."""
    findings = list(checkup.look(settings.model_copy(update={"database": "postgresql://u:planted@127.0.0.1:1/db"})))
    assert [check.standing for check in findings if check.name == "ledger"] == [CheckupStatus.WRONG]
    assert "planted" not in repr(findings)


async def test_keys_are_asked_for_where_callers_need_one(settings):
    """A valid key is well; none, an expired or a revoked one is not."""
    assert check_of(settings, "keys", auth="keys").standing is CheckupStatus.WRONG
    async with Ledger.open(settings.ledger) as ledger:
        key, _ = await ledger.keys.create("alice", frozenset(Scope), expire_time=NOW + timedelta(days=1))
        assert check_of(settings, "keys", auth="keys").detail == "1 valid"
        assert "keys create" in check_of(settings, "keys", NOW + timedelta(days=2), auth="keys").remedy
        await ledger.keys.revoke(key.key_id)
    assert check_of(settings, "keys", auth="keys").standing is CheckupStatus.WRONG


@pytest.mark.parametrize(("days", "standing"), [(100, CheckupStatus.OK), (10, CheckupStatus.WARNING), (-1, CheckupStatus.WRONG)])
def test_a_certificate_is_told_about_before_it_ends(settings, tmp_path, days, standing):
    """Three weeks before it is a warning; one that has ended stops a server."""
    certificate_pair = trustme.CA().issue_cert("localhost", not_before=NOW - timedelta(days=30), not_after=NOW + timedelta(days=days))
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in certificate_pair.cert_chain_pems))
    key.write_bytes(certificate_pair.private_key_pem.bytes())
    assert check_of(settings, "TLS", tls_certificate=certificate, tls_key=key).standing is standing


async def test_a_port_that_is_taken_is_wrong_unless_the_server_runs(settings):
    """With the state directory's lock held, it is the server's own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        web = str(listener.getsockname()[1])
        assert check_of(settings, "web port", web=web).standing is CheckupStatus.WRONG
        async with state_lock(settings.state_dir):
            assert check_of(settings, "web port", web=web).standing is CheckupStatus.OK
            assert f"process {os.getpid()}" in check_of(settings, "server").detail
    assert check_of(settings, "web port", web=web).standing is CheckupStatus.OK


def test_each_finding_is_a_line_or_an_object(settings, capsys):
    """Options are the server's own; the exit code says whether it would start."""
    options = ["--state-dir", str(settings.state_dir), "--listen", settings.listen, "--problems", str(settings.problems[0]), "--web", "0"]
    assert main(["doctor", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["doctor", *options, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] and len(report["findings"]) == len(lines)
    assert main(["doctor", *options, "--auth", "keys"]) == 1
    assert "WRONG keys" in capsys.readouterr().out
    assert main(["doctor", "--web", "nowhere"]) == 2
