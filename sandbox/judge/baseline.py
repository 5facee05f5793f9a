"""The trusted baseline runner: PyTorch's own time by the same protocol and the same loop as the subject, and its times while it was alone.

A process of its own next to the judge, kept from job to job: the subject must not be timed against a cold start, and what
`torch.compile` makes of a problem is made once. For each job it receives the problem on its standard input, and link and memory as every
runner does. Its times alone are kept where nothing slowed them, for some minutes, and for the same problem, workload and conditions: a
wrong kernel does not wait for them. A measurement that they do not fit is done again by a fresh process, with new ones
(docs/decisions/0057).
"""

from __future__ import annotations

import gc
import math
import os
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

from sandbox.devices import Arena, Device, open_device
from sandbox.judge import end_with_parent
from sandbox.judge.references import Reference, Task, load_task, redact_reference_errors
from sandbox.judge.runner_link import RunnerLink, connect
from sandbox.judge.timing.box_load import foreign_cpu_ns
from sandbox.judge.timing.interleaved import EAGER, PROBE, VARIANTS, WARMUP_COUNT, SoloTimings, time_alone, with_new_nulls
from sandbox.judge.trial import TRAIN_BYTES, WorkloadContext, arena_bytes, rounded
from sandbox.launch.kernel import Bound, Loaded
from sandbox.launch.loop import serve
from sandbox.protocol import wire
from sandbox.protocol.devices import throttled
from sandbox.protocol.gate import Answer, Call, Gate, Slot, Status, receive_job
from sandbox.protocol.languages import module_of
from sandbox.protocol.version import VERSION

KEPT_S = 600.0
SOLO_SHARE = 0.5  # of a sweep's time, for the baselines while they are alone; the sizes behind that are left out
# How many cores others may use meanwhile: next to none, unless these are enough for all that judge and baseline do.
QUIET_CORES, OWN_CORES = 0.3, 4
# Of a device's conditions, those that are the same from job to job. Its clocks and its temperature are not.
SAME_CONDITIONS = ("sm_clock_max_mhz", "memory_clock_max_mhz", "power_limit_w", "persistence", "ecc", "mig")
Conditions = Mapping[str, str]
Key = tuple[str, ...]
LOAD_S = 60.0
COMPILE_CACHE = "GRADER_COMPILE_CACHE"
COMPILED_ANEW = "torch.compile compiles it anew in every call; its time would be the compiler's"


class HostActivity:
    """Load that others put on this machine, from when this is made. cpu_ns: the CPU time that they have had; None where that is not
    known."""

    def __init__(self, cpu_ns: Callable[[], int | None] = foreign_cpu_ns, clock: Callable[[], float] = time.monotonic) -> None:
        self._cpu_ns, self._clock = cpu_ns, clock
        self._begun_ns, self._begun_s = cpu_ns(), clock()

    def quiet(self, core_count: int) -> bool:
        """Return whether others have done next to nothing until now; also where nothing is known, for then times are compared alone."""
        now_ns = self._cpu_ns()
        if now_ns is None or self._begun_ns is None:
            return True
        cores = (now_ns - self._begun_ns) / 1e9 / max(self._clock() - self._begun_s, 1e-9)
        return cores <= max(QUIET_CORES, core_count - OWN_CORES)


class KeptTimings:
    """Of the problems that the trusted runner has last loaded, problem_count at most. clock: seconds.

    A problem that is loaded anew begins without any: what was compiled for it is compiled again.
    """

    def __init__(self, problem_count: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._problem_count, self._clock = problem_count, clock
        self._problems: OrderedDict[str, dict[Key, tuple[SoloTimings, float]]] = OrderedDict()
        self._unfit_since_s: dict[str, float] = {}  # problems, by digest

    def load(self, problem: wire.ProblemSpec) -> None:
        """The trusted runner loads this problem, if it has not, and forgets the one that it loaded first."""
        self._problems.setdefault(problem.digest, {})
        if len(self._problems) > self._problem_count:
            oldest, _ = self._problems.popitem(last=False)
            self._unfit_since_s.pop(oldest, None)

    def keep(self, problem: wire.ProblemSpec, timings: Mapping[str, SoloTimings], conditions: Conditions) -> None:
        """Keep the times of workloads, by name, unless the device was slowed meanwhile, or such times did not fit a while ago."""
        if problem.digest not in self._problems or not problem.digest or throttled(conditions) or self.unfit(problem):
            return
        for workload in problem.workloads:
            if workload.workload_id in timings:
                self._problems[problem.digest][_key(workload, conditions)] = timings[workload.workload_id], self._clock()

    def find(self, problem: wire.ProblemSpec, workloads: Sequence[wire.Workload], conditions: Conditions) -> dict[str, SoloTimings] | None:
        """The times of all these workloads, by name; None where those of one are missing or too old, or the device is slowed now."""
        entries = self._problems.get(problem.digest, {})
        timings, oldest_s = dict[str, SoloTimings](), self._clock() - KEPT_S
        for workload in workloads:
            entry = entries.get(_key(workload, conditions))
            if entry is not None and entry[1] > oldest_s:
                timings[workload.workload_id] = entry[0]
        return timings if len(timings) == len(workloads) and not throttled(conditions) else None

    def unfit(self, problem: wire.ProblemSpec) -> bool:
        """Return whether kept times of this problem did not fit a while ago, so that none are kept now."""
        return self._unfit_since_s.get(problem.digest, -math.inf) > self._clock() - KEPT_S

    def forget(self, problem: wire.ProblemSpec) -> None:
        """Times that did not fit a measurement are not used again, and no others of the problem are kept for a while: a matmul that runs
        into a GPU's limit of power is slower next to a kernel than alone, every time, and each such measurement is made twice."""
        self._problems.get(problem.digest, {}).clear()
        self._unfit_since_s[problem.digest] = self._clock()


def _key(workload: wire.Workload, conditions: Conditions) -> Key:
    return repr(workload), *(conditions.get(name, "") for name in SAME_CONDITIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRun:
    """The trusted runner, its times while it was alone, by workload, and what the device can do at most. reused: these times are of an
    earlier job."""

    trusted: RunnerLink
    alone: Mapping[str, SoloTimings]
    ceilings: Mapping[str, float]
    reused: bool = False


class Baseline:
    """The judge's handle on the process. kept: what baselines took while they were alone."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.kept = KeptTimings(wire.KEPT_PROBLEM_COUNT)
        self._ready = False
        self._link, theirs = socket.socketpair(socket.AF_UNIX)
        # The judge's settings of malloc are not the baseline's, which allocates as the subject's process does. What inductor and triton
        # compile stays from server to server; one process at a time compiles, and does it itself.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
        environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        if cache := os.environ.get(COMPILE_CACHE):
            environment["TORCHINDUCTOR_CACHE_DIR"], environment["TRITON_CACHE_DIR"] = f"{cache}/inductor", f"{cache}/triton"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sandbox.judge.baseline", str(theirs.fileno()), device.KIND],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=environment,
        )
        theirs.close()

    def place(
        self, job: wire.Job, task: Task, workloads: Sequence[wire.Workload], links: ExitStack, ceilings: Mapping[str, float]
    ) -> Generator[wire.Fact, None, BaselineRun | None]:
        """Start the process on a job's problem, with its times alone: those that are kept, or new ones. None where times of an earlier job
        would do and there are none: then the kernel is verified first."""
        solo = self.kept.find(job.problem, workloads, self._device.conditions()) if job.kept_times else None
        # Where kept times did not fit a while ago, new ones are taken at once: verifying first would cost a second process. By the host's
        # clock they are not, for the box imports meanwhile.
        at_once = not job.kept_times or (self._device.CLOCK is wire.Clock.DEVICE_EVENTS and self.kept.unfit(job.problem))
        if solo is None and not at_once:
            return None
        trusted = links.enter_context(self.serve(job.problem, job.language))
        if solo is None:
            alone = yield from self._time_alone(job, task, workloads, trusted)
            return BaselineRun(trusted=trusted, alone=alone, ceilings=ceilings)
        for workload in workloads:
            name = workload.workload_id
            solo[name] = with_new_nulls(solo[name], trusted, WorkloadContext.of(task, workload))
        return BaselineRun(trusted=trusted, alone=solo, ceilings=ceilings, reused=True)

    def _time_alone(
        self, job: wire.Job, task: Task, workloads: Sequence[wire.Workload], trusted: RunnerLink
    ) -> Generator[wire.Fact, None, dict[str, SoloTimings]]:
        """Time the baselines while there is no subject, and keep the times of a quiet machine; reports it, because what is compiled for the
        first time takes a while."""
        compiled = ("compile", *job.problem.baselines) if self._device.CLOCK is wire.Clock.DEVICE_EVENTS else ()
        variants = tuple(name for name in VARIANTS if name == EAGER or name in compiled)
        alone, swept, begun_s, activity = dict[str, SoloTimings](), job.mode is wire.Mode.SWEEP, time.monotonic(), HostActivity()
        for workload in workloads:
            if swept and time.monotonic() - begun_s > SOLO_SHARE * job.sweep_s:
                return alone
            yield wire.Progress(stage=wire.Stage.BASELINE, workload_id=workload.workload_id if swept else None)
            with redact_reference_errors(hidden=workload.hidden):
                alone[workload.workload_id] = yield from time_alone(trusted, WorkloadContext.of(task, workload), variants)
        if activity.quiet(os.cpu_count() or 1):
            self.kept.keep(job.problem, alone, self._device.conditions())
        return alone

    @contextmanager
    def serve(self, problem: wire.ProblemSpec, language: str) -> Iterator[RunnerLink]:
        """Let the process run this problem's reference until the context is left."""
        self.started()
        job = runner_job(problem, language, "", self._device, trusted=True)

        def tell() -> None:
            assert self._process.stdin is not None
            self.kept.load(problem)
            self._process.stdin.write(wire.encode(unsubmitted("baseline", problem, language)))
            self._process.stdin.flush()

        with connect(self._device, self._link, job, b"", LOAD_S, before=tell) as runner:
            if runner.load_fact.outcome is not wire.LoadOutcome.LOADED:
                raise RuntimeError(f"the baseline did not load: {runner.loaded}")
            yield runner

    def started(self) -> None:
        """Wait until the process has opened its device: from then on it is among those that belong there."""
        if not self._ready and not self._link.recv(1):
            raise RuntimeError("the baseline's process ended while it started")
        self._ready = True

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._link.close()


def runner_job(
    problem: wire.ProblemSpec, language: str, entry: str, device: Device, templates: tuple[str, ...] = (), *, trusted: bool = False
) -> wire.RunnerJob:
    """Return the job of a runner: the part of a problem that it gets to know. An arena's exact size is for a trusted one, and the templates
    of hidden workloads are left out: the values in them would tell."""
    needed = arena_bytes(problem, TRAIN_BYTES if device.CLOCK is wire.Clock.DEVICE_EVENTS else 0)
    return wire.RunnerJob(
        device_kind=device.KIND,
        language=language,
        language_module=module_of(language),
        entry=entry,
        inputs=problem.inputs,
        outputs=problem.outputs,
        convention=problem.convention,
        templates=tuple("" if size.hidden else template for size, template in zip(problem.workloads, templates, strict=False)),
        arena_bytes=needed if trusted else rounded(needed),
    )


def unsubmitted(job_id: str, problem: wire.ProblemSpec, language: str = "cuda") -> wire.Job:
    """A job that is about the problem alone, without a runner."""
    return wire.Job(
        job_id=job_id,
        problem=problem,
        language=language,
        entry="",
        mode=wire.Mode.BENCHMARK,
        link_path="",
        artifact_path="",
        artifact_digest="",
    )


def _load(reference: Reference, job: wire.RunnerJob, arena: Arena) -> Loaded:
    empty: dict[tuple[int, ...], torch.Tensor] = {}  # made once: a launch of its own would leave the device in this process's hands

    def bind(call: Call) -> Bound:
        arguments = [
            arena.tensor(slot.offset, tensor.dtype, slot.shape, slot.strides)
            if tensor.shape
            else torch.tensor(slot.scalar, dtype=getattr(torch, tensor.dtype))
            for slot, tensor in zip(call.inputs, job.inputs, strict=True)
        ]
        targets, blanks = _outputs(call, job, arena, empty)

        def finish(result: object) -> None:
            assert isinstance(result, list)
            _copy(result, targets)

        return Bound(
            launch=lambda: reference(arguments),
            finish=finish,
            blank=(lambda: _copy(blanks, targets)) if call.copy_out else None,
        )

    return Loaded(bind=bind, uses_torch=False)


def _load_probe(job: wire.RunnerJob, arena: Arena, device: Device) -> Loaded:
    """The probe, as a variant that the clock runs like a reference. It returns its outputs where the call asks for the copy."""
    empty: dict[tuple[int, ...], torch.Tensor] = {}

    def bind(call: Call) -> Bound:
        read = [_span(slot, tensor, arena) for slot, tensor in zip(call.inputs, job.inputs, strict=True) if tensor.shape]
        if not call.copy_out:
            written = [_span(slot, tensor, arena) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]
            return Bound(launch=lambda: device.touch(read, written))
        targets, returned = _outputs(call, job, arena, empty)
        returned_spans = [(value.data_ptr(), value.nbytes) for value in returned]
        return Bound(
            launch=lambda: device.touch(read, returned_spans),
            finish=lambda _: _copy(returned, targets),
            blank=lambda: _copy(returned, targets),
        )

    return Loaded(bind=bind, uses_torch=False)


def _outputs(
    call: Call, job: wire.RunnerJob, arena: Arena, empty: dict[tuple[int, ...], torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    targets = [arena.tensor(slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]
    return targets, [empty.setdefault((index, *target.shape), torch.empty_like(target)) for index, target in enumerate(targets)]


def _span(slot: Slot, tensor: wire.TensorSpec, arena: Arena) -> tuple[int, int]:
    return arena.address(slot.offset), slot.element_count * int(getattr(torch, tensor.dtype).itemsize)


def _copy(values: list[torch.Tensor], targets: list[torch.Tensor]) -> None:
    for value, target in zip(values, targets, strict=True):
        target.copy_(value)


class CompiledReference:
    """A reference as `torch.compile` runs it. Refused for good at shapes where it is still compiled in its third call, the last of the
    warm-up: where a reference depends on a number that is new in every call, a run's time would mostly be the compiler's.

    Raises RuntimeError there; the problem then has no such baseline.
    """

    def __init__(self, compiled: Reference) -> None:
        self._compiled = compiled
        self._call_counts: dict[tuple[torch.Size, ...], int] = {}
        self._refused: set[tuple[torch.Size, ...]] = set()

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Its outputs."""
        shapes = tuple(tensor.shape for tensor in inputs)
        if shapes in self._refused:
            raise RuntimeError(COMPILED_ANEW)
        before = _compilation_count()
        outputs = self._compiled(inputs)
        count = self._call_counts[shapes] = self._call_counts.get(shapes, 0) + 1
        if count == WARMUP_COUNT and _compilation_count() > before:
            self._refused.add(shapes)
            raise RuntimeError(COMPILED_ANEW)
        return outputs


def _compilation_count() -> int:
    return int(torch._dynamo.utils.counters["frames"]["ok"])


def _references_of(problem: wire.ProblemSpec, device: Device, loaded: dict[str, dict[int, Reference]]) -> dict[int, Reference]:
    """The references of a problem, as they are and compiled, by the gate's number. loaded: those of the last problems; the oldest goes."""
    if problem.digest and problem.digest in loaded:
        return loaded[problem.digest]
    eager = load_task(problem, device.TORCH).reference
    references = loaded[problem.digest] = {VARIANTS[EAGER]: eager}
    if device.CLOCK is wire.Clock.DEVICE_EVENTS:
        # Compiled when it is first run at a shape. Without graphs of CUDA's: inputs lie elsewhere in every run.
        references[VARIANTS["compile"]] = CompiledReference(torch.compile(eager, dynamic=False))
        references[VARIANTS["max-autotune"]] = CompiledReference(torch.compile(eager, dynamic=False, mode="max-autotune-no-cudagraphs"))
    if len(loaded) > wire.KEPT_PROBLEM_COUNT:
        del loaded[next(iter(loaded))]
    return references


def main() -> None:
    """Serve problem after problem until the judge goes away."""
    link = socket.socket(fileno=int(sys.argv[1]))
    end_with_parent(link.fileno())
    device, loaded = open_device(sys.argv[2]), dict[str, dict[int, Reference]]()
    torch._dynamo.config.recompile_limit = 256  # a shape per workload, and a problem may have many
    gc.collect()
    gc.freeze()  # as in the judge
    link.sendall(b"r")
    while line := sys.stdin.buffer.readline():
        problem = wire.decode(line).problem
        job, (gate_fd, arena_fd, artifact_fd, state_fd) = receive_job(link)
        gate, arena = Gate(gate_fd), device.attach_arena(arena_fd, job.arena_bytes)
        kernels = {number: _load(reference, job, arena) for number, reference in _references_of(problem, device, loaded).items()}
        if device.CLOCK is wire.Clock.DEVICE_EVENTS:
            kernels[VARIANTS[PROBE]] = _load_probe(job, arena, device)
        first = gate.announce(VERSION)
        gate.reply(first, Answer(status=Status.OK))
        with torch.no_grad():
            serve(gate, first, device, arena, kernels)
        arena.close()
        kernels.clear()
        gc.collect()
        device.release_cached_memory()  # the next job's subject may need it
        for fd in (gate_fd, artifact_fd, state_fd):
            os.close(fd)


if __name__ == "__main__":
    main()
