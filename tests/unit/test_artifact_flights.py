"""Ten who want the same artifact: it is built once, and nobody waits for somebody who gave up."""

import asyncio
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from grader.artifacts import ArtifactCache, BuildResult
from sandbox.protocol import wire
from tests.unit.test_artifacts import KEY, LIMIT, build_result, rejected


class Builder:
    """A builder that builds when told to, and counts."""

    def __init__(self, *results: BuildResult | Exception) -> None:
        self.results = list(results) or [build_result()]
        self.count = 0
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> BuildResult:
        self.count += 1
        self.begun.set()
        await self.go.wait()
        result = self.results[min(self.count, len(self.results)) - 1]
        if isinstance(result, Exception):
            raise result
        return result


@pytest.fixture
def cache(tmp_path: Path) -> ArtifactCache:
    return ArtifactCache(tmp_path / "cache", LIMIT)


async def jobs(cache: ArtifactCache, builder: Builder, count: int) -> list[asyncio.Task[BuildResult]]:
    """Start so many jobs; the first of them builds, and the others have come to wait for it."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # in one thread, everything is in order
    first = asyncio.create_task(cache.fetch(KEY, builder, limit_bytes=LIMIT))
    await asyncio.wait_for(builder.begun.wait(), 300)
    waiters = [asyncio.create_task(cache.fetch(KEY, builder, limit_bytes=LIMIT)) for _ in range(count - 1)]
    await asyncio.sleep(0)  # each has asked for its look into the cache, and ours comes after them
    await asyncio.to_thread(lambda: None)
    return [first, *waiters]


async def test_ten_jobs_build_once(cache: ArtifactCache) -> None:
    """All get the same bytes; nine are told that they were built for another, and the eleventh finds them."""
    builder = Builder()
    tasks = await jobs(cache, builder, 10)
    builder.go.set()
    results = [*await asyncio.wait_for(asyncio.gather(*tasks), 300), await cache.fetch(KEY, builder, limit_bytes=LIMIT)]
    assert builder.count == 1
    assert {result.artifact for result in results} == {b"artifact"}
    assert [result.build.cached for result in results] == [False] + [True] * 10


async def test_other_keys_do_not_wait(cache: ArtifactCache) -> None:
    slow, quick = Builder(), Builder()
    [hanging] = await jobs(cache, slow, 1)
    quick.go.set()
    await asyncio.wait_for(cache.fetch("b" * 64, quick, limit_bytes=LIMIT), 300)
    hanging.cancel()


@pytest.mark.parametrize("failure", [RuntimeError("the box broke"), None], ids=["failure", "cancellation"])
async def test_after_a_failure_or_a_cancellation_the_next_one_builds(cache: ArtifactCache, failure: Exception | None) -> None:
    """Our fault is the leader's alone, and whoever builds may give up; the others get an artifact."""
    builder = Builder(failure, build_result()) if failure else Builder()
    tasks = await jobs(cache, builder, 3)
    if failure is None:
        tasks[0].cancel()
    builder.go.set()
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 300)
    assert isinstance(results[0], asyncio.CancelledError if failure is None else RuntimeError)
    assert [result.artifact for result in results[1:] if isinstance(result, BuildResult)] == [b"artifact"] * 2
    assert builder.count == 2


async def test_who_stops_waiting_stops_nobody_else(cache: ArtifactCache) -> None:
    builder = Builder()
    tasks = await jobs(cache, builder, 3)
    tasks[1].cancel()
    await asyncio.wait(tasks[1:2])
    builder.go.set()
    first, last = await asyncio.wait_for(asyncio.gather(tasks[0], tasks[2]), 300)
    assert tasks[1].cancelled() and first.artifact == last.artifact == b"artifact"
    assert builder.count == 1


async def test_a_rejection_is_shared_and_kept(cache: ArtifactCache) -> None:
    """Those who waited are rejected too, and so is who comes later, also after a restart: with the log, and without a build."""
    builder = Builder(rejected("error: no"))
    tasks = await jobs(cache, builder, 3)
    builder.go.set()
    results = await asyncio.wait_for(asyncio.gather(*tasks), 300)
    assert {result.build.outcome for result in results} == {wire.BuildOutcome.REJECTED} and builder.count == 1
    later = [await view.fetch(KEY, builder, limit_bytes=LIMIT) for view in (cache, ArtifactCache(cache.directory, LIMIT))]
    assert [(hit.build.log, hit.build.cached, hit.artifact) for hit in later] == [("error: no", True, None)] * 2 and builder.count == 1


async def test_an_end_by_chance_is_not_shared(cache: ArtifactCache) -> None:
    """A build that ran out of time says nothing about the next."""
    builder = Builder(replace(rejected(), cacheable=False), build_result())
    tasks = await jobs(cache, builder, 3)
    builder.go.set()
    results = await asyncio.wait_for(asyncio.gather(*tasks), 300)
    assert [result.build.outcome.value for result in results] == ["rejected", "built", "built"]
    assert builder.count == 2


async def test_another_server_that_takes_too_long_is_not_waited_for(tmp_path: Path) -> None:
    """Then it is built twice, and only who holds the key stores: never two entries."""
    slow, impatient = Builder(build_result(b"first")), Builder(build_result(b"second"))
    patient_cache, impatient_cache = ArtifactCache(tmp_path / "cache", LIMIT), ArtifactCache(tmp_path / "cache", LIMIT, patience_s=0.1)
    [first] = await jobs(patient_cache, slow, 1)
    impatient.go.set()
    assert (await asyncio.wait_for(impatient_cache.fetch(KEY, impatient, limit_bytes=LIMIT), 300)).artifact == b"second"
    slow.go.set()
    assert (await asyncio.wait_for(first, 300)).artifact == b"first"
    assert (await impatient_cache.fetch(KEY, impatient, limit_bytes=LIMIT)).artifact == b"first"


async def test_waiting_for_another_server_can_be_cancelled(tmp_path: Path) -> None:
    """At once, and its build goes on."""
    slow, never = Builder(), Builder()
    first_cache, second_cache = ArtifactCache(tmp_path / "cache", LIMIT), ArtifactCache(tmp_path / "cache", LIMIT)
    [first] = await jobs(first_cache, slow, 1)
    waiting = asyncio.create_task(second_cache.fetch(KEY, never, limit_bytes=LIMIT))
    await asyncio.wait([waiting], timeout=0.2)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=60)
    assert waiting.cancelled() and never.count == 0
    slow.go.set()
    assert not (await asyncio.wait_for(first, 300)).build.cached


async def test_a_cache_that_vanishes_costs_only_time(cache: ArtifactCache, tmp_path: Path) -> None:
    """Its directory is removed under the server: everything is built."""
    builder = Builder()
    builder.go.set()
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    for _ in range(2):
        assert not (await cache.fetch(KEY, builder, limit_bytes=LIMIT)).build.cached
    assert builder.count == 2


def one_server(directory: str, start: "multiprocessing.synchronize.Barrier", keys: int, limit_bytes: int) -> None:
    """Do the work of a process: fetch every key, in its own order, and count what it builds in a file that only grows."""

    async def fetch_all() -> None:
        cache = ArtifactCache(Path(directory) / "cache", limit_bytes)
        for number in range(keys):
            key = f"{number:064x}"

            async def build(key: str = key) -> BuildResult:
                with (Path(directory) / "built").open("a") as built:
                    built.write(f"{key}\n")
                await asyncio.sleep(0.05)
                return build_result(key.encode() * 100)

            results = await asyncio.gather(*(cache.fetch(key, build, limit_bytes=LIMIT) for _ in range(3)))
            assert {result.artifact for result in results} == {key.encode() * 100}

    start.wait(30)
    asyncio.run(fetch_all())


@pytest.mark.slow
@pytest.mark.parametrize(("limit_bytes", "once"), [(LIMIT, True), (3 * 8192, False)], ids=["roomy", "evicting"])
def test_several_servers_build_once(tmp_path: Path, limit_bytes: int, once: bool) -> None:
    """Four processes want the same ten artifacts at once. Where they evict each other's, all still get the right bytes."""
    spawning = multiprocessing.get_context("spawn")
    start = spawning.Barrier(4)
    servers = [spawning.Process(target=one_server, args=(str(tmp_path), start, 10, limit_bytes)) for _ in range(4)]
    for server in servers:
        server.start()
    for server in servers:
        server.join(60)
    assert [server.exitcode for server in servers] == [0] * 4
    built = (tmp_path / "built").read_text().split()
    assert len(set(built)) == 10
    assert not once or len(built) == 10
    assert not list((tmp_path / "cache" / "locks").iterdir())
