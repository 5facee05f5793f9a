"""The judge process: jobs in on standard input, facts out on standard output, a JSON line each.  `python -m sandbox.judge KIND`."""

from __future__ import annotations

import os
import signal
import sys
from typing import BinaryIO

import torch

from sandbox import wire
from sandbox.devices import Device, open_device
from sandbox.judge.baseline import Baseline
from sandbox.judge.lane import judge


def main() -> None:
    """Judge job after job until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the server's to handle
    facts = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a reference prints goes to the log, not among the facts
    device = open_device(sys.argv[1])
    baseline = Baseline(device)
    try:
        _emit(facts, environment(device))
        for line in sys.stdin.buffer:
            job = wire.decode(line)
            for fact in judge(job, device, baseline):
                _emit(facts, fact)
    finally:
        baseline.close()


def environment(device: Device) -> wire.Environment:
    """What this lane's reports are made on and with."""
    name, versions = device.describe()
    return wire.Environment(
        device=name, device_kind=device.KIND, clock=device.CLOCK, versions={**versions, "torch": str(torch.__version__)}
    )


def _emit(facts: BinaryIO, fact: wire.Fact) -> None:
    facts.write(wire.encode(fact))
    facts.flush()


if __name__ == "__main__":
    main()
