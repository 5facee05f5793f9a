"""Answers of Ray's head, before Ray itself is asked, which would try for minutes."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import grpc
import pytest

from grader.errors import SettingsInvalid
from grader_extensions.fleet import ray_placement
from grader_extensions.fleet.ray_placement import ANSWER_S, wait_for_answer


@contextmanager
def address(kind: str) -> Iterator[str]:
    """Of a port that nobody listens at, or where a connection is taken and nothing is ever said."""
    with closing(socket.socket()) as port:
        port.bind(("", 0))
        if kind == "silent":
            port.listen()
        yield f"127.0.0.1:{port.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["closed", "silent"])
def test_an_address_where_nothing_answers_is_given_up(kind: str) -> None:
    with address(kind) as target, pytest.raises(ConnectionError, match=r"nothing answered at 127\."):
        wait_for_answer(target, 0.3)
    assert ANSWER_S < 20


def test_an_address_where_a_server_answers_is_not_waited_for() -> None:
    """The control."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        wait_for_answer(f"127.0.0.1:{port}", 60)
    finally:
        server.stop(None)
    wait_for_answer(None, 0)


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize("kind", ["closed", "silent"])
def test_a_dead_cluster_is_said_before_ray_is_asked(kind: str, scheme: str) -> None:
    """With the error that says where; what SIGTERM does stays as it was."""
    pytest.importorskip("ray")
    former = signal.getsignal(signal.SIGTERM)
    refusal = pytest.raises(SettingsInvalid, match=r"no Ray cluster answers at '.*127\.0\.0\.1:")
    with address(kind) as target, refusal, ray_placement._session(f"{scheme}{target}", 0.3):
        pass
    assert signal.getsignal(signal.SIGTERM) is former
