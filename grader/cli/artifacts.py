"""`grader-cli artifacts`: lists the files that a submission left, and saves them.

What the server sends is untrusted: names are checked here again, nothing that is there is overwritten, and no link is followed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from grader.api.client import GraderClient
from grader.api.resource_names import full_name, resource_id
from grader.cli.exits import Exit, GraderFailed, Misuse
from grader.cli.jsonout import print_json
from grader.cli.progress import stdout_console
from grader.cli.session import Need, Target, connect
from grader.cli.short_ids import whole_name
from grader.cli.text import one_line, plain
from grader.cli.written_files import open_directory
from grader.v1 import grader_service_pb2
from grader.views import formatting

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SIZE_LIMIT_BYTES = 256 * 1024 * 1024


async def artifacts(target: Target, name: str, out: Path | None, *, json: bool) -> Exit:
    """List the files of a submission; with out, save those that are there into that directory."""
    async with connect(target, Need.READ) as client:
        found = list(await client.list_artifacts(await whole_name(client, name)))
        saved = [] if out is None else await _save_all(client, found, out)
    if json:
        print_json(grader_service_pb2.ListArtifactsResponse(artifacts=found))
        return Exit.DONE
    console = stdout_console()
    if not found:
        print(f"{one_line(name)} has left no files; `grader-cli submit --mode profile` makes some")
    elif out is None:
        console.print(_table(found))
        console.print(plain(f"save them with: grader-cli artifacts {one_line(resource_id('submissions', name))} --out DIR", "dim"))
    print_saved(saved)
    for one in found if out is not None else ():
        if not one.available:
            console.print(plain(f"not on this server any more: {one_line(_file_name(one))}", "yellow"), soft_wrap=True)
    return Exit.DONE


async def save(client: GraderClient, name: str, out: Path) -> list[Path]:
    """Save all files of a submission into a directory, and return their paths."""
    return await _save_all(client, list(await client.list_artifacts(full_name("submissions", name))), out)


def print_saved(saved: Sequence[Path]) -> None:
    """One path a line."""
    for path in saved:
        stdout_console().print(plain(str(path)), soft_wrap=True)


async def _save_all(client: GraderClient, found: Sequence[grader_service_pb2.Artifact], out: Path) -> list[Path]:
    directory = open_directory(out)
    try:
        return [out / await _save(client, one, directory, out) for one in found if one.available]
    finally:
        os.close(directory)


async def _save(client: GraderClient, artifact: grader_service_pb2.Artifact, directory: int, out: Path) -> str:
    """Save one file under its own name. A file of this name that has the same bytes stays; anything else there is an error."""
    name = _file_name(artifact)
    if _NAME.fullmatch(name) is None:
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
    _write_new(directory, name, bytes(content), out)
    return name


def _write_new(directory: int, name: str, content: bytes, out: Path) -> None:
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=directory)
    except FileExistsError:
        if _holds(directory, name, content):
            return
        raise Misuse(f"--out: {out / name} is there already and is another file; remove it, or name another directory") from None
    except OSError as error:
        raise GraderFailed(f"{out / name} can't be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        os.unlink(name, dir_fd=directory)
        hint = "; make room" if error.errno == errno.ENOSPC else ""
        raise GraderFailed(f"{out / name} can't be written: {error.strerror}{hint}") from None


def _holds(directory: int, name: str, content: bytes) -> bool:
    """Whether a plain file with these bytes is there."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(len(content) + 1) == content
    except OSError:
        return False


def _file_name(artifact: grader_service_pb2.Artifact) -> str:
    return artifact.name.rpartition("/artifacts/")[2]


def _table(found: Sequence[grader_service_pb2.Artifact]) -> Table:
    table = Table("file", "tool", box=None, pad_edge=False)
    table.add_column("size", justify="right")
    table.add_column("until (UTC)")
    for one in found:
        until = one.expire_time.ToDatetime().strftime("%Y-%m-%d %H:%M") if one.HasField("expire_time") else "for ever"
        table.add_row(
            plain(one_line(_file_name(one))),
            plain(one_line(one.tool)),
            formatting.byte_count(one.size_bytes),
            until if one.available else "not here any more",
        )
    return table
