"""The artifact of a Python module: its sources and what was compiled when it was imported, as one plain tar.

Made in the build box and unpacked in the run box, where a stranger may have written it: only plain files below TOP, only by paths that
mean what they say. The same files make the same bytes.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from sandbox.protocol.box_files import read_left

# The parts of an artifact: the submitted files, the problem's files that they may import, which of them is the main file, the extensions
# compiled from them, and what other compilers have kept.
SOURCES, MODULES, MAIN, EXTENSIONS, CACHES = "sources", "modules", "main", "extensions", "caches"
TOP = frozenset({SOURCES, MODULES, MAIN, EXTENSIONS, CACHES})
MAIN_FILE = f"{MAIN}/path"  # holds a path below SOURCES
SIZE_LIMIT_BYTES = 48 << 20  # a build box may leave a file of 64 MiB
FILE_COUNT_LIMIT = 2000
PATH_LIMIT_BYTES = 240


class ArchiveRefused(Exception):
    """An artifact, or what should become one, is not as it must be; the sentence says what."""


def pack(sources: Mapping[str, bytes], place: Path, *, modules: Mapping[str, bytes] | None = None, main: str = "") -> bytes:
    """The sources as submitted, the problem's modules, and the files that lie in a part of `place`. Links, pipes and empty directories are
    left out. main: the path of the main file, where it is not the only one."""
    files: dict[str, bytes | Path] = {f"{SOURCES}/{path}": content for path, content in sources.items()}
    files |= {f"{MODULES}/{name}": content for name, content in (modules or {}).items()}
    files |= {MAIN_FILE: main.encode()} if main else {}
    files |= {path: place / path for path in _files(place)}
    buffer, total = io.BytesIO(), 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for count, path in enumerate(sorted(files), start=1):
            source = files[path]
            content = read_left(source, SIZE_LIMIT_BYTES + 1) if isinstance(source, Path) else source
            total += len(content)
            if total > SIZE_LIMIT_BYTES or count > FILE_COUNT_LIMIT:
                limits = f"{SIZE_LIMIT_BYTES >> 20} MiB or {FILE_COUNT_LIMIT} files"
                raise ArchiveRefused(f"what the module made when it was imported is over {limits}; compile less there")
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o444
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def unpack(artifact: bytes, place: Path) -> None:
    """Write the files of an artifact below `place`, an empty directory; nothing is written where one of them is refused."""
    try:
        with tarfile.open(fileobj=io.BytesIO(artifact), mode="r:") as archive:
            members = [_checked(archive, entry, number) for number, entry in enumerate(archive)]
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise ArchiveRefused(f"the artifact is no archive of ours: {error}") from None
    if len({path for path, _ in members}) != len(members):
        raise ArchiveRefused("the artifact has two files of one path")
    try:
        for path, content in members:
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444), "wb") as file:
                file.write(content)
    except OSError as error:  # a file that is another's directory; no room
        raise ArchiveRefused(f"the artifact can't be unpacked: {error}") from None


def _checked(archive: tarfile.TarFile, entry: tarfile.TarInfo, number: int) -> tuple[str, bytes]:
    path = PurePosixPath(entry.name)
    if not entry.isreg() or entry.issparse():
        raise ArchiveRefused(f"the artifact has {entry.name!r}, which is no plain file")
    os.fsencode(entry.name)  # ValueError where no file can have the name
    if (
        "\0" in entry.name
        or path.is_absolute()
        or str(path) != entry.name
        or ".." in path.parts
        or len(path.parts) < 2
        or path.parts[0] not in TOP
    ):
        raise ArchiveRefused(f"the artifact has {entry.name!r}, which is no path inside of it")
    if number >= FILE_COUNT_LIMIT or entry.offset_data + entry.size > SIZE_LIMIT_BYTES + FILE_COUNT_LIMIT * 4096:
        raise ArchiveRefused("the artifact holds more than one may")
    file = archive.extractfile(entry)
    assert file is not None
    return entry.name, file.read()


def _files(place: Path) -> Iterator[str]:
    for part in (EXTENSIONS, CACHES):
        for directory, _, names in os.walk(place / part):  # follows no link
            for name in names:
                path = Path(directory, name)
                relative = path.relative_to(place).as_posix()
                if len(os.fsencode(relative)) <= PATH_LIMIT_BYTES and relative.isprintable() and stat.S_ISREG(path.lstat().st_mode):
                    yield relative
