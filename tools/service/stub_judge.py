"""A judge that judges nothing: every kernel is right, so many milliseconds after it was asked.  A process, so that it can be killed.

Its device's UUID is the process of the worker that it belongs to, so that events say where an attempt was.
"""

from __future__ import annotations

import os
import sys
import time

from sandbox.protocol import wire


def main() -> None:
    """Answer jobs until the input ends."""
    wait_s = float(sys.argv[1]) / 1000
    _say(wire.Environment(device="stub", device_kind="emulated", clock=wire.Clock.HOST, device_uuid=str(os.getppid())))
    for line in sys.stdin.buffer:
        message = wire.decode(line)
        if isinstance(message, wire.Check):
            _say(wire.Health(job_id=message.job_id, healthy=True))
            continue
        time.sleep(wait_s)
        _say(wire.Load(outcome=wire.LoadOutcome.LOADED))
        workloads = message.problem.workloads
        _say(wire.Plan(trials=tuple((workload.workload_id, wire.TrialPhase.VERIFY, 1) for workload in workloads)))
        for workload in workloads:
            _say(wire.Trial(workload_id=workload.workload_id, phase=wire.TrialPhase.VERIFY, index=0, outcome=wire.TrialOutcome.PASSED))
        _say(wire.Finished(job_id=message.job_id))


def _say(fact: wire.Fact) -> None:
    sys.stdout.buffer.write(wire.encode(fact))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
