"""What a kind of device makes of a mutant: one of the workloads that are run on it has to reject it.  For admission only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sandbox.judge.admission.mutants import Mutant
from sandbox.judge.admission.numerics import FIRST_COLUMNS
from sandbox.judge.inputs import shape_of
from sandbox.protocol import wire
from sandbox.protocol.devices import DEVICES, DeviceKind

_Outcome = wire.FindingOutcome


def accepted_everywhere(mutant: Mutant, spec: wire.ProblemSpec, seen: Iterable[wire.Finding], examined: set[str]) -> Iterator[wire.Finding]:
    """A finding for the first kind of device on which no workload rejects the mutant, and one accepts it.

    It refuses a native problem whose workloads on that device were all examined. Another format's set is published as it is, and an
    unexamined workload might reject the mutant: there it is a warning.
    """
    found = [one for one in seen if one.check == mutant.check]
    accepting = {one.workload_id for one in found if one.message == mutant.accepted_here}
    rejecting = {one.workload_id for one in found if one.outcome is _Outcome.PASSED}
    for kind in DeviceKind:
        names = {one.workload_id for one in _workloads(spec, kind)}
        if not names & accepting or names & rejecting:
            continue
        complete = names <= examined
        statement = f"{mutant.cheat} would be accepted at every workload{'' if complete else ' that was checked'} ({kind}); {mutant.remedy}"
        refused = complete and spec.format == "native"
        outcome = _Outcome.FAILED if refused else _Outcome.WARNING
        yield wire.Finding(check=mutant.check, workload_id="", outcome=outcome, message=statement)
        return


def narrow_columns(spec: wire.ProblemSpec) -> Iterator[wire.Finding]:
    """A warning for the emulated device where its outputs are narrower than those on a GPU."""
    emulated, gpu = (
        max(_columns(spec, kind) for kind, info in DEVICES.items() if info.needs_gpu_access is on_gpu) for on_gpu in (False, True)
    )
    for count in FIRST_COLUMNS:
        if 0 < emulated <= count < gpu:
            statement = f"no output has more than {count} columns on the emulated device, and {gpu} on a GPU; add a wider workload"
            yield wire.Finding(check="columns", workload_id="", outcome=_Outcome.WARNING, message=statement)
            return


def _workloads(spec: wire.ProblemSpec, kind: str) -> list[wire.Workload]:
    return [one for one in spec.workloads if one.device_kind in ("", kind)]


def _columns(spec: wire.ProblemSpec, kind: str) -> int:
    shapes = [shape_of(output, one.axes) for one in _workloads(spec, kind) for output in spec.outputs]
    return max((shape[-1] for shape in shapes if shape), default=0)
