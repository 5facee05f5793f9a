"""A Ray cluster on this host whose nodes can be lost, for tests of workers that Ray places."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

from tools.service import host

STORE_BYTES = 80_000_000  # the least that Ray takes
START_TRIES = 5  # Ray gives a node half a minute to start, and on a busy machine one can take longer


class RayCluster:
    """A head without a core for anybody, and nodes of two cores each; the dashboard is off. Not for several threads at once.

    The head looks more often than it would by default whether nodes live: after ten seconds one is lost, and not after half a minute.
    """

    def __init__(self, node_count: int) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)  # Ray writes the last cluster's address there
        self.directory = Path(tempfile.mkdtemp(prefix="ray-"))  # short: there are sockets in it
        looks = {"health_check_initial_delay_ms": 1000, "health_check_timeout_ms": 2000, "health_check_failure_threshold": 3}
        small = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False, "temp_dir": str(self.directory)}
        # Not by Ray's own means at the end: those are for the main thread only, and tie a node to the thread that started it.
        head = {**small, "_system_config": looks}
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

    def add_node(self, **options: object) -> None:
        """Start one more. more: what Ray takes, such as num_gpus and labels."""
        for remaining in reversed(range(START_TRIES)):
            try:
                self._cluster.add_node(**{"num_cpus": 2, "object_store_memory": STORE_BYTES, **options})
                return
            except Exception:
                if not remaining:
                    raise

    def node_of(self, pid: int) -> Any:
        """The node that a process runs on."""
        return next(node for node in self.nodes if pid in self.processes(node))

    @staticmethod
    def processes(node: Any) -> dict[int, str]:
        """Its raylet and all below that, with their command lines."""
        raylet = _raylet(node)
        return {raylet: "raylet", **host.descendants(raylet)}

    def remove_node(self, node: Any) -> None:
        """Kill all of its processes at once, as a host without power, and forget it."""
        stopped: dict[int, str] = {}
        while started := {pid: command for pid, command in self.processes(node).items() if pid not in stopped}:
            for pid in started:  # so that none of them sees another end
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            stopped |= started
        for pid in stopped:
            host.kill(pid)
        self._cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        """Kill all of it."""
        for node in self.nodes:
            self.remove_node(node)
        self._cluster.shutdown()
        for _ in range(20):  # its log files are written to for a moment
            rmtree(self.directory, ignore_errors=True)
            if not self.directory.exists():
                return
            time.sleep(0.1)


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)
