"""A Ray cluster on this host whose nodes and head can be lost, for tests and tries of workers that Ray places."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

from tools.service import host

STORE_BYTES = 80_000_000  # the least that Ray takes
START_TRIES = 5  # Ray gives a node half a minute to start, and on a busy machine one can take longer
HEAD_START_S = 60.0  # until a head listens that reads what it kept
LOOK_S = 0.1


class RayCluster:
    """A head without a core for anybody, and nodes of two cores each; the dashboard is off. Not for several threads at once.

    The head keeps what it knows on disk, so that one that is started again finds its nodes and actors. It looks more often than it would
    by default whether they live: after ten seconds a node is lost, and not after half a minute.
    """

    def __init__(self, node_count: int) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)  # Ray writes the last cluster's address there
        self.directory = Path(tempfile.mkdtemp(prefix="ray-"))  # short: there are sockets in it
        kept = {"gcs_storage": "rocksdb", "gcs_storage_path": str(self.directory / "head")}
        looks = {"health_check_initial_delay_ms": 1000, "health_check_timeout_ms": 2000, "health_check_failure_threshold": 3}
        small = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False, "temp_dir": str(self.directory)}
        # Not by Ray's own means at the end: those are for the main thread only, and tie a node to the thread that started it.
        head = {**small, "_system_config": kept | looks}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=False)
        for _ in range(node_count):
            self.add_node()

    @property
    def address(self) -> str:
        """Of the head, as `ray.init` takes it."""
        return str(self._cluster.address)

    @property
    def nodes(self) -> list[Any]:
        """Those that work was placed on, in a fixed order; without the head."""
        return sorted(self._cluster.worker_nodes, key=lambda node: int(_raylet(node)))

    def add_node(self, **more: object) -> None:
        """Start one more. more: what Ray takes, such as num_gpus and labels."""
        for left in reversed(range(START_TRIES)):
            if self._head_process().poll() is not None:
                raise RuntimeError("Ray's head has ended, so no node can join it")
            try:
                self._cluster.add_node(**{"num_cpus": 2, "object_store_memory": STORE_BYTES, **more})
                return
            except Exception:
                if not left:
                    raise

    def node_of(self, pid: int) -> Any:
        """The node that a process runs on."""
        return next(node for node in self.nodes if pid in self.processes(node))

    @staticmethod
    def processes(node: Any) -> dict[int, str]:
        """Its raylet and all below that, with their command lines."""
        raylet = _raylet(node)
        return {raylet: "raylet", **host.descendants(raylet)}

    def freeze_node(self, node: Any) -> dict[int, str]:
        """Stop its processes with their connections open, as a host that is cut off; those that there were."""
        stopped: dict[int, str] = {}
        while new := {pid: command for pid, command in self.processes(node).items() if pid not in stopped}:
            for pid in new:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            stopped |= new
        return stopped

    def kill_node(self, node: Any) -> dict[int, str]:
        """Kill all of its processes at once, as a host without power; those that there were."""
        killed = self.freeze_node(node)  # so that none of them sees another one end
        for pid in killed:
            host.kill(pid)
        return killed

    def remove_node(self, node: Any) -> None:
        """Kill it, and forget it."""
        self.kill_node(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def kill_head(self) -> None:
        """Kill what knows of all nodes and actors (Ray's GCS)."""
        self._cluster.head_node.kill_gcs_server()

    def start_head(self) -> None:
        """Start it again at the same address; several times where it crashes over what it kept, as Ray 2.60 does at times."""
        head = self._cluster.head_node
        for _ in range(START_TRIES):
            head.start_gcs_server()
            if self._head_listens():
                return
            head.kill_gcs_server(check_alive=False)
        raise RuntimeError(f"Ray's head ended {START_TRIES} times right after its start")

    def _head_listens(self) -> bool:
        """Whether it does before it ends, and within HEAD_START_S."""
        name, _, port = self.address.rpartition(":")
        until = time.monotonic() + HEAD_START_S
        while self._head_process().poll() is None and time.monotonic() < until:
            with suppress(OSError), socket.create_connection((name, int(port)), timeout=LOOK_S):
                return True
            time.sleep(LOOK_S)
        return False

    def _head_process(self) -> Any:
        return self._cluster.head_node.all_processes["gcs_server"][0].process

    def close(self) -> None:
        """Kill all of it."""
        for node in self.nodes:
            self.kill_node(node)
        self._cluster.shutdown()
        for _ in range(20):  # its log files are written to for a moment
            rmtree(self.directory, ignore_errors=True)
            if not self.directory.exists():
                return
            time.sleep(0.1)


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)
