"""The cache of built artifacts, and of what compilers rejected: content-addressed, and believed only after a check; and the files that
submissions leave.

Artifacts come out of boxes and are untrusted. A key stands for every byte and setting that went into a build, so what one submission
makes is found again only by the same submission. Entries are sealed with a secret that lies in the cache: anybody who can write an
entry's file but not read the secret can only make it a miss.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from grader.errors import SettingsInvalid
from grader.isolation import finish_despite_cancel
from grader.isolation.pickup import Refusal, RefusalReason, pick_up
from grader.model import Reason
from sandbox.protocol import wire
from sandbox.protocol.box_files import FILE_LIMIT_BYTES
from sandbox.protocol.wire import BuildOutcome

log = structlog.get_logger()

RETRY_S = 0.05


class ArtifactCache:
    """Artifacts by key; each key is built once, however many jobs and servers ask for it at a time.

    patience_s: how long to wait for another server that builds the same, before it is built twice.
    """

    def __init__(self, directory: Path, limit_bytes: int, *, patience_s: float = 300.0) -> None:
        self.directory = directory
        self._store = ArtifactStore(directory, limit_bytes)
        self._patience_s = patience_s
        self._flights: dict[str, asyncio.Future[BuildResult | None]] = {}

    async def fetch(self, key: str, build: Callable[[], Awaitable[BuildResult]], *, limit_bytes: int) -> BuildResult:
        """Return the build of this key: from the cache, or built by one of those who ask for it meanwhile, for all of them.

        build: where it raises or is cancelled, the next who waits calls its own.
        limit_bytes: how large an artifact may be.
        """
        if (cached := await self._look_up(key, limit_bytes)) is not None:
            return cached
        while (flight := self._flights.get(key)) is not None:
            shared = await asyncio.shield(flight)  # who stops waiting does not end it for the others
            if shared is not None:
                return _as_cached(shared)
        self._flights[key] = flight = asyncio.get_running_loop().create_future()
        result = None
        try:
            async with self._locked(key) as alone:
                result = await self._look_up(key, limit_bytes)  # another server may have built it while we waited
                if result is None:
                    result = await build()
                    # Who does not hold the key stores nothing, so there are never two entries of different bytes.
                    if alone and result.cacheable:
                        try:
                            await finish_despite_cancel(asyncio.to_thread(self._store.store, key, result))
                        except OSError as error:
                            _complain("store", error)
            return result
        finally:
            del self._flights[key]
            flight.set_result(result if result is not None and result.cacheable else None)

    async def _look_up(self, key: str, limit_bytes: int) -> BuildResult | None:
        try:
            result = await asyncio.to_thread(self._store.look_up, key, artifact_limit_bytes=limit_bytes)
        except OSError as error:
            _complain("look up", error)
            return None
        return None if result is None else _as_cached(result)

    @asynccontextmanager
    async def _locked(self, key: str) -> AsyncIterator[bool]:
        """Hold a key against other servers; False where that can't be had, or not in time."""
        deadline_s, descriptor = time.monotonic() + self._patience_s, None
        try:
            while (descriptor := self._store.try_lock(key)) is None and time.monotonic() < deadline_s:
                await asyncio.sleep(RETRY_S)
        except OSError as error:
            _complain("lock", error)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                self._store.unlock(key, descriptor)


def _as_cached(result: BuildResult) -> BuildResult:
    return replace(result, build=replace(result.build, cached=True))


def _complain(doing: str, error: OSError) -> None:
    """A cache that fails costs time and nothing else."""
    log.warning("artifact_cache_failed", doing=doing, error=str(error))


# Entries of the cache: their keys, bytes and seals.

KEY_VERSION = b"grader artifact key 2"
MAGIC = b"grader artifact 2\n"
SEAL_BYTES, SECRET_BYTES, LENGTH_BYTES = 32, 32, 8
OVERHEAD_LIMIT_BYTES = 1024 * 1024  # what an entry has next to its artifact: a log of 64 KiB, escaped, and a little

# What ran into a limit, or died, or was imported with what the host had then, says nothing of the next build.
CACHEABLE_OUTCOMES = frozenset({BuildOutcome.BUILT, BuildOutcome.REJECTED})
TRANSIENT_REASONS = frozenset({Reason.BUILDER_DIED, Reason.IMPORT_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """A build and what it made. cacheable: every other build of the same key would end so; it may be handed to others."""

    build: wire.Build
    artifact: bytes | None
    cacheable: bool

    def __post_init__(self) -> None:
        if (self.artifact is None) is (self.build.outcome is BuildOutcome.BUILT):
            raise ValueError("there is an artifact exactly where the outcome is BUILT")
        if self.cacheable and (self.build.outcome not in CACHEABLE_OUTCOMES or self.build.reason in TRANSIENT_REASONS):
            raise ValueError(f"a build that ended as {self.build.outcome.value} ({self.build.reason}) may end otherwise the next time")


class NotSealed(ValueError):
    """Bytes that are no entry of ours for this key; the message says what gave them away."""


def artifact_key(job: wire.BuildJob, sources: Iterable[tuple[str, bytes]], settings: Iterable[str]) -> str:
    """The key of a build; settings: whatever else can change the artifact, the toolchain's fingerprint above all.

    Every piece goes in after its length, and every list after its own, so that no byte can move from one piece to its neighbour.
    """
    files = [piece for path, content in sources for piece in (path.encode(), content)]
    digest = hashlib.sha256()
    for pieces in ((KEY_VERSION, wire.encode(job)), [setting.encode() for setting in settings], files):
        digest.update(_length(pieces))
        for piece in pieces:
            digest.update(_length(piece))
            digest.update(piece)
    return digest.hexdigest()


def sealed(key: str, result: BuildResult, secret: bytes) -> bytes:
    """An entry's bytes. The seal covers the header, and the header the artifact by its digest, or by having none that there is none."""
    header = key.encode() + b"\n" + wire.encode(result.build)
    head = MAGIC + _length(header) + header
    return hmac.digest(secret, head, "sha256") + head + (result.artifact or b"")


def unsealed(content: bytes, key: str, secret: bytes) -> BuildResult:
    """The entry in these bytes, or NotSealed."""
    start = SEAL_BYTES + len(MAGIC) + LENGTH_BYTES
    end = start + int.from_bytes(content[start - LENGTH_BYTES : start], "big")
    if content[SEAL_BYTES : SEAL_BYTES + len(MAGIC)] != MAGIC:
        raise NotSealed("it is no entry, or one of another version")
    if not start < end <= len(content):
        raise NotSealed("its header is cut")
    if not hmac.compare_digest(hmac.digest(secret, content[SEAL_BYTES:end], "sha256"), content[:SEAL_BYTES]):
        raise NotSealed("its seal is broken")
    # From here on the header is ours: nobody else knows the secret.
    entry_key, _, build_line = content[start:end].partition(b"\n")
    artifact = content[end:]
    if entry_key != key.encode():
        raise NotSealed("it belongs to another key")
    try:
        build = wire.decode(build_line)
        # A build without a digest made nothing; an empty artifact has a digest.
        contents = None if build.artifact_digest is None and not artifact else artifact
        result = BuildResult(build=build, artifact=contents, cacheable=True)
    except ValueError as error:
        raise NotSealed(f"it is of another version: {error}") from None
    if contents is not None and hashlib.sha256(contents).hexdigest() != build.artifact_digest:
        raise NotSealed("its artifact has another digest")
    return result


def _length(of: bytes | tuple[bytes, ...] | list[bytes]) -> bytes:
    return len(of).to_bytes(LENGTH_BYTES, "big")


# The files of the cache: entries, their locks, and the secret. Several servers may have the same directory open. Entries are read once, by
# descriptor, and never changed: a new one is moved into place whole.

ENTRIES, REJECTIONS, LOCKS, SECRET = "entries", "rejections", "locks", "secret"
REJECTION_SHARE = 64  # so much less of the limit is for builds that made nothing: rejections drive out only each other
BLOCK_BYTES = 4096
REJECTION_S = 24 * 3600.0  # so long one is believed: should it be wrong after all, then not for ever
STALE_S = 3600.0  # after this, what a dead server was writing, and its locks, are cleared away


class ArtifactStore:
    """The entries below one directory, at most limit_bytes of them; the least recently used go first.

    Builds that made nothing lie in a directory of their own, where servers of earlier versions do not look. Of those the oldest go first.
    """

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self.directory, self.limit_bytes = directory, limit_bytes
        self._entries, self._rejections, self._locks = directory / ENTRIES, directory / REJECTIONS, directory / LOCKS
        for place in (directory, self._entries, self._rejections, self._locks):
            make_private(place, "cache_dir")
        with _flocked(directory / f"{SECRET}.lock"):
            self._secret = _shared_secret(directory)

    def look_up(self, key: str, *, artifact_limit_bytes: int) -> BuildResult | None:
        """The entry of this key. One that can't be believed is removed, and None."""
        if (built := self._look_into(self._entries, key, artifact_limit_bytes + OVERHEAD_LIMIT_BYTES)) is not None:
            with suppress(FileNotFoundError):  # evicted since it was opened
                os.utime(self._entries / key, follow_symlinks=False)
            return built
        rejection = self._rejections / key
        with suppress(FileNotFoundError):
            if rejection.lstat().st_mtime < time.time() - REJECTION_S:
                _remove(rejection)
        return self._look_into(self._rejections, key, OVERHEAD_LIMIT_BYTES)

    def store(self, key: str, result: BuildResult) -> None:
        """Keep what was made. Nothing is synced: what a power cut tears is no longer sealed, and is built again."""
        content = sealed(key, result, self._secret)
        built, rejections_limit_bytes = result.artifact is not None, self.limit_bytes // REJECTION_SHARE
        if _on_disk(len(content)) > (self.limit_bytes if built else min(rejections_limit_bytes, OVERHEAD_LIMIT_BYTES)):
            return
        write_whole((self._entries if built else self._rejections) / key, content)
        with _flocked(self.directory / "eviction.lock"):
            rejections_bytes = evict(_whole(self._rejections), rejections_limit_bytes, "artifact_evicted")
            evict(_whole(self._entries), self.limit_bytes - rejections_bytes, "artifact_evicted")
            before = time.time() - STALE_S
            for entry, facts in (*files_in(self._entries), *files_in(self._rejections)):
                if entry.name.startswith(".") and facts.st_mtime < before:
                    _remove(entry)
            for lock, facts in files_in(self._locks):
                if facts.st_mtime < before and (descriptor := self.try_lock(lock.name)) is not None:
                    self.unlock(lock.name, descriptor)

    def try_lock(self, key: str) -> int | None:
        """Return a descriptor that holds this key, for `unlock`; None while it is held. The lock counts only where the file, which its
        holder removes when done, still has its name."""
        path = self._locks / key
        with ExitStack() as stack:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            stack.callback(os.close, descriptor)
            with suppress(BlockingIOError, FileNotFoundError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), path.lstat()):
                    stack.pop_all()
                    return descriptor
        return None

    def unlock(self, key: str, descriptor: int) -> None:
        """Let the key go."""
        (self._locks / key).unlink(missing_ok=True)
        os.close(descriptor)

    def _look_into(self, directory: Path, key: str, limit_bytes: int) -> BuildResult | None:
        content = pick_up(directory, key, limit_bytes=limit_bytes)
        if isinstance(content, Refusal):
            if content.reason is RefusalReason.MISSING:
                return None
            why = content.sentence
        else:
            try:
                return unsealed(content, key, self._secret)
            except NotSealed as error:
                why = str(error)
        log.warning("artifact_not_believed", key=key, why=why)
        _remove(directory / key)
        return None


def evict(files: Iterable[tuple[int, Path, int]], limit_bytes: int, event: str, *, name: str = "key", but: str = "") -> int:
    """Remove the files that were not touched for longest; how many bytes are left. files: when each was touched, and its bytes. event: for
    the log, where a file's name is called name. but: the name of one that stays."""
    oldest_first = sorted(files)
    total_bytes = sum(size_bytes for _, _, size_bytes in oldest_first)
    for _, path, size_bytes in oldest_first:
        if total_bytes <= limit_bytes:
            break
        if path.name != but:
            _remove(path)  # anybody who reads it has it open
            total_bytes -= size_bytes
            log.info(event, **{name: path.name}, size_bytes=size_bytes)
    return total_bytes


def usage(directory: Path) -> tuple[int, int]:
    """How many artifacts a cache has, and the bytes that all of it takes; none where there is no cache."""
    sizes, rejections = ([size_bytes for _, _, size_bytes in _whole(directory / name)] for name in (ENTRIES, REJECTIONS))
    return len(sizes), sum(sizes) + sum(rejections)


def _on_disk(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


def files_in(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield what lies there, with its facts; what vanishes meanwhile is left out."""
    with suppress(FileNotFoundError):
        for entry in list(directory.iterdir()):
            with suppress(FileNotFoundError):
                yield entry, entry.lstat()


def _whole(directory: Path) -> Iterator[tuple[int, Path, int]]:
    """Yield when each entry was touched, its path, and its bytes on the disk."""
    entries = ((entry, facts) for entry, facts in files_in(directory) if not entry.name.startswith("."))
    return ((facts.st_mtime_ns, entry, _on_disk(facts.st_size)) for entry, facts in entries)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        shutil.rmtree(path, ignore_errors=True)


def make_private(directory: Path, setting: str) -> None:
    """Make a directory that is ours alone; SettingsInvalid, which names the setting, where it is somebody else's."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    facts = directory.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise SettingsInvalid(setting, f"{directory} is not a directory of this user; name another, or remove it")
    if stat.S_IMODE(facts.st_mode) & 0o077:
        directory.chmod(0o700)


def _shared_secret(directory: Path) -> bytes:
    """The secret of this cache, made by the first process that needs it. A damaged one is replaced, and what it sealed is built again."""
    secret = pick_up(directory, SECRET, limit_bytes=SECRET_BYTES)
    if isinstance(secret, bytes) and len(secret) == SECRET_BYTES:
        return secret
    if not isinstance(secret, Refusal) or secret.reason is not RefusalReason.MISSING:
        log.warning("artifact_secret_replaced", directory=str(directory))
        _remove(directory / SECRET)
    fresh = secrets.token_bytes(SECRET_BYTES)
    write_whole(directory / SECRET, fresh)
    return fresh


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name and move it into place."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        try:
            partial.replace(path)
        except IsADirectoryError:
            _remove(path)
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _flocked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# The files that submissions leave, such as what profilers write: bounded, by the digest of their content, in one directory. They came out
# of boxes: nobody here looks into them, and they are handed out as bytes only. Which submission has which file is in the ledger. Servers
# may share the directory, as they may share the ledger.

# Of a submission: what is over a limit is left out, and the profile names it.
SUBMISSION_LIMIT_BYTES = 64 * 1024 * 1024
FILE_COUNT_LIMIT = 64
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
CHUNK_BYTES = 256 * 1024
FRESH_S = 3600.0  # so long a file may lie here before the ledger has it
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BATCH = 500


class SubmissionFiles:
    """Files by digest, at most limit_bytes of them: the oldest go first. The directory is made when the first file is kept."""

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self.directory, self.limit_bytes = directory, limit_bytes

    def keep(self, content: bytes) -> str | None:
        """Keep a file, and return its digest; None where it is larger than all that may lie here."""
        if len(content) > self.limit_bytes:
            return None
        make_private(self.directory, "submission_files_dir")
        digest = hashlib.sha256(content).hexdigest()
        path = self.directory / digest
        try:
            os.utime(path, follow_symlinks=False)
        except FileNotFoundError:
            write_whole(path, content)
        sizes = ((facts.st_mtime_ns, path, facts.st_size) for path, facts in self._files())
        evict(sizes, self.limit_bytes, "submission_file_evicted", name="digest", but=digest)
        return digest

    def read(self, digest: str) -> bytes | None:
        """The bytes of a file; None where it is not here, or is no longer what it was."""
        if _DIGEST.fullmatch(digest) is None or not self.directory.is_dir():
            return None
        content = pick_up(self.directory, digest, limit_bytes=FILE_LIMIT_BYTES)
        if isinstance(content, Refusal):
            return None
        if hashlib.sha256(content).hexdigest() != digest:
            log.warning("submission_file_damaged", digest=digest)
            return None
        return content

    def holds(self, digest: str) -> bool:
        """Return whether a file is here."""
        return _DIGEST.fullmatch(digest) is not None and (self.directory / digest).is_file()

    async def remove_unknown(self, unknown: Callable[[Sequence[str]], Awaitable[set[str]]], *, fresh_s: float = FRESH_S) -> int:
        """Remove what no submission has; how many files. unknown: tells those of some digests that the ledger does not have."""
        before = time.time() - fresh_s
        old = [path.name for path, facts in self._files() if facts.st_mtime < before]
        count = 0
        for first in range(0, len(old), _BATCH):
            for digest in await unknown(old[first : first + _BATCH]):
                (self.directory / digest).unlink(missing_ok=True)
                count += 1
        return count

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        return ((path, facts) for path, facts in files_in(self.directory) if _DIGEST.fullmatch(path.name))


def chunks(content: bytes) -> Iterator[bytes]:
    """The content in pieces of at most CHUNK_BYTES; one empty piece of an empty file."""
    for start in range(0, max(len(content), 1), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]
