"""Sockets in directories that lie deep: an address has 107 bytes at most, and $TMPDIR is the user's."""

import os
import socket
import threading
from pathlib import Path

import pytest

from sandbox.judge.runner_link import accept
from sandbox.protocol.box_files import ADDRESS_BYTES, socket_address
from sandbox.runner.run import _connect


@pytest.mark.parametrize("depth", [0, 3])
def test_a_runner_reaches_its_judge_however_deep(tmp_path: Path, depth: int) -> None:
    """The control is the same path as it is."""
    place = tmp_path.joinpath(*["a" * 60] * depth)
    place.mkdir(parents=True, exist_ok=True)
    path = str(place / "judge.sock")
    if depth:
        with socket.socket(socket.AF_UNIX) as plain, pytest.raises(OSError, match="too long"):
            plain.bind(path)
    messages: list[bytes] = []

    def runner() -> None:
        with _connect(path) as link:
            messages.append(link.recv(3))

    thread = threading.Thread(target=runner, daemon=True)
    thread.start()
    with accept(path, os.getuid(), 300.0) as link:
        link.sendall(b"yes")
    thread.join(300)
    assert messages == [b"yes"]


@pytest.mark.parametrize("name", ["a" * ADDRESS_BYTES, "é" * 53 + "b"])
def test_as_much_as_fits_is_left_as_it_is(name: str) -> None:
    """In bytes, not letters."""
    with socket_address(name) as address:
        assert address == name
    with pytest.raises(FileNotFoundError), socket_address("/nowhere/" + name):
        pass
