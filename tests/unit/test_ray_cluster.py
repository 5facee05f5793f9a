"""A head of Ray that crashes when it is started again is started once more, and where it stays away nobody waits for it."""

import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tools.service.ray_cluster import START_TRIES, RayCluster

CRASHES = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
LISTENS = "import socket, sys, time; socket.socket(fileno=int(sys.argv[1])).listen(); time.sleep(3600)"


class Head:
    """Ray's head node, whose process crashes at its first starts."""

    def __init__(self, crash_count: int) -> None:
        self.socket = socket.socket()  # bound, so that nobody else takes the port
        self.socket.bind(("127.0.0.1", 0))
        self.crash_count, self.started = crash_count, 0
        self.all_processes: dict[str, list[SimpleNamespace]] = {}

    def start_gcs_server(self) -> None:
        assert "gcs_server" not in self.all_processes
        self.started += 1
        code = CRASHES if self.started <= self.crash_count else LISTENS
        number = self.socket.fileno()
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", code, str(number)], pass_fds=[number])
        self.all_processes["gcs_server"] = [SimpleNamespace(process=process)]

    def kill_gcs_server(self, check_alive: bool = True) -> None:
        (info,) = self.all_processes.pop("gcs_server")
        assert not check_alive or info.process.poll() is None
        info.process.kill()
        info.process.wait()


def cluster_of(crash_count: int) -> tuple[RayCluster, Head]:
    head = Head(crash_count)
    cluster = RayCluster.__new__(RayCluster)
    cluster._cluster = SimpleNamespace(head_node=head, address=f"127.0.0.1:{head.socket.getsockname()[1]}")
    return cluster, head


@pytest.mark.parametrize("crash_count", [0, 2])
def test_a_head_that_crashes_is_started_again(crash_count: int) -> None:
    """Until it listens."""
    cluster, head = cluster_of(crash_count)
    cluster.start_head()
    assert head.started == crash_count + 1
    cluster.kill_head()


def test_one_that_never_stays_is_an_error_and_no_node_waits_for_it() -> None:
    """A node would look for its head for more than an hour."""
    cluster, head = cluster_of(START_TRIES)
    with pytest.raises(RuntimeError, match="ended 5 times"):
        cluster.start_head()
    assert head.started == START_TRIES == 5
    head.all_processes["gcs_server"] = [SimpleNamespace(process=SimpleNamespace(poll=lambda: -11))]
    with pytest.raises(RuntimeError, match="no node can join"):
        cluster.add_node()
