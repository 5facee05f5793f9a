"""How many bits one box can leave for the next in the page cache of the toolchain, by the strongest channel that was found.

    python -m tools.service.between_boxes --isolation docker|bubblewrap [--attempts 200] [--on-disk] [--unfiltered]

In each attempt a box reads the pages of a large file of the toolchain that stand for ones among random bits, and ends; the next box looks
which pages are there: by asking (preadv2 with RWF_NOWAIT, mincore, cachestat), by counting its major faults, and by the time of the first
touch.
Before each attempt this tool itself drops the file from the page cache, which a box can't: the sender is given a clean page. The first
bits are known to the receiver, which chooses its threshold for the time by them. Root is needed, as for the server.
--on-disk is the control: boxes see the files on disk. --unfiltered is another: without seccomp.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from grader.isolation import BoxSpec, Limits, Purpose
from grader.isolation.bubblewrap import BubblewrapIsolation
from grader.isolation.directories import hold_slot, shared_slot_directory
from grader.isolation.docker import DockerIsolation
from grader.isolation.memory_toolchain import memory_toolchain
from grader.isolation.settings import BoxSettings, Protections
from grader.isolation.toolchain import mirrored, package_directory
from tools.page import facts, table_lines

ISOLATIONS = {"docker": DockerIsolation, "bubblewrap": BubblewrapIsolation}
LIMITS = Limits(
    wall_s=60.0,
    cpu_s=30.0,
    memory_bytes=256 << 20,
    process_count=16,
    output_bytes=1 << 20,
    file_bytes=1 << 20,
    tmp_bytes=1 << 20,
    open_file_count=64,
)
STEP = 256 << 10  # further apart than any readahead
KNOWN_COUNT, BIT_COUNT = 32, 128
SENDER = """
import mmap, os, sys
path, step, bits = sys.argv[1], int(sys.argv[2]), sys.argv[3]
descriptor = os.open(path, os.O_RDONLY)
shown = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
shown.madvise(mmap.MADV_RANDOM)
for number, bit in enumerate(bits):
    if bit == '1':
        for at in range(number * step, number * step + 4 * 4096, 4096):
            shown[at]
print('sent')
"""
RECEIVER = """
import ctypes, json, mmap, os, resource, sys, time
path, step, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
descriptor = os.open(path, os.O_RDONLY)
libc = ctypes.CDLL(None, use_errno=True)
class Vector(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
room = ctypes.create_string_buffer(1)
vector = Vector(ctypes.addressof(room), 1)
shown = mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
shown.madvise(mmap.MADV_RANDOM)
address = ctypes.addressof(ctypes.c_char.from_buffer(shown))
def nowait(at):
    words = [ctypes.c_long(one) for one in (1, at, 0, 8)]
    return libc.syscall(ctypes.c_long(327), ctypes.c_long(descriptor), ctypes.byref(vector), *words)
def core(at):
    found = ctypes.create_string_buffer(1)
    result = libc.syscall(ctypes.c_long(27), ctypes.c_void_p(address + at), ctypes.c_size_t(4096), found)
    return -1 if result < 0 else found.raw[0] & 1
def stated(at):
    area, found = (ctypes.c_uint64 * 2)(at, 4096), (ctypes.c_uint64 * 5)()
    result = libc.syscall(ctypes.c_long(451), ctypes.c_long(descriptor), area, found, ctypes.c_long(0))
    return -1 if result < 0 else int(found[0] > 0)
answers = {'preadv2': [], 'mincore': [], 'cachestat': [], 'major_faults': [], 'time': []}
for number in range(count):
    at = number * step
    answers['preadv2'].append(nowait(at))
    answers['mincore'].append(core(at))
    answers['cachestat'].append(stated(at))
for number in range(count):
    faults, took = 0, 0
    for at in range(number * step, number * step + 4 * 4096, 4096):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        begun = time.perf_counter_ns()
        shown[at]
        took += time.perf_counter_ns() - begun
        faults += resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before
    answers['major_faults'].append(-faults)
    answers['time'].append(-took)
print(json.dumps(answers))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What one decoder got. share: of the bits that were right; sigma: of that share, had it guessed."""

    decoder: str
    share: float
    sigma: float
    bits_per_second: float


def decoded(values: Sequence[float], known: Sequence[int]) -> list[int]:
    """Bits by values: the threshold, and the direction, that fit the known bits best."""
    levels = sorted(set(values[: len(known)]))
    best, threshold, upward = -1, math.inf, True
    for level in levels:
        for up in (True, False):
            right = sum(((value >= level) is up) == bool(bit) for value, bit in zip(values, known, strict=False))
            if right > best:
                best, threshold, upward = right, level, up
    return [int((value >= threshold) is upward) for value in values[len(known) :]]


def summary(decoder: str, right: int, total: int, attempt_s: float) -> Recovered:
    """The share, and an upper bound of the rate: that of a binary symmetric channel two standard deviations better than was seen."""
    share, sigma = right / total, math.sqrt(0.25 / total)
    bound = min(1.0, 0.5 + abs(share - 0.5) + 2 * sigma)
    lost = 0.0 if bound >= 1.0 else -bound * math.log2(bound) - (1 - bound) * math.log2(1 - bound)
    return Recovered(decoder=decoder, share=share, sigma=sigma, bits_per_second=BIT_COUNT * (1 - lost) / attempt_s)


def large_file() -> Path:
    """A file of the toolchain with room for all bits."""
    found = sorted((package_directory("torch") / "lib").glob("*.so*"), key=lambda path: -path.stat().st_size)
    if not found or found[0].stat().st_size < (KNOWN_COUNT + BIT_COUNT) * STEP:
        raise SystemExit("no library of torch is large enough here; install torch")
    return found[0].resolve()


def dropped(path: Path) -> None:
    """Drop a file from the page cache, where that can be done."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


@contextmanager
def place() -> Iterator[Path]:
    """A directory for the boxes' links."""
    with tempfile.TemporaryDirectory(prefix="grader-between-") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


@asynccontextmanager
async def boxes(name: str, *, on_disk: bool, unfiltered: bool):  # type: ignore[no-untyped-def]
    """An isolation, and the directory of the toolchain's copy."""
    with place() as directory:
        settings = BoxSettings(state_id=f"between{os.getpid()}", runtime_dir=directory / "run")
        async with memory_toolchain(settings, wanted=not on_disk) as copy:
            made = ISOLATIONS[name](replace(settings, memory_toolchain_dir=copy), Protections(seccomp=not unfiltered))
            try:
                yield made, copy
            finally:
                await made.close()


async def said(isolation, slot: int, code: str, *words: str) -> str:  # type: ignore[no-untyped-def]
    """Run a program in a box of its own, and return what it printed."""
    argv = ("{python}", "-I", "-S", "-c", code, *words)
    spec = BoxSpec(box_id=f"b{time.monotonic_ns()}", purpose=Purpose.RUN, argv=argv, limits=LIMITS, slot=slot)
    async with isolation.start(spec) as box:
        ended = await box.wait()
    return str(ended.output.decode())


async def measured(name: str, attempts: int, *, on_disk: bool, unfiltered: bool = False, seed: int = 0) -> list[Recovered]:
    """All decoders' shares over all attempts; the rate counts a sender's and a receiver's box."""
    chance, path, right, total = random.Random(seed), large_file(), dict[str, int](), 0
    spent: list[float] = []
    async with boxes(name, on_disk=on_disk, unfiltered=unfiltered) as (isolation, copy):
        with hold_slot(shared_slot_directory()) as slot:
            for _ in range(attempts):
                bits = [chance.getrandbits(1) for _ in range(KNOWN_COUNT + BIT_COUNT)]
                for one in (path, *([mirrored(copy, path)] if copy else [])):
                    dropped(one)
                begun = time.monotonic()
                sent = await said(isolation, slot, SENDER, str(path), str(STEP), "".join(map(str, bits)))
                answer = await said(isolation, slot, RECEIVER, str(path), str(STEP), str(len(bits)))
                spent.append(time.monotonic() - begun)
                if sent != "sent\n":
                    raise SystemExit(f"the sender failed: {sent}")
                for decoder, values in json.loads(answer).items():
                    found = decoded(values, bits[:KNOWN_COUNT])
                    right[decoder] = right.get(decoder, 0) + sum(a == b for a, b in zip(found, bits[KNOWN_COUNT:], strict=True))
                total += BIT_COUNT
    return [summary(decoder, count, total, statistics.median(spent)) for decoder, count in right.items()]


def main() -> int:
    """Print a line for each decoder."""
    parser = argparse.ArgumentParser(prog="python -m tools.service.between_boxes", description="Measures what a box leaves for the next.")
    parser.add_argument("--isolation", choices=sorted(ISOLATIONS), required=True)
    parser.add_argument("--attempts", type=int, default=200)
    parser.add_argument("--on-disk", action="store_true", help="the control: boxes see the files on disk")
    parser.add_argument("--unfiltered", action="store_true", help="the control of the calls: without seccomp")
    given = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("needs root, to drop files from the page cache and for one uid per box")
    found = asyncio.run(measured(given.isolation, given.attempts, on_disk=given.on_disk, unfiltered=given.unfiltered))
    head = {
        **facts(f"python -m tools.service.between_boxes {shlex.join(sys.argv[1:])}"),
        "toolchain": "on disk" if given.on_disk else "in memory",
        "bits": f"{given.attempts} attempts of {BIT_COUNT} bits",
    }
    rows = [(one.decoder, f"{one.share:.1%}", f"{(one.share - 0.5) / one.sigma:+.1f}", f"{one.bits_per_second:.3g}") for one in found]
    lines = [*table_lines(("what", "which"), head.items()), "", *table_lines(("decoder", "bits right", "sigma", "bit/s at most"), rows)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
