"""Artifacts of Python modules: any bytes are unpacked below the directory, or refused in the one exception that a runner knows."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, find, given
from hypothesis import strategies as st

from sandbox.protocol.python_archive import CACHES, EXTENSIONS, SOURCES, TOP, ArchiveRefused, pack, unpack
from tests.fuzz import values

KINDS = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE,
    tarfile.CONTTYPE,
         tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, b"\0", b"Z")  # fmt: skip
FORMATS = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)
KEYS = ("path", "linkpath", "size", "mtime", "uid", "GNU.sparse.major", "GNU.sparse.minor", "GNU.sparse.map", "GNU.sparse.size",
        "GNU.sparse.realsize", "GNU.sparse.name", "hdrcharset", "x")  # fmt: skip


def paths() -> st.SearchStrategy[str]:
    parts = st.sampled_from(
        ("sources", "extensions", "caches", "other", "..", ".", "", "a", "a", "b.py", "~", "\0", "é", "\udcff", "x" * 120, "x" * 300, "\n")
    )
    inside = st.lists(parts, min_size=1, max_size=4).map(lambda rest: "/".join(["sources", *rest]))
    return st.one_of(inside, inside, st.lists(parts, max_size=5).map("/".join), values.texts())


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """A tar of plain and less plain entries, which may have been damaged afterwards."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=draw(st.sampled_from(FORMATS)), errors="surrogateescape") as archive:
        for _ in range(draw(st.integers(0, 4))):
            entry = tarfile.TarInfo(draw(paths()))
            entry.type = draw(st.one_of(st.just(tarfile.REGTYPE), st.sampled_from(KINDS)))
            content = draw(st.binary(max_size=60))
            entry.size = len(content) if entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else draw(st.sampled_from((0, 0, 5)))
            entry.linkname = draw(st.sampled_from(("", "/etc/passwd", "../../x", "sources/a")))
            numbers = st.one_of(st.sampled_from(("0", "-1", "9" * 30, "1.0", "nan", "\0")), values.texts())
            entry.pax_headers = draw(st.dictionaries(st.sampled_from(KEYS), st.one_of(numbers, paths()), max_size=2))
            try:
                archive.addfile(entry, io.BytesIO(content))
            except (ValueError, TypeError, OverflowError, OSError):  # it can't be written so
                continue
    data = bytearray(made.getvalue())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, min(len(data) - 1, 2048))))
        data[at : at + draw(st.integers(0, 12))] = draw(st.binary(max_size=12))
        if draw(st.booleans()):
            mend(data)
    return bytes(data[: draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))])


def mend(data: bytearray) -> None:
    """Set the first headers' checksums right, so that what is wrong is read."""
    for begin in range(0, min(len(data), 4096) - 511, 512):
        if any(data[begin : begin + 512]):
            total = 256 + sum(data[begin : begin + 148]) + sum(data[begin + 156 : begin + 512])
            data[begin + 148 : begin + 156] = b"%06o\0 " % total


def unpacked(content: bytes) -> list[str] | None:
    """The files; None where it is refused. Nothing may lie beside the directory, and nothing but plain files in it."""
    with tempfile.TemporaryDirectory(prefix="ga-") as name:
        place = Path(name) / "a" / "b"
        place.mkdir(parents=True)
        try:
            unpack(content, place)
        except ArchiveRefused as refused:
            assert str(refused)
            return None
        finally:
            assert os.listdir(name) == ["a"] and os.listdir(Path(name) / "a") == ["b"]
            found = [Path(folder, file) for folder, _, files in os.walk(place) for file in files]
            assert all(path.is_file() and not path.is_symlink() for path in found)
            assert all(path.relative_to(place).parts[0] in TOP for path in found)
        return [path.relative_to(place).as_posix() for path in found]


def archive_of(name: str, **headers: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo(name)
        entry.pax_headers = headers
        archive.addfile(entry, io.BytesIO())
    return made.getvalue()


@given(st.one_of(archives(), archives(), st.binary(max_size=2000)))
@example(archive_of("sources/x", path="sources/a\0b"))
def test_any_bytes_are_unpacked_inside_or_refused(content: bytes) -> None:
    unpacked(content)


@values.examples(15)
@given(
    st.dictionaries(
        st.sampled_from(("kernel.py", "a/b.py", "é.py", "x" * 90 + "/" + "y" * 90 + ".py")), st.binary(max_size=3000), max_size=4
    )
)
def test_what_is_packed_is_unpacked(sources: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="ga-") as name:
        place = Path(name)
        (place / EXTENSIONS).mkdir()
        (place / CACHES).mkdir()
        assert sorted(unpacked(pack(sources, place)) or []) == sorted(f"{SOURCES}/{path}" for path in sources)


def test_a_path_with_a_nul_is_refused() -> None:
    """Found: ValueError, when it was to be written."""
    assert unpacked(archive_of("sources/x", path="sources/a\0b")) is None


def test_these_archives_lead_a_plain_extraction_astray() -> None:
    """The control: of the same archives some make tarfile, told to trust, leave what is no plain file of ours, or end otherwise."""

    def astray(content: bytes) -> bool:
        with tempfile.TemporaryDirectory(prefix="ga-") as name:
            place = Path(name) / "a"
            place.mkdir()
            try:
                with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
                    members: list[Any] = [one for one in archive if one.issym() or one.name.startswith("../")]
                    archive.extractall(place, members, filter="fully_trusted")
            except (tarfile.TarError, OSError, ValueError, OverflowError, EOFError):
                return False
            return bool(members)

    found = find(archives(), astray, settings=values.FINDING)
    assert unpacked(found) is None
    with pytest.raises(ArchiveRefused):
        unpack(found, Path("/nonexistent"))
