"""The artifact cache with real boxes: what they build is found again, and they can't get at the cache."""

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from grader.artifacts import ArtifactCache
from grader.dispatch.local_fleet import LocalFleet
from grader.grading.attempt import StepClock
from grader.grading.pipeline import build_artifact
from grader.isolation import BoxSpec, Purpose, probe
from grader.model import SourceFile
from sandbox.protocol import wire
from tests import fakes

LIMIT = 16 << 20
KEY = "c0ffee" + "a" * 58
# An unused variable: the compiler warns. The date would make every build another.
SOURCE = """extern "C" const char* when() { return __DATE__ " " __TIME__; }
extern "C" void solve(const float* a, float* c, long n, void* stream) { int unused = 1; c[0] = a[0]; }
"""


@pytest.fixture
async def fleet(isolation, settings, place):
    """A fleet with a cache. Its judge is never asked."""
    cache = ArtifactCache(place / "cache", LIMIT)
    async with LocalFleet(isolation=isolation, settings=settings, cache=cache) as local_fleet:
        yield local_fleet


async def job(fleet, content=SOURCE):
    """Build as a submission is built; the fact and the bytes."""
    draft = replace(fakes.new_submission(), sources=(SourceFile(path="kernel.cu", content=content),))
    lease = fakes.lease(draft)
    with fleet.workspace(lease) as work:
        environment = wire.Environment(device="", device_kind="emulated", clock=wire.Clock.HOST)
        build = await build_artifact(lease, fleet, work, environment, StepClock())
        return build, work.artifact_path.read_bytes() if work.artifact_path.exists() else b""


@pytest.mark.slow
async def test_ten_jobs_build_in_one_box(fleet):
    """After somebody tampered with the entry, in another; the bytes are the same, for they say nothing of when and where."""
    results = await asyncio.gather(*(job(fleet) for _ in range(10)))
    assert [build.outcome for build, _ in results] == [wire.BuildOutcome.BUILT] * 10, results[0][0].log
    assert sorted(build.cached for build, _ in results) == [False] + [True] * 9
    assert len({artifact for _, artifact in results}) == 1
    assert (await job(fleet))[0].cached
    [entry] = (fleet.cache.directory / "entries").iterdir()
    content = bytearray(entry.read_bytes())
    content[-1] ^= 1
    entry.write_bytes(content)
    build, artifact = await job(fleet)
    assert not build.cached and artifact == results[0][1]
    first, same = await job(fleet)
    assert (first, same) == (replace(build, cached=True, duration_ns=first.duration_ns), artifact)


ATTACK = f"""
import errno, os, sys
def attempt(what, attack):
    try:
        print(what, "THROUGH", attack(), flush=True)
    except OSError as error:
        print(what, "DENIED", errno.errorcode[error.errno], flush=True)
def opened(path, flags):
    os.close(os.open(path, flags, 0o600))
def found(name):
    skipped = {{"/proc", "/sys", "/dev"}}
    for place, directories, files in os.walk("/"):
        directories[:] = [one for one in directories if os.path.join(place, one) not in skipped]
        if name in files:
            return place
    raise FileNotFoundError(errno.ENOENT, name)
cache = sys.argv[1]
entry = cache + "/entries/{KEY}"
attempt("list", lambda: len(os.listdir(cache)) > 0)
attempt("secret", lambda: len(open(cache + "/secret", "rb").read()))
attempt("read", lambda: opened(entry, os.O_RDONLY))
attempt("write", lambda: opened(entry, os.O_WRONLY))
attempt("create", lambda: opened(cache + "/entries/" + "b" * 64, os.O_WRONLY | os.O_CREAT))
attempt("lock", lambda: opened(cache + "/locks/{KEY}.lock", os.O_RDWR | os.O_CREAT))
attempt("search", lambda: found("{KEY}"))
attempt("replace", lambda: os.replace(entry, entry + "x"))
"""
ATTEMPTS = ["list", "secret", "read", "write", "create", "lock", "search", "replace"]
LIMITS = replace(probe.LIMITS, wall_s=60.0, cpu_s=60.0, file_bytes=1 << 20)


async def output_of(isolation, slot, cache_path, **spec):
    """Return whether each attempt got through, in a real build box; None where the box has our own uid and is kept from nothing by it."""
    argv = ("{python}", "-I", "-S", "-c", ATTACK, cache_path)
    attack = BoxSpec(box_id=f"cache{slot}", purpose=Purpose.BUILD, argv=argv, limits=LIMITS, slot=slot, **spec)
    async with isolation.start(attack) as box:
        ended = await box.wait()
        if isolation.NAME == "process" and box.uid == os.geteuid():
            return None
    lines = [line.split() for line in ended.output.decode().splitlines()]
    assert [line[0] for line in lines] == ATTEMPTS, ended
    return {" ".join(line[1:3]) if line[1] == "DENIED" else "THROUGH" for line in lines}


def opened_to_all(directory: Path):
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o777)


@pytest.mark.slow
async def test_a_build_box_cannot_reach_the_cache(isolation, slot, place):
    """Neither by its path nor by searching. The control opens it to all and binds it in, and there every attempt gets through.

    `process` has no root of its own: only another uid keeps a box out, and where there is none (it warns of that), nothing does.
    """
    cache = ArtifactCache(place / "cache", LIMIT)
    entry = cache.directory / "entries" / KEY
    entry.write_bytes(b"an entry")
    denied = await output_of(isolation, slot, str(cache.directory))
    if denied is None:
        pytest.skip("boxes of `process` have our own uid here: they are kept from nothing, and it says UNSAFE")
    assert denied == ({"DENIED EACCES", "DENIED ENOENT"} if isolation.NAME == "process" else {"DENIED ENOENT"})
    assert entry.read_bytes() == b"an entry" and len(list(cache.directory.rglob("*"))) == 6
    opened_to_all(cache.directory)
    bound = {} if isolation.NAME == "process" else {"out_dir": cache.directory}
    assert await output_of(isolation, slot, "{out}" if bound else str(cache.directory), **bound) == {"THROUGH"}
    ArtifactCache(cache.directory, LIMIT)
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700, "the next server closes it again"
