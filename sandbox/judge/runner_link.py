"""The judge's hold on one runner: its link, gate and arena.  Used for the subject and, unchanged, for the trusted baseline.

A limit does not count the time in which the runner waited for a core of a busy machine. The kernel accounts how long each thread has been
ready to run without running (proc(5), /proc/PID/schedstat). The thread of the runner that waited most decides. A runner that starts many
threads makes them wait for each other, so all of it is at most WAIT_FACTOR times the limit.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sandbox.devices import Arena, Device, DeviceFault
from sandbox.devices.clock import Pairs, RunCopies, Signals, TrainTime, WaitEnd
from sandbox.protocol import wire
from sandbox.protocol.gate import (
    GATE_BYTES,
    Answer,
    Call,
    Gate,
    GateViolated,
    Operation,
    Status,
    create_sealed,
    sealed_copy,
    send_job,
    send_templates,
    socket_address,
)
from sandbox.protocol.version import VERSION
from sandbox.protocol.wire import WAIT_FACTOR

ACCEPT_POLL_S = 0.05
REBUILD = "see the box's log; if boxes are made from an image, build it from this version of the grader"
CLOSED_SUFFIX = ".closed"  # the server makes this file next to the link when no runner will come any more
MORE_RUN_S = 1.0  # of a run of a train that is not the first, at most: only short kernels have some
UNWATCHED_SHARE = 0.25  # of the limit: nearly every call has ended by then, and its threads need not be looked at
LEAST_SHARE = 0.05  # of the time since the last look: what waited for less was not held up
PROCESS_LIMIT = 1024  # a box has no more
WAITED = 1  # the field of /proc/PID/task/TID/schedstat
Waits = Mapping[int, int]  # nanoseconds in the run queue, by thread


class Silence(Enum):
    """Why there is no answer."""

    GONE = "gone"
    TIMED_OUT = "timed_out"


class NoRunner(Exception):
    """There is no runner that could load something: the box ended first, is not ours, or has another version of our code."""


@dataclass(slots=True)
class RunnerLink:
    """A runner that has taken its artifact. Once it has not answered, it is not asked again."""

    device: Device
    arena: Arena
    gate: Gate
    link: socket.socket
    loaded: Answer | Silence
    silence: Silence | None = None
    placed: tuple[object, ...] | None = None  # what the last PLACE was for

    @property
    def load_fact(self) -> wire.Load:
        """How it took its artifact."""
        match self.loaded:
            case Silence.GONE:
                return wire.Load(outcome=wire.LoadOutcome.CRASHED, message="the kernel's process ended while its artifact was loaded")
            case Silence.TIMED_OUT:
                return wire.Load(outcome=wire.LoadOutcome.TIMED_OUT)
            case Answer(status=Status.OK):
                return wire.Load(outcome=wire.LoadOutcome.LOADED)
            case Answer(status=Status.ENTRY_NOT_FOUND, message=message):
                return wire.Load(outcome=wire.LoadOutcome.ENTRY_NOT_FOUND, message=message)
            case Answer(message=message):
                return wire.Load(outcome=wire.LoadOutcome.RAISED, message=message)

    def call(self, call: Call, limit_s: float, meanwhile: Callable[[], None] = lambda: None) -> Answer | Silence:
        """Do one call. Its answer says nothing of completion; the snapshot does. meanwhile: what the judge does until then, and before
        limit_s begins."""
        if self.silence is None:
            previous = self.gate.done
            number = self.gate.open(call)
            meanwhile()
            self.silence = _await(self.gate, self.link, number, previous, limit_s)
        return self.reply()

    def take_train(self, operation: Operation, limit_s: float, runs: Sequence[RunCopies], scalars: Sequence[float] = ()) -> TrainTime:
        """Let the runner do the operation on each of what was last placed: for each run copy what is to be published, scalars too, wait for
        its end, copy the snapshot. The judge's clock starts before the first copy of a run and stops after its last. `reply` has what the
        runner said. limit_s: of a run. Without a native clock there is one run."""
        if self.silence is not None:
            return TrainTime(durations_ns=(0,) * len(runs))
        if self.device.clock is not None:
            go_address, done_address, launched_address = self.gate.addresses()
            signals = Signals(
                go_address=go_address,
                done_address=done_address,
                launched_address=launched_address,
                published_address=self.arena.published,
                finished_address=self.arena.finished,
                previous=self.gate.done,
                number=self.gate.arm(operation),
                limit_ns=int((limit_s + (len(runs) - 1) * min(limit_s, MORE_RUN_S)) * 1e9),
                link_fd=self.link.fileno(),
                scalar_address=self.gate.scalar_address(),
                scalars=tuple(scalars),
            )
            train = self.device.clock.take(runs, signals)
            if train.code != 0:
                raise DeviceFault(f"code {train.code} in the judge's own train")
            if train.ending is WaitEnd.VIOLATED:
                raise GateViolated("the runner answered a call that was never made")
            self.silence = {WaitEnd.TIMED_OUT: Silence.TIMED_OUT, WaitEnd.GONE: Silence.GONE}.get(train.ending)
            return train
        (copies,) = runs
        begun = time.perf_counter_ns()
        _copy(copies.publish)
        self.gate.write_scalars(scalars)
        previous = self.gate.done
        self.silence = _await(self.gate, self.link, self.gate.fire(operation), previous, limit_s)
        _copy(copies.snapshot)
        return TrainTime(durations_ns=(time.perf_counter_ns() - begun,))

    def tell(self, templates: tuple[str, ...], limit_s: float) -> None:
        """Send the templates that were kept back when it loaded."""
        if self.silence is not None:
            return
        try:
            send_templates(self.link, templates, limit_s)
        except TimeoutError:
            self.silence = Silence.TIMED_OUT
        except (BrokenPipeError, ConnectionResetError):
            self.silence = Silence.GONE

    def reply(self) -> Answer | Silence:
        """Return the runner's answer next to its last `done`, or why there was none."""
        return self.silence or self.gate.answer()


@contextmanager
def connect(
    device: Device,
    link: socket.socket,
    job: wire.RunnerJob,
    artifact: bytes,
    load_s: float,
    state: bytes = b"",
    before: Callable[[], None] = lambda: None,
) -> Iterator[RunnerLink]:
    """Hand memory, artifact and state to the runner at the other end, and wait until it has loaded them. torch.OutOfMemoryError where there
    is no memory, and then `before` is not done: nobody at the other end waits for a job that does not come. NoRunner where the runner does
    not announce itself: nothing of the submission has run by then."""
    arena = device.create_arena(job.arena_bytes)
    gate_fd, artifact_fd, state_fd = create_sealed("gate", GATE_BYTES), *(sealed_copy(data) for data in (artifact, state))
    gate = Gate(gate_fd)
    try:
        first = int.from_bytes(os.urandom(7), "little") | 1
        gate.expect(first)
        before()
        begun = time.monotonic()
        try:
            send_job(link, job, (gate_fd, arena.fd, artifact_fd, state_fd), load_s)
            match _await(gate, link, first, 0, load_s - (time.monotonic() - begun)) or gate.answer():
                case Silence.GONE:
                    raise NoRunner(f"the runner ended before it had opened its device and its memory; {REBUILD}")
                case Silence.TIMED_OUT:
                    raise NoRunner("the runner did not open its device and its memory in time; this machine or its device is overloaded")
                case Answer(message=version) if version != VERSION:
                    text = f"the box's copy of `sandbox` speaks protocol {version[:16]!r}, and the judge {VERSION!r}"
                    raise NoRunner(f"{text}; build the image of the boxes from this version of the grader")
        except (TimeoutError, BrokenPipeError, ConnectionResetError, GateViolated) as error:
            raise NoRunner(f"the runner did not take its job ({type(error).__name__}); {REBUILD}") from None
        loaded = _await(gate, link, gate.open(Call(operation=Operation.LOAD)), first, load_s) or gate.answer()
        runner = RunnerLink(device=device, arena=arena, gate=gate, link=link, loaded=loaded)
        try:
            yield runner
        finally:  # also where the judge gives up: the baseline's runner has to be ready for the next job
            if _alive(link) and runner.load_fact.outcome is wire.LoadOutcome.LOADED:
                runner.gate.open(Call(operation=Operation.EXIT))
    finally:
        for fd in (gate_fd, artifact_fd, state_fd):
            os.close(fd)
        arena.close()


@contextmanager
def accept(path: str, uid: int | None, limit_s: float) -> Iterator[socket.socket]:
    """Listen at path for the one runner that the server has boxed; refuse every other uid."""
    deadline = time.monotonic() + limit_s
    with socket.socket(socket.AF_UNIX) as listener:
        # Bound under another name first: a runner that is early must not find a socket that it may not use yet.
        with socket_address(path + ".new") as address:
            listener.bind(address)
        Path(path + ".new").chmod(0o666)
        listener.listen(4)
        Path(path + ".new").rename(path)
        listener.settimeout(ACCEPT_POLL_S)
        while True:
            try:
                link, _ = listener.accept()
                if uid is None or _peer(link)[1] == uid:
                    break
                link.close()
            except TimeoutError:
                if Path(path + CLOSED_SUFFIX).exists():
                    raise NoRunner("the box ended before its runner connected") from None
            if time.monotonic() > deadline:  # also where strangers knock without end
                raise NoRunner(f"no runner connected within {limit_s:g} s")
    with link:
        yield link


def _copy(pairs: Pairs) -> None:
    for to, source in pairs:
        to.copy_(source)


def _peer(link: socket.socket) -> tuple[int, int, int]:
    """Process, host uid and group of who connected (SO_PEERCRED is translated by the kernel)."""
    return struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))


def _await(gate: Gate, link: socket.socket, number: int, previous: int, limit_s: float) -> Silence | None:
    answered = False

    def wait(seconds: float) -> bool:
        nonlocal answered
        answered = gate.wait(number, previous, time.monotonic_ns() + int(seconds * 1e9), lambda: _alive(link))
        return answered or not _alive(link)

    ended = wait_patiently(limit_s, wait, lambda: run_queue_waits_of(link))
    return None if answered else Silence.GONE if ended else Silence.TIMED_OUT


def _alive(link: socket.socket) -> bool:
    """A runner never writes to the link, so anything readable is its end, or a lie that ends it."""
    return not select.select([link], [], [], 0)[0]


def wait_patiently(limit_s: float, wait: Callable[[float], bool], run_queue_waits: Callable[[], Waits]) -> bool:
    """Return whether wait(seconds) came to its end within limit_s, and as much longer as a thread waited for a core.

    wait returns whether what is waited for has happened, or can't happen any more; it is called again where it has not.
    """
    if wait(limit_s * UNWATCHED_SHARE):
        return True
    left_s, most_s = limit_s * (1 - UNWATCHED_SHARE), limit_s * (WAIT_FACTOR - UNWATCHED_SHARE)
    before, stands_for = run_queue_waits(), 1 / (1 - UNWATCHED_SHARE)  # the first look counts for the time before it, too
    while left_s > 0:
        if wait(left_s):
            return True
        most_s -= left_s
        now = run_queue_waits()
        waited_s = min(max((now[thread] - before.get(thread, 0) for thread in now), default=0) / 1e9, left_s)
        left_s = min(waited_s * stands_for, most_s) if waited_s > LEAST_SHARE * left_s else 0.0
        before, stands_for = now, 1.0
    return False


def run_queue_waits_of(link: socket.socket, root: Path = Path("/proc")) -> Waits:
    """How long the threads of the process at the other end, and of its children, have waited for a core; empty where that is not known."""
    pid = _peer(link)[0]
    waits: dict[int, int] = {}
    waiting, count = [pid] if pid > 0 else [], 0  # 0: of a PID namespace that this process does not see
    while waiting and count < PROCESS_LIMIT:
        process, count = waiting.pop(), count + 1
        for task in (root / str(process) / "task").glob("*"):
            fields = _words(task / "schedstat")
            if len(fields) > WAITED and task.name.isdecimal():
                waits[int(task.name)] = int(fields[WAITED])
            waiting += [int(child) for child in _words(task / "children")]
    return waits


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # it has ended
        return []
