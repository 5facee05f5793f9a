"""The judge's hold on one runner: its link, gate and arena.  Used for the subject and, unchanged, for the trusted baseline.

A limit does not count the time in which the runner waited for a core of a busy machine. The kernel accounts how long each thread has been
ready to run without running (proc(5), /proc/PID/schedstat). The thread of the runner that waited most decides. A runner that starts many
threads makes them wait for each other, so all of it is at most WAIT_FACTOR times the limit.

Also reads how much CPU time a box, and the rest of the machine, used meanwhile.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from sandbox.devices import Arena, Device, DeviceFault
from sandbox.devices.clock import Pairs, RunCopies, TrainTime, WaitEnd
from sandbox.protocol import wire
from sandbox.protocol.box_files import socket_address
from sandbox.protocol.gate import (
    GATE_BYTES,
    TAKES_OUTPUTS,
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
)
from sandbox.protocol.version import VERSION
from sandbox.protocol.wire import WAIT_FACTOR

ACCEPT_POLL_S = 0.05
REBUILD = "see the box's log; if boxes are made from an image, build it from this version of the grader"
CLOSED_SUFFIX = ".closed"  # the server makes this file next to the link when no runner will come any more
MORE_RUN_S = 1.0  # of a run of a train that is not the first, at most: only short kernels have some
UNWATCHED_SHARE = 0.25  # of the limit: nearly every call has ended by then, and its threads need not be looked at
LEAST_SHARE = 0.05  # of the time since the last look: what waited for less was not held up
PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
PROCESS_LIMIT = 1024  # a box has no more
BUSY_SHARE = 0.25  # of one core; an idle runner that nobody wakes looks at its gate every 50 us, which takes a tenth
POOL_NS = 4_000_000  # of each run: a runner and the threads of a pool spin before they sleep, 3.9 ms on average at most as measured here
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
USER, SYSTEM, WAITED_USER, WAITED_SYSTEM = 11, 12, 13, 14  # fields of /proc/PID/stat after the name, proc(5)
IDLE, IO_WAIT, STOLEN = 3, 4, 7  # fields of the line `cpu` of /proc/stat; those behind are counted in others
WAITED = 1  # the field of /proc/PID/task/TID/schedstat
Waits = Mapping[int, int]  # nanoseconds in the run queue, by thread
Result = TypeVar("Result")


class Silence(Enum):
    """Why there is no answer."""

    GONE = "gone"
    TIMED_OUT = "timed_out"


def is_ok(reply: Answer | Silence) -> TypeGuard[Answer]:
    """Return whether the runner said that it did what was asked."""
    return isinstance(reply, Answer) and reply.status is Status.OK


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
    artifact: bytes = b""

    @property
    def takes_outputs(self) -> bool:
        """Return whether the runner says that its kernel writes to its outputs: a claim that only lessens what it is forgiven."""
        return isinstance(self.loaded, Answer) and self.loaded.message == TAKES_OUTPUTS

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
            train = self.device.clock.take(
                runs,
                scalars,
                **self.gate.addresses(),
                published=self.arena.published,
                finished=self.arena.finished,
                previous=self.gate.done,
                number=self.gate.arm(operation),
                limit_ns=int((limit_s + (len(runs) - 1) * min(limit_s, MORE_RUN_S)) * 1e9),
                link=self.link.fileno(),
            )
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
        runner = RunnerLink(device=device, arena=arena, gate=gate, link=link, loaded=loaded, artifact=artifact)
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


def run_queue_waits_of(link: socket.socket, root: Path = PROC) -> Waits:
    """How long the threads of the process at the other end, and of its children, have waited for a core; empty where that is not known."""
    waits: dict[int, int] = {}
    for process in _process_tree(_peer(link)[0], root):
        for thread in (process / "task").glob("*"):
            fields = _text(thread / "schedstat").split()
            if len(fields) > WAITED and thread.name.isdecimal():
                waits[int(thread.name)] = int(fields[WAITED])
    return waits


def _process_tree(pid: int, root: Path = PROC) -> Iterator[Path]:
    """The directories of a process and of those that descend from it; none of one in a PID namespace that this process does not see."""
    waiting, count = [pid] if pid > 0 else [], 0
    while waiting and count < PROCESS_LIMIT:
        process, count = root / str(waiting.pop()), count + 1
        yield process
        waiting += [int(child) for children in (process / "task").glob("*/children") for child in _text(children).split()]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")  # a process chooses its own name
    except OSError:  # it has ended
        return ""


@dataclass(frozen=True, slots=True)
class BoxLoad:
    """The CPU time that a box used during each run of a baseline, and how long that run lasted, in nanoseconds, by baseline: one busy
    thread makes PyTorch look almost half as fast (cheating F2).

    The kernel's account is read: of the box's cgroup, else of its processes. It counts a running thread at its ticks, so a single reading
    is off by some milliseconds either way; the sum over all of a workload's runs is not. cpu_ns: reads what the box has used so far; None
    where this host does not tell.
    """

    cpu_ns: Callable[[], int | None]
    runs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def watch(self, name: str, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do `work`, and count what the box uses meanwhile."""
        before, begun = self.cpu_ns(), time.monotonic_ns()
        result = work(*arguments)
        after, ended = self.cpu_ns(), time.monotonic_ns()
        if before is not None and after is not None:
            self.runs.setdefault(name, []).append((after - before, ended - begun))
        return result

    def busy(self, name: str) -> bool:
        """Return whether the box used more than an idle one does while this baseline ran."""
        runs = self.runs.get(name, [])
        used_ns, lasted_ns = sum(used for used, _ in runs), sum(lasted for _, lasted in runs)
        return used_ns - POOL_NS * len(runs) > BUSY_SHARE * lasted_ns


def box_load(link: socket.socket) -> BoxLoad:
    """Return the load of the box whose process is at the other end of a Unix socket."""
    pid = _peer(link)[0]
    if pid <= 0:  # of a PID namespace that this process does not see: a server in a container
        return BoxLoad(lambda: None)
    account = cgroup_account(_text(PROC / str(pid) / "cgroup"), _text(PROC / "self" / "cgroup"))
    return BoxLoad(lambda: _cpu_ns_of_processes(pid) if account is None else _cpu_ns_of_cgroup(account))


def foreign_cpu_ns() -> int | None:
    """The CPU time that this machine has spent on all but this process and its children; None where it does not tell. Time that its host
    took away counts, too."""
    fields = _text(PROC / "stat").partition("\n")[0].split()[1:]
    if len(fields) <= STOLEN:
        return None
    ticks = sum(int(fields[index]) for index in range(STOLEN + 1) if index not in (IDLE, IO_WAIT))
    return TICK_NS * ticks - _cpu_ns_of_processes(os.getpid())


def cgroup_account(theirs: str, ours: str, root: Path = CGROUPS) -> Path | None:
    """Return the file with a box's CPU time; None where it has no cgroup of its own. theirs, ours: two texts of /proc/PID/cgroup.

    v1 has the controller cpuacct; v2 counts in each cgroup. See cgroups(7).
    """
    # Controllers and path of each hierarchy; no controllers: v2.
    entries = [[line.split(":", 2)[1:] for line in text.splitlines() if line.count(":") >= 2] for text in (theirs, ours)]
    directories = dict(entries[1])
    for controllers, path in entries[0]:
        if directories.get(controllers) is None or f"{directories[controllers]}/".startswith(f"{path.rstrip('/')}/"):
            continue
        file = root / controllers / path.lstrip("/") / ("cpuacct.usage" if controllers else "cpu.stat")
        if (not controllers or "cpuacct" in controllers.split(",")) and file.is_file():
            return file
    return None


def _cpu_ns_of_cgroup(account: Path) -> int | None:
    text = _text(account)
    if account.name == "cpuacct.usage":
        return int(text) if text.strip().isdigit() else None
    usage = dict(line.split() for line in text.splitlines() if len(line.split()) == 2).get("usage_usec", "")
    return 1000 * int(usage) if usage.isdigit() else None


def _cpu_ns_of_processes(pid: int) -> int:
    """Return the CPU time that a process and those that descend from it have used, with those that they have waited for."""
    ticks = 0
    for process in _process_tree(pid):
        fields = _text(process / "stat").rpartition(")")[2].split()
        if len(fields) > WAITED_SYSTEM:  # else it has ended
            ticks += sum(int(fields[index]) for index in (USER, SYSTEM, WAITED_USER, WAITED_SYSTEM))
    return TICK_NS * ticks
