"""The section "Hold a competition" of docs/operation.md works as written, from a new directory in a clone."""

import csv
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, TIMEOUT_S
from tests.ports import free_port

HEADING, PORT, WEB_PORT = "## Hold a competition", "50551", "8080"
SERVER = "grader-server --listen"


def blocks() -> list[list[str]]:
    """The commands of each indented block of the section."""
    section = (ROOT / "docs" / "operation.md").read_text().split(f"{HEADING}\n")[1].split("\n## ")[0]
    return [[line.strip() for line in block.splitlines()] for block in re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)]


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Until the server is ready."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:  # refused, or too busy to answer yet
            time.sleep(0.1)
    pytest.fail(f"the server is not ready (exit code {server.poll()})")


def test_the_section_has_a_block_for_the_server_and_one_for_the_client():
    """The control of how the section is read."""
    first, second = blocks()
    assert first[-1].startswith(SERVER) and sum(line.startswith(SERVER) for line in first) == 1
    assert len(first) == 20 and len(second) == 5


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.timeout(600)
def test_the_section_works_as_written(environment, tmp_path):
    """Each command ends with 0, the server takes the certificate and the file, and a user's key from the list opens it."""
    clone = tmp_path / "clone"
    (clone / ".venv").mkdir(parents=True)
    (clone / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (clone / "kernels_examples").symlink_to(ROOT / "kernels_examples")
    environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "GRADER_RESIDENT_TOOLCHAIN": "0"}
    ports = {port: str(free_port()) for port in (PORT, WEB_PORT)}

    def bash(lines: list[str], place: Path, **variables: str) -> str:
        text = "\n".join(lines)
        for port, replacement in ports.items():
            text = text.replace(port, replacement)
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=place,
            env=environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert result.returncode == 0, f"{text}\n{result.stdout}{result.stderr}"
        return result.stdout

    (*before, command), after = blocks()
    assert "ok: autumn, problems: vector_add" in bash(before, clone)
    place = clone / "my-competition"
    assert all(
        (place / name).stat().st_mode & 0o777 == 0o600 for name in ("tls.key", "organiser.key", "keys.csv", "autumn/competition.toml")
    )
    for port, replacement in ports.items():
        command = command.replace(port, replacement)
    there = environment | {"PATH": f"{clone}/.venv/bin:{environment['PATH']}"}
    server = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=place, stdin=subprocess.DEVNULL, env=there)
    try:
        wait_for(f"http://127.0.0.1:{ports[WEB_PORT]}/readyz", server)
        shown = bash(after, place)
        assert "autumn: Autumn" in shown and "autumn.zip: " in shown and (place / "autumn.zip").is_file()
        with (place / "keys.csv").open() as file:
            keys = {row["user"]: row["key"] for row in csv.DictReader(file)}
        who = bash(["../.venv/bin/grader-cli whoami"], place, GRADER_KEY=keys["ben"])
        assert "ben" in who and set(keys) == {"ann", "ben"}
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[WEB_PORT]}/competitions/autumn", timeout=TIMEOUT_S) as answer:
            assert b"Autumn" in answer.read()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(TIMEOUT_S)
