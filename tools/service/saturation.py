"""What limits a server first as its load grows: figures of one step after the other, and which of them is at its end."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from tools.service import host

SATURATED = 0.9
COMMITS, TRANSACTIONS, BUSY, FACTS = (
    f"grader_{name}_total" for name in ("ledger_commits", "ledger_transactions", "ledger_busy_seconds", "facts")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Counters at one time. All in seconds but those of the ledger and the facts."""

    server_cpu_s: float
    others_cpu_s: float
    idle_s: float
    commits: float
    transactions: float
    busy_s: float
    facts: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A server under one load. Shares are of what there is at most; a server's Python runs on one core at a time."""

    lanes: int
    per_minute: float
    submit_median_ms: float
    submit_p99_ms: float
    server_cores: float
    workers_and_client_cores: float
    other_programs_cores: float
    transactions_per_s: float
    commits_per_s: float
    commit_ms: float
    ledger_share: float
    facts_per_s: float
    lanes_share: float

    @property
    def limits(self) -> dict[str, float]:
        """How near each part of the control plane is to its end."""
        return {
            "the server's interpreter (one core)": self.server_cores,
            "the ledger's writer": self.ledger_share,
            "this host's cores": (self.server_cores + self.workers_and_client_cores) / (os.cpu_count() or 1),
        }


async def seen(server_pid: int, other_pids: Sequence[int], web: str) -> Seen:
    """The counters now. web: the server's web port."""
    with await asyncio.to_thread(urllib.request.urlopen, f"http://{web}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    samples = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    return Seen(
        server_cpu_s=host.cpu_s(server_pid),
        others_cpu_s=sum(host.cpu_s(pid) for pid in (os.getpid(), *other_pids)),
        idle_s=host.CoreTimes.now().idle_s,
        commits=samples[COMMITS],
        transactions=samples[TRANSACTIONS],
        busy_s=samples[BUSY],
        facts=samples[FACTS],
    )


def step(before: Seen, after: Seen, seconds: float, submits_s: Sequence[float], *, lanes: int, graded: int, wait_s: float) -> Step:
    """What happened in between."""
    ordered = sorted(submits_s)
    commits = after.commits - before.commits
    server_cores, others_cores = ((getattr(after, name) - getattr(before, name)) / seconds for name in ("server_cpu_s", "others_cpu_s"))
    busy_cores = (os.cpu_count() or 1) - (after.idle_s - before.idle_s) / seconds
    return Step(
        lanes=lanes,
        per_minute=60 * graded / seconds,
        submit_median_ms=1000 * ordered[len(ordered) // 2],
        submit_p99_ms=1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        server_cores=server_cores,
        workers_and_client_cores=others_cores,
        other_programs_cores=max(0.0, busy_cores - server_cores - others_cores),
        transactions_per_s=(after.transactions - before.transactions) / seconds,
        commits_per_s=commits / seconds,
        commit_ms=1000 * (after.busy_s - before.busy_s) / max(1.0, commits),
        ledger_share=(after.busy_s - before.busy_s) / seconds,
        facts_per_s=(after.facts - before.facts) / seconds,
        lanes_share=graded * wait_s / seconds / lanes,
    )


def first_limit(steps: Sequence[Step]) -> str:
    """The first step at which a part of the control plane is at its end, and which; otherwise what is nearest to it."""
    for one in steps:
        name, share = max(one.limits.items(), key=lambda item: item[1])
        if share >= SATURATED:
            return f"{name}: {share:.0%} at {one.lanes} lanes, {one.per_minute:.0f} submissions a minute"
    most = max(steps, key=lambda one: one.per_minute)
    name, share = max(most.limits.items(), key=lambda item: item[1])
    return f"none; nearest is {name}: {share:.0%} at {most.lanes} lanes, {most.per_minute:.0f} submissions a minute"
