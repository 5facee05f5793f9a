"""Files that a command writes.

What a server sends is untrusted: names are checked here again, nothing is overwritten, and no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from grader.api.client import GraderClient
from grader.cli.exits import GraderFailed, UsageError
from grader.v1 import grader_service_pb2, submission_pb2

STDOUT = "-"
_ARTIFACT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SIZE_LIMIT_BYTES = 256 * 1024 * 1024
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_text(path: str, text: str) -> None:
    """Write text to a file, or to stdout where path is `-`. A file is there as a whole, or as it was. Raises UsageError."""
    if path == STDOUT:
        print(text, end="")
        return
    part = Path(f"{path}.part")  # so that a full disk leaves what was there before
    try:
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{path!r} can't be written: {error.strerror or error}; name another file") from None


def open_directory(out: Path) -> int:
    """Open the directory of `--out`, which is made if it is not there. Raises UsageError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"--out: {out} is not a directory that can be used: {error.strerror}; name another directory") from None


def save_sources(sources: Sequence[submission_pb2.SourceFile], out: Path) -> list[Path]:
    """Write source files below a directory, and return their paths."""
    directory = open_directory(out)
    try:
        for source in sources:
            path = PurePosixPath(source.path)
            if not path.name or path.is_absolute() or ".." in path.parts or not source.path.isprintable():
                raise GraderFailed(
                    f"the server names a file {source.path[:100]!r}, which is not a path below a directory; it was not saved"
                )
            _write_new(directory, path, source.content.encode(), out)
        return [out / source.path for source in sources]
    finally:
        os.close(directory)


async def save_artifacts(client: GraderClient, artifacts: Sequence[grader_service_pb2.Artifact], out: Path) -> list[Path]:
    """Download the artifacts that are available into a directory, and return their paths."""
    directory = open_directory(out)
    try:
        return [out / await _save_artifact(client, artifact, directory, out) for artifact in artifacts if artifact.available]
    finally:
        os.close(directory)


async def _save_artifact(client: GraderClient, artifact: grader_service_pb2.Artifact, directory: int, out: Path) -> str:
    name = artifact_file_name(artifact)
    if _ARTIFACT_NAME.fullmatch(name) is None:
        raise GraderFailed(f"the server names a file {name[:100]!r}, which is not a plain file name; nothing of it was saved")
    if not 0 <= artifact.size_bytes <= _SIZE_LIMIT_BYTES:
        raise GraderFailed(f"the server says that {name!r} has {artifact.size_bytes} bytes; at most {_SIZE_LIMIT_BYTES} are taken")
    content = bytearray()
    async for piece in client.download_artifact(artifact.name):
        content += piece
        if len(content) > artifact.size_bytes:
            break
    if len(content) != artifact.size_bytes or hashlib.sha256(content).hexdigest() != artifact.digest:
        raise GraderFailed(f"what the server sent of {name!r} is not what it listed; try again")
    _write_new(directory, PurePosixPath(name), bytes(content), out)
    return name


def artifact_file_name(artifact: grader_service_pb2.Artifact) -> str:
    """The last part of an artifact's resource name."""
    return artifact.name.rpartition("/artifacts/")[2]


def _write_new(directory: int, path: PurePosixPath, content: bytes, out: Path) -> None:
    """Write a file below a directory. A file there with the same bytes stays; anything else there is an error."""
    folder = os.dup(directory)
    try:
        for part in path.parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
            parent, folder = folder, os.open(part, _FOLDER, dir_fd=folder)
            os.close(parent)
        with os.fdopen(os.open(path.name, _NEW_FILE, 0o644, dir_fd=folder), "wb") as file:
            try:
                file.write(content)
                file.flush()
            except OSError:
                os.unlink(path.name, dir_fd=folder)
                raise
    except FileExistsError:
        if not _holds(folder, path.name, content):
            raise UsageError(f"--out: {out / path} is there already and is another file; remove it, or name another directory") from None
    except OSError as error:
        remedy = "make room" if error.errno == errno.ENOSPC else "name another directory"
        raise UsageError(f"--out: {out / path} can't be written: {error.strerror}; {remedy}") from None
    finally:
        os.close(folder)


def _holds(directory: int, name: str, content: bytes) -> bool:
    """Compare a plain file with these bytes, without following a link or waiting for a pipe."""
    try:
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory), "rb") as file:
            return file.read(len(content) + 1) == content
    except OSError:
        return False
