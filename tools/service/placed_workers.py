"""The workers of a try: processes of its own, or actors on the nodes of a Ray cluster on this host. Each can be killed, and comes back."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from grader.isolation.directories import sweep_outputs
from grader.worker import ray_placement
from grader.worker.ray_placement import LaneCount
from tools.page import ROOT
from tools.service import host
from tools.service.ray_cluster import RayCluster

STUB_WORKER = "tools.service.stub_worker"
HEAD_AWAY_S = 6.0  # nodes of Ray wait for their head for a minute
HEAD_STAYS_S = 30.0  # one that is new looks for a while before it gives up a node, and gives its lanes to others
FROZEN_S = 30.0  # longer than the server takes to notice it
LEAVE_S = 120.0  # Ray starts the workers of lost nodes anew meanwhile


class OwnWorkers:
    """Processes of this try, started again at once."""

    KINDS: tuple[str, ...] = ("worker",)

    def __init__(self, workers: Sequence[host.Worker]) -> None:
        self._workers = workers

    async def start(self) -> None:
        """Start them."""
        for worker in self._workers:
            worker.start()

    def pids(self) -> list[int]:
        """Of those that run."""
        return [worker.pid for worker in self._workers]

    async def kill(self, kind: str, chance: random.Random) -> list[int] | None:
        """Kill one; the processes of workers that this takes, or None where there is none."""
        worker = chance.choice(self._workers)
        pid = worker.pid
        await asyncio.to_thread(worker.kill)
        worker.start()
        return [pid]

    async def stop(self) -> None:
        """Let them drain."""
        for worker in self._workers:
            await asyncio.to_thread(worker.stop)


class RayWorkers:
    """One lane for each node of a Ray cluster; each node has room for two."""

    KINDS: tuple[str, ...] = ("worker", "node", "frozen node", "head")

    def __init__(self, node_count: int, wait_ms: float, join: str, directory: Path) -> None:
        self._node_count, self._join = node_count, join
        self._directory = directory
        own = {"TMPDIR": str(directory), host.MARK: str(directory), "PYTHONPATH": str(ROOT)}
        self._prefix = ["env", *(f"{name}={value}" for name, value in own.items())]
        self._prefix += [sys.executable, "-m", STUB_WORKER, "processes", str(wait_ms)]
        self._cluster: RayCluster | None = None
        self._lost: set[Any] = set()  # nodes that are being lost
        self._asking = asyncio.Lock()  # of the cluster, and while its head is away
        self._later: list[asyncio.Task[None]] = []
        self._head_stays_until_s = 0.0

    @property
    def cluster(self) -> RayCluster:
        """Once it is started."""
        assert self._cluster is not None
        return self._cluster

    async def start(self) -> None:
        """Start the cluster, and have it place the workers."""
        self._cluster = await asyncio.to_thread(RayCluster, self._node_count)
        words = ["--join", self._join, "--lanes", "2", "--log-level", "warning", "--log-format", "json", "--drain-s", "5"]
        lanes = [LaneCount.parsed(f"emulated={self._node_count}")]
        self._names = await asyncio.to_thread(ray_placement.place, self.cluster.address, lanes, self._prefix, words)

    def pids(self) -> list[int]:
        """Of those that run, on nodes that are not being lost."""
        return [pid for node in self._nodes() for pid in _workers(self.cluster.processes(node))]

    async def kill(self, kind: str, chance: random.Random) -> list[int] | None:
        """Kill one of a kind, which comes back; the processes of workers that this takes, or None where there is none."""
        match kind:
            case "worker":
                if not (found := self.pids()):
                    return None
                taken = [chance.choice(found)]
                host.kill(taken[0])
                return taken
            case "head":
                if self._asking.locked() or time.monotonic() < self._head_stays_until_s:
                    return None
                await self._asking.acquire()
                await asyncio.to_thread(self.cluster.kill_head)
                self._after(self._head_again())
                return []
            case _:
                if len(nodes := self._nodes()) < 2:  # the last one stays
                    return None
                node = chance.choice(nodes)
                self._lost.add(node)
                lose: Callable[[Any], dict[int, str]] = self.cluster.kill_node if kind == "node" else self.cluster.freeze_node
                taken = _workers(lose(node))
                self._after(self._replaced(node, FROZEN_S if kind == "frozen node" else 0.0))
                return taken

    async def stop(self) -> None:
        """Wait for what comes back, remove the lanes as an operator would, and end the cluster."""
        try:
            await asyncio.gather(*self._later)
            if self._cluster is not None:
                async with asyncio.timeout(LEAVE_S):
                    await asyncio.to_thread(ray_placement.remove, self.cluster.address, self._names)
        finally:
            if self._cluster is not None:
                await asyncio.to_thread(self.cluster.close)
                for left in self._directory.glob("grader-*/run-*"):  # of lost nodes, whose hosts would be started anew
                    sweep_outputs(left)

    def _nodes(self) -> list[Any]:
        return [node for node in self.cluster.nodes if node not in self._lost]

    def _after(self, work: Coroutine[Any, Any, None]) -> None:
        self._later.append(asyncio.create_task(work))

    async def _head_again(self) -> None:
        try:
            await asyncio.sleep(HEAD_AWAY_S)
            await asyncio.to_thread(self.cluster.start_head)
            self._head_stays_until_s = time.monotonic() + HEAD_STAYS_S
        finally:
            self._asking.release()

    async def _replaced(self, node: Any, frozen_s: float) -> None:
        """End a lost node for good, and start another."""
        await asyncio.sleep(frozen_s)
        async with self._asking:
            await asyncio.to_thread(self.cluster.remove_node, node)
            self._lost.discard(node)
            await asyncio.to_thread(self.cluster.add_node)


def _workers(processes: dict[int, str]) -> list[int]:
    return [pid for pid, command in processes.items() if f"-m {STUB_WORKER} " in command]
