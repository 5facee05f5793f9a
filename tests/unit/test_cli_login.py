"""`grader-cli login`, `logout`, `whoami` and `grader-server admin keys`, against a server that asks for keys over TLS."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grader.cli.main import app
from grader.server import admin
from tests.threaded_server import ThreadedServer, certificates, threaded_server

Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedServer]:
    """A server that asks for keys over TLS."""
    root = tmp_path_factory.mktemp("keyed")
    with threaded_server(root, **certificates(root)) as server:
        yield server


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run grader-cli as a user with a home of its own."""
    for name in ("GRADER_KEY", "GRADER_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "conf"))

    def run(*words: object, typed: str = "", **environment: str) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], input=typed, env=environment)

    return run


@pytest.fixture
def key(there: ThreadedServer, capsys: pytest.CaptureFixture[str]) -> str:
    assert there.admin("create", "alice", "--note", "a laptop") == 0
    return capsys.readouterr().out.strip()


@pytest.mark.slow
def test_a_key_is_made_stored_used_revoked_and_forgotten(there, cli, key, capsys, tmp_path):
    """All of it, while the server runs; the key is on no screen after it was made."""
    at = f"https://{there.address}"
    result = cli("login", "--server", at, "--ca", there.ca, typed=f"{key}\n")
    assert result.exit_code == 0, result.output
    assert "alice" in result.output and key not in result.output
    stored = tmp_path / "conf" / "grader" / "credentials.json"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600 and key in stored.read_text()
    # From now on its address alone is enough: that it speaks TLS, and whose certificate it has, is stored with the key.
    assert json.loads(cli("whoami", "--json").output)["user"] == "alice"
    assert cli("list", "--server", there.address).exit_code == 0
    assert "that you may see" in cli("list", "--server", there.address, "--user", "bob", "--competition", "cup").output
    assert cli("list", GRADER_SERVER=there.address).exit_code == 0
    assert there.admin("list") == 0
    listed = capsys.readouterr().out
    assert "alice" in listed and "a laptop" in listed and key.split("_")[2] not in listed
    assert there.admin("revoke", key.split("_")[1]) == 0
    refused = cli("whoami")
    while refused.exit_code == 0:  # a running server sees it within seconds
        refused = cli("whoami")
    assert refused.exit_code == 2 and "revoked" in refused.output and "login" in refused.output
    assert cli("logout").exit_code == 0 and there.address not in stored.read_text()


def test_a_key_in_the_environment_goes_before_the_stored_one(there, cli, key, capsys):
    """For programs. A wrong one is no reason to take the other."""
    cli("login", "--server", there.address, "--ca", there.ca, typed=key)
    assert there.admin("create", "robot", "--scopes", "read", "--expires", "never") == 0
    robot = capsys.readouterr().out.strip()
    users = [json.loads(cli("whoami", "--json", GRADER_KEY=api_key).output)["user"] for api_key in ("", robot)]
    assert users == ["alice", "robot"]
    assert cli("whoami", GRADER_KEY="grader_" + "0" * 12 + "_" + "0" * 64).exit_code == 2


def test_a_key_that_does_not_work_is_not_stored(there, cli, key, tmp_path):
    """The server is asked about the key before it is stored; a stored one stays."""
    at = f"https://{there.address}"
    for typed in ("", "grader_x", f"{key}0", key[:-1] + ("0" if key[-1] != "0" else "1")):
        result = cli("login", "--server", at, "--ca", there.ca, typed=typed)
        assert result.exit_code == 2 and "error: " in result.output and (not typed or typed not in result.output)
    assert not (tmp_path / "conf" / "grader" / "credentials.json").exists()


def test_no_key_is_taken_from_the_command_line(cli, there):
    assert cli("login", "--server", there.address, "grader_a_b").exit_code == 2
    assert cli("login", "--server", there.address, "--key", "grader_a_b").exit_code == 2


def test_login_refuses_plain_text_before_a_key_is_read(cli):
    """Beyond this host; with the flag it goes on, to say that none came."""
    result = cli("login", "--server", "http://192.0.2.1:1", typed="")
    assert result.exit_code == 2 and "plain text" in result.output
    result = cli("login", "--server", "http://192.0.2.1:1", "--insecure-plain-text", typed="")
    assert result.exit_code == 2 and "no key came" in result.output


def test_a_server_without_keys_is_logged_in_to_without_one(cli, tmp_path):
    """With --no-key nothing is asked; a key that was typed all the same is not kept."""
    stored = tmp_path / "conf" / "grader" / "credentials.json"
    with threaded_server(tmp_path / "open", auth="none") as here:
        words = [("login", "--server", here.address, "--no-key"), ("login", "--server", here.address), ("whoami",)]
        first, second, who = (cli(*command, typed="grader_a_b") for command in words)
    for result in (first, second):
        assert result.exit_code == 0 and "asks for no keys" in result.output and "the default server now" in result.output
    assert "grader_a_b" not in stored.read_text() and stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert "asks for no keys" in who.output


def test_a_server_that_requires_a_key_is_not_logged_in_to_without_one(there, cli, tmp_path):
    """The control."""
    result = cli("login", "--server", f"https://{there.address}", "--ca", there.ca, "--no-key")
    assert result.exit_code == 2 and "no API key was sent" in result.output
    assert not (tmp_path / "conf" / "grader" / "credentials.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["whoami"], "grader-cli login --server"),
        (["logout"], "grader-cli login --server"),
        (["login"], "--server is missing"),
        (["logout", "--server", "a:1"], "stored are: none"),
        (["login", "--server", "127.0.0.1:1", "--ca", "/dev/null"], "is not a certificate in PEM"),
        (["login", "--server", "127.0.0.1:1", "--ca", "/none"], "can't read"),
    ],
)
def test_misuse_says_what_to_write(cli, words, message):
    result = cli(*words, typed="x")
    assert result.exit_code == 2 and message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["create", "Alice"], "user name"),
        (["create", "alice", "--scopes", "read,all"], "submit, read, admin"),
        (["create", "alice", "--scopes", ""], "submit, read, admin"),
        (["create", "alice", "--expires", "0d"], "90d, 12h or 30m"),
        (["create", "alice", "--expires=-1d"], "90d"),
        (["create", "alice", "--expires", "999999999d"], "90d, 12h or 30m"),
        (["revoke", "nope"], "admin keys list"),
    ],
)
def test_an_administrator_is_told_what_to_write(tmp_path, capsys, words, message):
    try:
        code = admin.main(["keys", *words, "--state-dir", str(tmp_path)])
    except SystemExit as ended:
        code = ended.code
    output = capsys.readouterr()
    assert code == 2 and message in output.err and output.out == ""
    assert admin.main(["keys", "list", "--json", "--state-dir", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"keys": []}


def test_the_key_alone_is_on_stdout(tmp_path, capsys):
    """So that it can be piped; in JSON it is there with the rest, this once."""
    assert admin.main(["keys", "create", "alice", "--state-dir", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert len(output.out.split()) == 1 and output.out.startswith("grader_") and output.out.strip() not in output.err
    assert admin.main(["keys", "create", "bob", "--scopes", "admin", "--expires", "12h", "--json", "--state-dir", str(tmp_path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["user"], record["scopes"], record["state"]) == ("bob", ["admin"], "valid") and record["key"].startswith("grader_")
