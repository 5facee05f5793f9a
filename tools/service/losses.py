"""How long a submission waits that was at a worker when that was lost: from the kills and from its events.  Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.v1 import submission_pb2

NS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """What was killed, when, and which processes of workers were lost with it."""

    kind: str
    time_ns: int
    workers: frozenset[int]


@dataclass(slots=True, kw_only=True)
class AttemptTimes:
    """When an attempt was leased, when its worker said the first fact, which process that is, and when it was given back."""

    leased_ns: int
    first_fact_ns: int | None = None
    worker: int | None = None
    given_back_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """An attempt that was lost: until the server gave it back, until it was leased again, and until a worker had begun."""

    kind: str
    noticed_s: float
    queued_s: float
    started_s: float

    @property
    def continued_s(self) -> float:
        """From the kill until it goes on."""
        return self.noticed_s + self.queued_s + self.started_s


def attempt_times(events: Iterable[submission_pb2.SubmissionEvent]) -> list[AttemptTimes]:
    """The attempts at a submission, in their order. A stub worker gives its process as the device's UUID."""
    found: list[AttemptTimes] = []
    for event in events:
        time_ns = event.event_time.ToNanoseconds()
        if event.HasField("submission") and event.submission.state == submission_pb2.SUBMISSION_STATE_RUNNING:
            found.append(AttemptTimes(leased_ns=time_ns))
        elif found and event.HasField("submission") and event.submission.state == submission_pb2.SUBMISSION_STATE_QUEUED:
            found[-1].given_back_ns = time_ns
        elif found and event.HasField("environment") and found[-1].worker is None:
            found[-1].first_fact_ns, found[-1].worker = time_ns, int(event.environment.device_uuid or 0)
    return found


def losses(attempts: Sequence[AttemptTimes], kills: Iterable[Kill]) -> list[Loss]:
    """Which of these attempts were lost with a worker. One that is lost before its worker has said anything is not seen."""
    by_worker = {pid: kill for kill in kills for pid in kill.workers}
    found = []
    for index, attempt in enumerate(attempts):
        kill = by_worker.get(attempt.worker or 0)
        later = next((one for one in attempts[index + 1 :] if one.first_fact_ns is not None), None)
        if kill is None or later is None or attempt.given_back_ns is None or attempt.given_back_ns < kill.time_ns:
            continue
        assert later.first_fact_ns is not None
        found.append(
            Loss(
                kind=kill.kind,
                noticed_s=(attempt.given_back_ns - kill.time_ns) * NS,
                queued_s=(later.leased_ns - attempt.given_back_ns) * NS,
                started_s=(later.first_fact_ns - later.leased_ns) * NS,
            )
        )
    return found


def figures(found: Iterable[Loss]) -> dict[str, dict[str, float]]:
    """Of each kind of kill in seconds; what it consists of is the median of each part."""
    by_kind: dict[str, list[Loss]] = {}
    for one in found:
        by_kind.setdefault(one.kind, []).append(one)
    return {kind: _of_kind(ones) for kind, ones in sorted(by_kind.items())}


def _of_kind(ones: Sequence[Loss]) -> dict[str, float]:
    times = sorted(one.continued_s for one in ones)
    return {
        "attempts": len(ones),
        "median": statistics.median(times),
        "p90": times[min(len(times) - 1, int(0.9 * len(times)))],
        "worst": times[-1],
        "of it noticed": statistics.median(one.noticed_s for one in ones),
        "at worst": max(one.noticed_s for one in ones),
        "queued": statistics.median(one.queued_s for one in ones),
        "started": statistics.median(one.started_s for one in ones),
    }
