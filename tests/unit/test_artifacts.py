"""The artifact cache: what a key depends on, what is believed, what is evicted."""

import dataclasses
import hashlib
import hmac
import json
import os
import sys
import time
from pathlib import Path

import pytest
import structlog

from grader.artifacts import (
    MAGIC,
    OVERHEAD_LIMIT_BYTES,
    REJECTION_S,
    REJECTION_SHARE,
    STALE_S,
    ArtifactCache,
    ArtifactStore,
    BuildResult,
    artifact_key,
    sealed,
    usage,
)
from grader.config import Settings
from grader.errors import SettingsInvalid
from grader.isolation.toolchain import host_toolchain
from grader.server.wiring import box_settings
from sandbox.protocol import wire

JOB = wire.BuildJob(language="cuda", entry="solve", device_kind="emulated", sources=("a.cu", "b.cu"), architecture="sm_90")
SOURCES = (("a.cu", b"int a;"), ("b.cu", b"int b;"))
SETTINGS = ("toolchain 1", "safe")
KEY, SECOND_KEY = "a" * 64, "b" * 64
LIMIT = 1 << 20


def build_result(artifact: bytes = b"artifact", log: str = "warning: x") -> BuildResult:
    digest = hashlib.sha256(artifact).hexdigest()
    build = wire.Build(
        outcome=wire.BuildOutcome.BUILT, log=log, duration_ns=7, artifact_digest=digest, headers="full", fallback="<iostream>"
    )
    return BuildResult(build=build, artifact=artifact, cacheable=True)


def rejected(log: str = "a.cu(1): error: no", **fields: object) -> BuildResult:
    build = wire.Build(outcome=wire.BuildOutcome.REJECTED, log=log, remarks=("a remark",), duration_ns=7)
    return BuildResult(build=dataclasses.replace(build, **fields), artifact=None, cacheable=True)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "cache", LIMIT)


def entry(store: ArtifactStore, key: str = KEY) -> Path:
    return store.directory / "entries" / key


def cached_result(store: ArtifactStore, key: str = KEY) -> BuildResult | None:
    return store.look_up(key, artifact_limit_bytes=LIMIT)


# -- the key -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(wire.BuildJob)])
def test_every_field_of_the_job_changes_the_key(field: str) -> None:
    """Also one that is added later, and nobody thinks of the cache."""
    value = getattr(JOB, field)
    changed_job = dataclasses.replace(JOB, **{field: (*value, "c.cu") if isinstance(value, tuple) else f"{value}x"})
    assert artifact_key(changed_job, SOURCES, SETTINGS) != artifact_key(JOB, SOURCES, SETTINGS)


def test_every_byte_of_a_source_changes_the_key() -> None:
    """Change one bit at each place."""
    content = bytes(range(256))
    keys = {artifact_key(JOB, [("a.cu", content)], SETTINGS)}
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        keys.add(artifact_key(JOB, [("a.cu", bytes(changed))], SETTINGS))
    assert len(keys) == len(content) + 1


@pytest.mark.parametrize(
    ("sources", "settings"),
    [
        ([("a.c", b"uint a;"), ("b.cu", b"int b;")], SETTINGS),  # a byte from path to content
        ([("a.cu", b"int a;b.cu"), ("", b"int b;")], SETTINGS),
        ([("a.cu", b"int a;"), ("b.cu", b"int b;"), ("", b"")], SETTINGS),
        ([("a.cu", b"int a;b.cuint b;")], SETTINGS),
        ([("b.cu", b"int b;"), ("a.cu", b"int a;")], SETTINGS),
        (SOURCES, ("toolchain 1safe",)),
        (SOURCES, ("toolchain 1", "safe", "")),
        (SOURCES, ("toolchain 2", "safe")),
        (SOURCES[1:], (*SETTINGS, "a.cu", "int a;")),  # a source among the settings
    ],
)
def test_no_byte_moves_between_neighbours(sources: list[tuple[str, bytes]], settings: tuple[str, ...]) -> None:
    assert artifact_key(JOB, sources, settings) != artifact_key(JOB, SOURCES, SETTINGS)


# -- what is believed ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [build_result(), build_result(b""), rejected()], ids=["built", "an empty artifact", "rejected"])
def test_what_was_stored_is_found(store: ArtifactStore, result: BuildResult) -> None:
    """Artifact, log, note and remarks, by another server with the same directory too."""
    store.store(KEY, result)
    assert cached_result(store) == cached_result(ArtifactStore(store.directory, LIMIT)) == result
    assert cached_result(store, SECOND_KEY) is None


def entry_of(build: dict[str, object], artifact: bytes, secret: bytes) -> bytes:
    header = f"{KEY}\n{json.dumps(build)}\n".encode()
    head = MAGIC + len(header).to_bytes(8, "big") + header
    return hmac.digest(secret, head, "sha256") + head + artifact


@pytest.mark.parametrize(
    ("change", "artifact"),
    [
        ({"artifact_digest": None}, b""),
        ({"artifact_digest": None}, b"artifact"),
        ({"outcome": "rejected"}, b"artifact"),
        ({"outcome": "rejected", "artifact_digest": None}, b"artifact"),
        ({"outcome": "timed_out", "artifact_digest": None}, b""),
        ({"outcome": "out_of_memory", "artifact_digest": None}, b""),
        ({"outcome": "rejected", "artifact_digest": None, "reason": "BUILDER_DIED"}, b""),
        ({"outcome": "rejected", "artifact_digest": None, "reason": "IMPORT_FAILED"}, b""),
        ({"outcome": "another"}, b"artifact"),
        ({"type": "Load"}, b"artifact"),
    ],
)
def test_no_sealed_entry_says_two_things(store: ArtifactStore, change: dict[str, object], artifact: bytes) -> None:
    """An artifact is there where the build made one, and nowhere else; what a limit ended is in no entry. The control changes nothing."""
    secret, build = (store.directory / "secret").read_bytes(), json.loads(wire.encode(build_result().build))
    for changes, content, believed in (({}, b"artifact", True), (change, artifact, False)):
        entry(store).write_bytes(entry_of({**build, **changes}, content, secret))
        assert (cached_result(store) is not None) is believed
        assert entry(store).exists() is believed


@pytest.mark.parametrize("ended", [wire.BuildOutcome.TIMED_OUT, wire.BuildOutcome.OUT_OF_MEMORY, wire.BuildOutcome.OUTPUT_EXCEEDED])
def test_what_a_limit_ended_is_not_cacheable(ended: wire.BuildOutcome) -> None:
    """Nor what died. The control: a compiler's word can."""
    for fields in ({"outcome": ended}, {"reason": "BUILDER_DIED"}):
        with pytest.raises(ValueError, match="may end otherwise"):
            rejected(**fields)
    assert rejected(reason="UNSUPPORTED").cacheable


def test_nobody_else_reads_or_writes_the_cache(store: ArtifactStore) -> None:
    """Directories are 0700, files 0600, the secret's too."""
    store.store(KEY, build_result())
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in [store.directory, *store.directory.rglob("*")]}
    assert modes == {True: 0o700, False: 0o600}


@pytest.mark.parametrize(("result", "directory"), [(build_result(), "entries"), (rejected(), "rejections")], ids=["built", "rejected"])
def test_no_entry_is_believed_changed_cut_or_lengthened(store: ArtifactStore, result: BuildResult, directory: str) -> None:
    """Seal, header and artifact, one bit at each place, and at every length: noticed, removed, and a miss."""
    store.store(KEY, result)
    path = store.directory / directory / KEY
    content = path.read_bytes()
    changed = [content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] for place in range(len(content))]
    for number, bad in enumerate([*changed, *(content[:length] for length in range(len(content))), content + b"x"]):
        path.write_bytes(bad)
        assert cached_result(store) is None and not path.exists(), f"case {number}"


def test_entries_that_change_places_are_not_believed(store: ArtifactStore) -> None:
    store.store(KEY, build_result(b"one"))
    store.store(SECOND_KEY, build_result(b"two"))
    first, second = entry(store).read_bytes(), entry(store, SECOND_KEY).read_bytes()
    entry(store).write_bytes(second)
    entry(store, SECOND_KEY).write_bytes(first)
    with structlog.testing.capture_logs() as logs:
        assert cached_result(store) is cached_result(store, SECOND_KEY) is None
    assert [(entry_log["event"], entry_log["log_level"], entry_log["why"]) for entry_log in logs] == [
        ("artifact_not_believed", "warning", "it belongs to another key")
    ] * 2


def test_an_entry_without_the_secret_is_not_believed(store: ArtifactStore) -> None:
    """Right in all but its seal; the control has the right secret."""
    secret = (store.directory / "secret").read_bytes()
    for tried, believed in ((bytes(32), False), (secret, True)):
        entry(store).write_bytes(sealed(KEY, build_result(b"forged"), tried))
        assert (cached_result(store) is not None) is believed


def test_a_link_in_place_of_an_entry_is_not_followed(store: ArtifactStore) -> None:
    """Neither symbolic nor hard, though it leads to a good entry."""
    store.store(KEY, build_result())
    good = store.directory / "good"
    entry(store).rename(good)
    for plant in (entry(store).symlink_to, entry(store).hardlink_to):
        plant(good)
        assert cached_result(store) is None
        assert not os.path.lexists(entry(store)) and good.exists()


def test_what_is_no_file_is_removed_and_replaced(store: ArtifactStore) -> None:
    """A FIFO blocks nobody, and a directory does not stop the next store."""
    for plant in (os.mkfifo, os.mkdir):
        plant(entry(store))
        assert cached_result(store) is None
        store.store(KEY, build_result())
        assert cached_result(store) == build_result()
        entry(store).unlink()


def test_an_artifact_over_the_limit_is_not_taken(store: ArtifactStore) -> None:
    """The limit is that of a box today, not of when it was built."""
    store.store(KEY, build_result(bytes(100)))
    assert store.look_up(KEY, artifact_limit_bytes=-(1 << 20)) is None


def test_a_damaged_secret_is_replaced(store: ArtifactStore) -> None:
    """An entry that it sealed is built again."""
    store.store(KEY, build_result())
    (store.directory / "secret").write_bytes(b"short")
    again = ArtifactStore(store.directory, LIMIT)
    assert cached_result(again) is None
    again.store(KEY, build_result())
    assert cached_result(ArtifactStore(store.directory, LIMIT)) == build_result()


def test_somebody_elses_directory_is_refused(tmp_path: Path) -> None:
    """A link to one counts as theirs; one of ours that others may enter is closed."""
    (tmp_path / "there").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to("there")
    with pytest.raises(SettingsInvalid):
        ArtifactStore(tmp_path / "link", LIMIT)
    ArtifactStore(tmp_path / "there", LIMIT)
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o700


# -- how much is kept ----------------------------------------------------------------------------------------------------


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    """Found counts as used."""
    store = ArtifactStore(tmp_path / "cache", 3 * 8192)
    for number in range(3):
        store.store(str(number) * 64, build_result(bytes(4096)))
        os.utime(entry(store, str(number) * 64), (number, number))
    assert cached_result(store, "0" * 64)
    store.store("3" * 64, build_result(bytes(4096)))
    assert [cached_result(store, str(number) * 64) is not None for number in range(4)] == [True, False, True, True]
    assert usage(store.directory) == (3, 3 * 8192)


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    """And drives nothing else out."""
    store = ArtifactStore(tmp_path / "cache", 8192)
    store.store(KEY, build_result())
    store.store(SECOND_KEY, build_result(bytes(10_000)))
    assert cached_result(store) == build_result() and cached_result(store, SECOND_KEY) is None


def test_rejections_drive_out_only_each_other(tmp_path: Path) -> None:
    """They have a small share of the limit, so that a loop of wrong sources costs no artifact; the oldest goes first."""
    store = ArtifactStore(tmp_path / "cache", 3 * REJECTION_SHARE * 4096)
    store.store(KEY, build_result())
    os.utime(entry(store), (0, 0))
    keys, begun_s = [f"{number:064}" for number in range(10)], time.time()
    for number, key in enumerate(keys):
        store.store(key, rejected())
        os.utime(store.directory / "rejections" / key, (begun_s, begun_s - 100 + number))
    assert [cached_result(store, key) is not None for key in keys] == [False] * 7 + [True] * 3
    assert cached_result(store) == build_result() and usage(store.directory) == (1, 4 * 4096)


def test_a_rejection_is_believed_for_a_day(store: ArtifactStore) -> None:
    """However often it is found meanwhile: one that was wrong is not believed for ever. The controls are younger, and built."""
    store.store(KEY, rejected())
    store.store(SECOND_KEY, build_result())
    path, now_s = store.directory / "rejections" / KEY, time.time()
    os.utime(entry(store, SECOND_KEY), (0, 0))
    os.utime(path, (now_s, now_s - REJECTION_S + 600))
    for _ in range(2):
        assert cached_result(store) == rejected() and path.stat().st_mtime < now_s - REJECTION_S + 601
    os.utime(path, (now_s, now_s - REJECTION_S - 1))
    assert cached_result(store) is None and not path.exists()
    assert cached_result(store, SECOND_KEY) == build_result()


def test_a_long_rejection_is_not_kept(tmp_path: Path) -> None:
    """Neither one over the share of its kind, nor one that could not be read again. The control is short."""
    small, large = ArtifactStore(tmp_path / "small", 8192 * REJECTION_SHARE), ArtifactStore(tmp_path / "large", 1 << 40)
    for store, log, is_stored in (
        (small, "x" * 10_000, False),
        (small, "x" * 5_000, True),
        (large, "x" * OVERHEAD_LIMIT_BYTES, False),
        (large, "\x00" * wire.LOG_LIMIT_BYTES, True),
    ):
        store.store(SECOND_KEY, rejected(log))
        assert (cached_result(store, SECOND_KEY) is not None) is is_stored
        assert bool(list((store.directory / "rejections").iterdir())) is is_stored
        for path in (store.directory / "rejections").iterdir():
            path.unlink()


def test_all_together_stay_below_the_limit(tmp_path: Path) -> None:
    """Rejections count too: where they take room, there is less for artifacts."""
    store = ArtifactStore(tmp_path / "cache", REJECTION_SHARE * 4096)
    for number in range(REJECTION_SHARE):
        store.store(f"{number:064}", build_result())
        os.utime(entry(store, f"{number:064}"), (number, number))
    store.store(KEY, rejected())
    assert usage(store.directory) == (REJECTION_SHARE - 1, REJECTION_SHARE * 4096) and cached_result(store, "0" * 64) is None


def test_what_a_dead_server_left_is_cleared_away(store: ArtifactStore) -> None:
    """Half an entry and a lock, once they are old; young ones may be somebody's."""
    old, young = entry(store, ".old"), entry(store, ".young")
    lock, held_lock = store.directory / "locks" / KEY, store.directory / "locks" / SECOND_KEY
    descriptor = store.try_lock(SECOND_KEY)
    assert descriptor is not None
    for path in (old, young, lock):
        path.touch()
    for path in (old, lock, held_lock):
        os.utime(path, (0, 0))
    store.store("c" * 64, build_result())
    assert [path.exists() for path in (old, young, lock, held_lock)] == [False, True, False, True]
    assert STALE_S > 600, "longer than any build"
    store.unlock(SECOND_KEY, descriptor)
    assert not held_lock.exists()


def test_a_key_is_held_by_one(store: ArtifactStore) -> None:
    """Also against one who waits at a file that the holder then removes."""
    first = store.try_lock(KEY)
    assert first is not None and store.try_lock(KEY) is None
    store.unlock(KEY, first)
    second = store.try_lock(KEY)
    assert second is not None
    store.unlock(KEY, second)


def test_a_box_does_not_see_a_cache_below_what_it_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever somebody puts it: below the Python environment it is covered by an empty directory."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    settings = Settings(state_dir=tmp_path / "state", cache_dir=tmp_path / "env" / "cache")
    ArtifactCache(settings.cache_path, 1)
    assert str(settings.cache_path) in host_toolchain(tmp_path, box_settings(settings).hidden_paths).hidden
