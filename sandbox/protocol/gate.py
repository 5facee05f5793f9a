"""The gate between the judge and one runner, and the socket over which the runner gets it.

The gate is a sealed memfd of counters and a fixed-layout call. The judge writes a call and then `go`, a random number; the runner does
the call, writes its answer and then `done`, the same number. Each sleeps until the other has written (futex(2)); where something is timed
it spins before (0.1 us). Every wait has a deadline. The judge copies an answer once and checks every field: nothing that a runner wrote is
believed, it is only compared.

Over the socket go descriptors and one length-prefixed JSON line. The judge sends, the runner receives; nothing but the gate's layout ever
goes in the opposite direction.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import math
import mmap
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from sandbox.protocol import wire

TENSOR_LIMIT = 128
RANK_LIMIT = 8
SPIN_NS = 2_000_000  # then the waiter sleeps: on two cores a spinning judge would take the kernel's second core
NAP_NS = 2_000_000  # of a sleeper that nobody wakes: then it looks whether the other side is still there
AXIS_LIMIT = TENSOR_LIMIT * RANK_LIMIT  # where every size of every tensor is passed
SAMPLE_LIMIT = 4096
SAMPLE_LIMIT_NS = 1 << 53  # a hundred days; a report keeps nanoseconds in 63 bits
CUT = "cut"  # the first line of an observation that did not fit into its answer
MESSAGE_LIMIT_BYTES = 2048
FUTEX = {"x86_64": 202, "aarch64": 98}.get(os.uname().machine, -1)  # the system call; where its number is not known a waiter spins
FUTEX_WAIT, FUTEX_WAKE, ALL_WAITERS = 0, 1, 2**31 - 1
# On a GPU no tensor has the last ARENA_FLAG_BYTES of an arena. They begin with the number of the call whose inputs lie there; the number of
# the call that has ended follows ARENA_FINISHED_AT bytes later.
ARENA_FLAG_BYTES, ARENA_FINISHED_AT = 256, 64
_HEADER = struct.Struct("<I")
FD_COUNT = 4  # gate, arena, artifact, state


class Operation(IntEnum):
    """An operation of the runner."""

    PLACE = 1  # where the tensors of the following calls lie; with a seed, memory of random sizes is allocated and freed. Nothing runs
    CALL = 2  # a launch on each placement, behind the one before and when its inputs are there; then synchronise
    NULL = 3  # what the protocol itself costs: a kernel that does nothing, and a copy to the outputs where a call makes one
    FLOOR = 4  # the least that it can cost: as NULL without the copy, and `done` before the kernel has run
    BENCH = 5  # do_bench on the first placement: a claim
    WARM = 7  # `count` launches on inputs of an earlier call, so that the host's code is not cold when the clock runs
    WARM_NULL = 8
    EXIT = 9
    LOAD = 11  # load the artifact: the first call, and the first moment at which something of the submission runs
    PROFILE = 12  # some launches on what was placed, under profilers, which leave files in {out}
    OBSERVE = 10  # as CALL, under observation: the answer tells which operators and functions it called
    OBSERVE_KERNELS = 13  # and which kernels it launched
    OBSERVE_AMOUNTS = 14  # as CALL; the answer tells how long each kernel took, or how many launches there were


class Status(IntEnum):
    """The runner's status of a call."""

    OK = 0
    RAISED = 1
    ENTRY_NOT_FOUND = 2
    WRONG_SHAPE = 3
    WRONG_DTYPE = 4
    DEVICE_FAULT = 5
    OUT_OF_MEMORY = 6


# Fields of a call that the page has as they are.
_PLAIN_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("poison", "copy_out", "late_scalars"), bool),
    **dict.fromkeys(("variant", "count", "template_index", "stride_bytes", "seed", "budget_ns"), int),
}


class _SlotLayout(ctypes.Structure):
    _fields_ = [
        ("offset", ctypes.c_uint64),
        ("rank", ctypes.c_uint32),
        ("strided", ctypes.c_uint32),
        ("shape", ctypes.c_int64 * RANK_LIMIT),
        ("scalar", ctypes.c_double),
        ("strides", ctypes.c_int64 * RANK_LIMIT),
    ]


class _Page(ctypes.Structure):
    _fields_ = [
        ("go", ctypes.c_uint64),
        ("_a", ctypes.c_uint64 * 7),
        ("done", ctypes.c_uint64),
        ("launched", ctypes.c_uint64),
        ("_b", ctypes.c_uint64 * 6),
        *((name, ctypes.c_uint32) for name in ("operation", "input_count", "output_count", "axis_count")),
        *((name, ctypes.c_uint64) for name in _PLAIN_FIELDS),
        ("axes", ctypes.c_int64 * AXIS_LIMIT),
        ("slots", _SlotLayout * TENSOR_LIMIT),
        *((name, ctypes.c_uint32) for name in ("status", "message_bytes", "sample_count")),
        ("message", ctypes.c_ubyte * MESSAGE_LIMIT_BYTES),
        ("samples_ns", ctypes.c_uint64 * SAMPLE_LIMIT),
        ("scalars", ctypes.c_double * TENSOR_LIMIT),
    ]


GATE_BYTES = 65536
assert ctypes.sizeof(_Page) <= GATE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a tensor lies in the arena; scalar instead where shape is (). strides: in elements, of an input that is not contiguous; of an
    output, which is, those that a returned tensor may have; else ()."""

    offset: int
    shape: tuple[int, ...]
    scalar: float = 0.0
    strides: tuple[int, ...] = ()

    @property
    def element_count(self) -> int:
        """How many elements of memory the tensor takes, those between its own included."""
        return span(self.shape, self.strides)


def span(shape: Sequence[int], strides: Sequence[int] = ()) -> int:
    """The number of elements from a tensor's first to its last in memory. strides: () where it is contiguous."""
    if not strides or 0 in shape:
        return math.prod(shape)
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to a runner. count, stride_bytes: so many placements, each so far behind the one before. late_scalars: the values of the
    inputs without a shape come with each `go`, and not with PLACE, so that nothing is computed from them before the clock runs. seed: of
    PLACE, for what is allocated, filled with NaN and freed; 0: nothing is."""

    operation: Operation
    inputs: tuple[Slot, ...] = ()
    outputs: tuple[Slot, ...] = ()
    axes: tuple[int, ...] = ()
    poison: bool = False  # NaN-fill what the kernel allocates itself
    variant: int = 0  # which of the things that a trusted runner can run
    copy_out: bool = False  # for NULL
    count: int = 1
    template_index: int = 0  # which of the job's templates
    stride_bytes: int = 0
    seed: int = 0
    budget_ns: int = 0
    late_scalars: bool = False

    def with_scalars(self, values: Sequence[float]) -> Call:
        """The same call, with these values for the inputs without a shape; one for each input, and those of tensors are ignored."""
        pairs = zip(self.inputs, values, strict=True)
        return replace(self, inputs=tuple(slot if slot.shape else replace(slot, scalar=value) for slot, value in pairs))

    def at(self, index: int) -> Call:
        """The same call, on one of its placements."""
        if index == 0 and self.count == 1:
            return self
        shift = index * self.stride_bytes
        inputs = tuple(replace(slot, offset=slot.offset + shift) if slot.shape else slot for slot in self.inputs)
        outputs = tuple(replace(slot, offset=slot.offset + shift) for slot in self.outputs)  # one without axes has a place too
        return replace(self, inputs=inputs, outputs=outputs, count=1, stride_bytes=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The runner's answer next to `done`: claims and untrusted text, cut to the layout's limits."""

    status: Status
    message: str = ""
    samples_ns: tuple[int, ...] = ()


FINE = Answer(status=Status.OK)
TAKES_OUTPUTS = "takes outputs"  # a runner's answer to LOAD: no copy of what the kernel returns is to be forgiven


class GateViolated(Exception):
    """The runner wrote to the gate what its shim never writes."""


class Gate:
    """A side's view of the gate's page."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, GATE_BYTES)
        self._page = _Page.from_buffer(self._map)
        self._spin_ns = SPIN_NS
        self._futex = ctypes.CDLL(None).syscall
        self._futex.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p)

    def _sleep(self, place: Any, number: int, nap_ns: int) -> None:
        """Sleep until there is another number, or the other side wakes us, for nap_ns at most. The lower half is compared."""
        limit = (ctypes.c_long * 2)(*divmod(nap_ns, 10**9))  # a `struct timespec`
        self._futex(FUTEX, ctypes.addressof(self._page) + place.offset, FUTEX_WAIT, number & 0xFFFF_FFFF, ctypes.addressof(limit))

    def _wake(self, place: Any) -> None:
        self._futex(FUTEX, ctypes.addressof(self._page) + place.offset, FUTEX_WAKE, ALL_WAITERS, None)

    # -- the judge's side ------------------------------------------------------------------------------------------------

    def open(self, call: Call) -> int:
        """Write the call and let the runner go; return the number it has to echo. Nothing is timed where allocations are filled."""
        page, self._spin_ns = self._page, 0 if call.poison else SPIN_NS
        ctypes.memset(ctypes.addressof(page) + _Page.operation.offset, 0, _Page.samples_ns.offset - _Page.operation.offset)
        for name in _PLAIN_FIELDS:
            setattr(page, name, getattr(call, name))
        page.input_count, page.output_count, page.axis_count = len(call.inputs), len(call.outputs), len(call.axes)
        page.axes[: len(call.axes)] = call.axes
        slots = (*call.inputs, *call.outputs)
        for place, slot in zip(page.slots[: len(slots)], slots, strict=True):
            place.offset, place.rank, place.scalar, place.strided = slot.offset, len(slot.shape), slot.scalar, bool(slot.strides)
            place.shape[: len(slot.shape)], place.strides[: len(slot.strides)] = slot.shape, slot.strides
        return self.fire(call.operation)

    def fire(self, operation: Operation) -> int:
        """Let the runner go with what was last placed: nothing but the operation is written, for this is inside the clock."""
        number = self.arm(operation)
        self._page.go = number
        self._wake(_Page.go)
        return number

    def arm(self, operation: Operation) -> int:
        """As `fire`, but for `go` itself, which the native clock writes: the number that it has to be."""
        page = self._page
        page.operation, page.status, page.message_bytes, page.sample_count = operation, 0, 0, 0
        return secrets.randbits(63) | 1

    def write_scalars(self, values: Sequence[float]) -> None:
        """Publish the scalars of the next call, one for each input; the native clock does so itself."""
        for index, value in enumerate(values):
            self._page.scalars[index] = value

    def addresses(self) -> dict[str, int]:
        """Where `go`, `done`, `launched` and the scalars lie, for the native clock."""
        places = {"go": _Page.go, "done": _Page.done, "launched": _Page.launched, "scalars_to": _Page.scalars}
        return {name: ctypes.addressof(self._page) + place.offset for name, place in places.items()}

    @property
    def done(self) -> int:
        """The number that the runner last echoed."""
        return int(self._page.done)

    def expect(self, number: int) -> None:
        """Let the next `done` be this one without a call: the runner's announcement."""
        self._page.go = number

    def wait(self, number: int, previous: int, deadline_ns: int, alive: Callable[[], bool]) -> bool:
        """Wait until `done` is number. False: the deadline (monotonic) passed, or the runner went away without it."""
        page, clock = self._page, time.monotonic_ns
        begun, gone = clock(), False
        while (echo := page.done) != number:
            if echo != previous:
                raise GateViolated("the runner answered a call that was never made")
            now = clock()
            if gone or now > deadline_ns:
                return False
            if now - begun > self._spin_ns:
                gone = not alive()  # then one more look: its last answer counts
                self._sleep(_Page.done, previous, 0 if gone else NAP_NS)
        return True

    def answer(self) -> Answer:
        """Copy the answer once and check it."""
        copy = _Page.from_buffer_copy(bytes(self._map[: ctypes.sizeof(_Page)]))  # once; what it says may change meanwhile, a copy does not
        if copy.status not in Status.__members__.values() or copy.sample_count > SAMPLE_LIMIT or copy.message_bytes > MESSAGE_LIMIT_BYTES:
            raise GateViolated("the runner's answer is out of its layout")
        samples = tuple(copy.samples_ns[: copy.sample_count])
        if any(sample > SAMPLE_LIMIT_NS for sample in samples):
            raise GateViolated("the runner claims a time that no clock can have seen")
        message = bytes(copy.message[: copy.message_bytes]).decode("utf-8", "replace")
        return Answer(status=Status(copy.status), message=message, samples_ns=samples)

    # -- the runner's side -----------------------------------------------------------------------------------------------

    def announce(self, version: str) -> int:
        """Say that this runner has its job, device and memory, and which protocol it speaks; wait for LOAD, and return its number."""
        first = self.next(0)
        self.reply(first, Answer(status=Status.OK, message=version))
        return self.next(first)

    def next(self, previous: int, spin_ns: int = 0, nap_ns: int = NAP_NS) -> int:
        """Wait for a call; the judge ends the box, so this waits for ever. spin_ns, nap_ns: see `Device`."""
        page, begun = self._page, time.monotonic_ns()
        while (number := page.go) == previous:
            if time.monotonic_ns() - begun > spin_ns:
                self._sleep(_Page.go, previous, nap_ns)
        return int(number)

    def operation(self) -> Operation:
        """Read what is to be done, and nothing else of the call."""
        return Operation(self._page.operation)

    def call(self) -> Call:
        """Read the call."""
        page = self._page
        slots = tuple(
            Slot(
                offset=slot.offset,
                shape=tuple(slot.shape[: slot.rank]),
                scalar=slot.scalar,
                strides=tuple(slot.strides[: slot.rank]) if slot.strided else (),
            )
            for slot in page.slots[: page.input_count + page.output_count]
        )
        return Call(
            operation=Operation(page.operation),
            inputs=slots[: page.input_count],
            outputs=slots[page.input_count :],
            axes=tuple(page.axes[: page.axis_count]),
            **{name: kind(getattr(page, name)) for name, kind in _PLAIN_FIELDS.items()},
        )

    def scalars(self, count: int) -> tuple[float, ...]:
        """Read the scalars of the call that runs: one for each input."""
        return tuple(self._page.scalars[:count])

    def say_launched(self, number: int) -> None:
        """Say that all launches of this call wait on the device."""
        self._page.launched = number

    def reply_after(self, wait: Callable[[], int], number: int) -> int:
        """Write `done` as soon as wait returns 0, with nothing between them: a busy core makes what Python does longer. Returns what
        wait did; where that is not 0, nothing was written."""
        page = self._page
        code = wait()
        if code == 0:
            page.done = number
            self._wake(_Page.done)
        return code

    def reply(self, number: int, answer: Answer) -> None:
        """Write the answer, then `done`."""
        page = self._page
        if answer is not FINE:  # FLOOR, inside the clock; the judge has set the rest to nothing
            message = answer.message.encode()[:MESSAGE_LIMIT_BYTES]
            ctypes.memmove(page.message, message, len(message))
            page.message_bytes, page.status, page.sample_count = len(message), answer.status, len(answer.samples_ns)
            for index, sample in enumerate(answer.samples_ns[:SAMPLE_LIMIT]):
                page.samples_ns[index] = sample
        page.done = number
        self._wake(_Page.done)


def create_sealed(name: str, size: int) -> int:
    """A memfd of a fixed size. Without the seals a runner could shrink it, and the judge would die of SIGBUS."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def send_job(link: socket.socket, job: wire.RunnerJob, fds: tuple[int, ...], limit_s: float) -> None:
    """Send the job and the descriptors of gate, arena, artifact and state; TimeoutError where the runner does not read them in time."""
    _send(link, wire.encode(job), fds, limit_s)


def send_templates(link: socket.socket, templates: Sequence[str], limit_s: float) -> None:
    """Send all templates, once some were kept back of a job's: in memory, for nobody reads the link until one is wanted."""
    fd = sealed_copy(json.dumps(templates).encode())
    try:
        _send(link, b"{}", (fd,), limit_s)
    finally:
        os.close(fd)


def _send(link: socket.socket, body: bytes, fds: tuple[int, ...], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    data = _HEADER.pack(len(body)) + body
    try:
        link.settimeout(limit_s)
        sent = socket.send_fds(link, [data], list(fds))
        if rest := data[sent:]:  # of nothing, too, it would be asked whether the runner is there, which may have answered and gone
            link.settimeout(max(deadline - time.monotonic(), 0.001))
            link.sendall(rest)
    finally:
        link.settimeout(None)


def receive_job(link: socket.socket) -> tuple[wire.RunnerJob, list[int]]:
    """Receive what `send_job` sent; waits for ever, for the judge ends the box."""
    data, fds = _receive(link)
    job: Any = wire.decode(data)
    if not isinstance(job, wire.RunnerJob):
        raise wire.WireError(f"a {type(job).__name__} is no job of a runner's")
    return job, fds


def _receive(link: socket.socket) -> tuple[bytes, list[int]]:
    data, fds, _, _ = socket.recv_fds(link, 1 << 16, FD_COUNT)
    while len(data) < _HEADER.size or len(data) < _HEADER.size + _HEADER.unpack_from(data)[0]:
        chunk = link.recv(1 << 16)
        if not chunk:
            raise EOFError("the judge closed the link")
        data += chunk
    return data[_HEADER.size :], fds


class Templates(Sequence[str]):
    """A runner's templates, of which some come when they are wanted."""

    def __init__(self, link: socket.socket, templates: Sequence[str]) -> None:
        self._link, self._known = link, templates

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, index: Any) -> Any:
        if not self._known[index]:
            (fd,) = _receive(self._link)[1]
            with os.fdopen(fd, "rb") as file:
                file.seek(0)  # it was written through this descriptor's file
                self._known = json.load(file)
        return self._known[index]


def sealed_copy(data: bytes) -> int:
    """A memfd that holds data and can never change: how an artifact gets into a box that has no mount for it."""
    fd = os.memfd_create("artifact", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd
