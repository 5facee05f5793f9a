"""What a cached artifact is called and how its bytes are sealed.  Pure: no files, no clock."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass

from grader.model import Reason
from sandbox.protocol import wire
from sandbox.protocol.wire import BuildOutcome

KEY_VERSION = b"grader artifact key 1"
MAGIC = b"grader artifact 1\n"
SEAL_BYTES, SECRET_BYTES, LENGTH_BYTES = 32, 32, 8
OVERHEAD_LIMIT_BYTES = 1024 * 1024  # what an entry has next to its artifact: a log of 64 KiB, escaped, and a little

# What ran into a limit, or died, or was imported with what the host had then, says nothing of the next build.
LASTING_OUTCOMES = frozenset({BuildOutcome.BUILT, BuildOutcome.REJECTED})
PASSING_REASONS = frozenset({Reason.BUILDER_DIED, Reason.IMPORT_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A build and what it made. lasting: every other build of the same key would end so; it may be handed to others."""

    build: wire.Build
    artifact: bytes | None
    lasting: bool

    def __post_init__(self) -> None:
        if (self.artifact is None) is (self.build.outcome is BuildOutcome.BUILT):
            raise ValueError("there is an artifact exactly where the outcome is BUILT")
        if self.lasting and (self.build.outcome not in LASTING_OUTCOMES or self.build.reason in PASSING_REASONS):
            raise ValueError(f"a build that ended as {self.build.outcome.value} ({self.build.reason}) may end otherwise the next time")


class NotSealed(ValueError):
    """Bytes that are no entry of ours for this key; the message says what gave them away."""


def artifact_key(job: wire.BuildJob, sources: Iterable[tuple[str, bytes]], settings: Iterable[str]) -> str:
    """The key of a build; settings: whatever else can change the artifact, the toolchain's fingerprint above all.

    Every piece goes in after its length, and every list after its own, so that no byte can move from one piece to its neighbour.
    """
    fixed = (KEY_VERSION, json.dumps(wire.as_json(job), sort_keys=True).encode())
    files = [piece for path, content in sources for piece in (path.encode(), content)]
    digest = hashlib.sha256()
    for pieces in (fixed, [one.encode() for one in settings], files):
        digest.update(_length(pieces))
        for piece in pieces:
            digest.update(_length(piece))
            digest.update(piece)
    return digest.hexdigest()


def sealed(key: str, made: Made, secret: bytes) -> bytes:
    """An entry's bytes. The seal covers the header, and the header the artifact by its digest, or by having none that there is none."""
    header = json.dumps({"key": key, "build": wire.as_json(made.build)}).encode()
    head = MAGIC + _length(header) + header
    return hmac.digest(secret, head, "sha256") + head + (made.artifact or b"")


def unsealed(content: bytes, key: str, secret: bytes) -> Made:
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
    header, artifact = json.loads(content[start:end]), content[end:]
    if header["key"] != key:
        raise NotSealed("it belongs to another key")
    try:
        build = wire.from_json(header["build"])
    except wire.WireError as error:
        raise NotSealed(f"it is of another version: {error}") from None
    # A build without a digest made nothing; an empty artifact has a digest.
    if build.artifact_digest is None and artifact:
        raise NotSealed("it has an artifact, and its build made none")
    if build.artifact_digest is not None and hashlib.sha256(artifact).hexdigest() != build.artifact_digest:
        raise NotSealed("its artifact has another digest")
    try:
        return Made(build=build, artifact=None if build.artifact_digest is None else artifact, lasting=True)
    except ValueError as error:
        raise NotSealed(f"it is not what is kept: {error}") from None


def _length(of: bytes | tuple[bytes, ...] | list[bytes]) -> bytes:
    return len(of).to_bytes(LENGTH_BYTES, "big")
