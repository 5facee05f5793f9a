"""Every time that a measurement was made of, as a file of JSON, for those who fit the clock's rules (`tests/gpu/clock_records.py`)."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from sandbox.judge.run.trial import WorkloadContext
from sandbox.judge.timing.interleaved import SUBJECT, Times, TimingSetup
from sandbox.protocol import wire

VARIABLE = "GRADER_CLOCK_RECORD"  # a directory; nothing is written where it is not set


def record(
    parties: TimingSetup, bench: WorkloadContext, times: Times, claim: wire.Samples | None, reported: Mapping[str, wire.Samples | None]
) -> None:
    """Write what was taken, in nanoseconds and before anything is subtracted, and the medians of what everybody's do_bench said."""
    place = os.environ.get(VARIABLE)
    if not place:
        return
    data = {
        "problem": bench.problem.problem_id,
        "workload": bench.workload.workload_id,
        "copies": parties.copies,
        "launch_ns": parties.launch_ns,
        "alone": {**asdict(parties.alone), "null_ns": {str(copies): taken for copies, taken in parties.alone.null_ns.items()}},
        "turns": times.taken_ns,
        "planned": times.planned,
        "end": times.end,
        "reported": {name: statistics.median(one.durations_ns) for name, one in {SUBJECT: claim, **reported}.items() if one is not None},
    }
    path = Path(place) / f"{os.getpid()}-{time.time_ns()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), "utf-8")
