"""An artifact in Python is a tar that a stranger may have written: it is unpacked only where every path means what it says."""

from __future__ import annotations

import io
import tarfile

import pytest

from sandbox.protocol import python_archive
from sandbox.protocol.python_archive import ArchiveRefused, pack, unpack


def archive(*entries: tuple[str, dict[str, object]], content: bytes = b"text") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        for name, fields in entries:
            entry = tarfile.TarInfo(name)
            for key, value in fields.items():
                setattr(entry, key, value)
            entry.size = len(content) if entry.isreg() else 0
            file.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
    return buffer.getvalue()


LINK, HARD, FIFO, DEVICE, DIRECTORY = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE
HOSTILE = {
    "above": [("sources/../../x", {})],
    "above_the_top": [("../x", {})],
    "absolute": [("/tmp/x", {})],
    "twice_a_slash": [("sources//x", {})],
    "a_dot": [("sources/./x", {})],
    "elsewhere": [("other/x", {})],
    "the_part_itself": [("sources", {})],
    "symlink": [("sources/x", {"type": LINK, "linkname": "/etc/passwd"})],
    "through_a_symlink": [("sources/x", {"type": LINK, "linkname": "/tmp"}), ("sources/x/y", {})],
    "hard_link": [("sources/x", {"type": HARD, "linkname": "sources/y"})],
    "fifo": [("sources/x", {"type": FIFO})],
    "device": [("sources/x", {"type": DEVICE, "devmajor": 1, "devminor": 3})],
    "directory": [("sources/x", {"type": DIRECTORY})],
    "twice": [("sources/x", {}), ("sources/x", {})],
    "a_file_that_is_a_directory": [("sources/x", {}), ("sources/x/y", {})],
}


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
def test_a_path_or_kind_that_is_no_plain_file_of_ours_is_refused(tmp_path, entries):
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    with pytest.raises(ArchiveRefused):
        unpack(archive(*entries), place)
    assert [path.name for path in tmp_path.iterdir()] == ["a"] and [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_a_plain_extraction_would_have_followed_them(tmp_path):
    """The control: tarfile, told to trust, writes above the directory and through a link."""
    place, outside = tmp_path / "a" / "b", tmp_path / "outside"
    (place / "sources").mkdir(parents=True)
    outside.mkdir()
    through = [("sources/x", {"type": LINK, "linkname": str(outside)}), ("sources/x/y", {})]
    for entries in (HOSTILE["above"], through):
        with tarfile.open(fileobj=io.BytesIO(archive(*entries))) as file:
            file.extractall(place, filter="fully_trusted")
    assert (tmp_path / "a" / "x").exists() and (outside / "y").exists()


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF" + bytes(2000), b"x" * 10240, archive(("sources/x", {}))[:700]], ids=["empty", "elf", "text", "cut"]
)
def test_what_is_no_archive_is_refused(tmp_path, content):
    """In one exception that a runner knows; an empty one has no file, which is found out after."""
    try:
        unpack(content, tmp_path)
    except ArchiveRefused:
        return
    assert content == b"" or not any(tmp_path.rglob("*"))


def test_more_files_than_may_be_are_refused(tmp_path, monkeypatch):
    files = [(f"sources/{number}", {}) for number in range(python_archive.FILE_COUNT_LIMIT + 1)]
    with pytest.raises(ArchiveRefused, match="holds more"):
        unpack(archive(*files), tmp_path)
    with pytest.raises(ArchiveRefused, match="compile less"):
        pack({name: b"" for name, _ in files}, tmp_path)


def test_what_is_packed_is_unpacked(tmp_path):
    build_dir, place = tmp_path / "made", tmp_path / "place"
    (build_dir / "extensions/x-1").mkdir(parents=True)
    (build_dir / "extensions/x-1/x.so").write_bytes(b"library")
    first = pack({"mine/kernel.py": b"source"}, build_dir)
    (build_dir / "extensions/x-1/x.so").chmod(0o600)
    (build_dir / "extensions/x-1/x.so").touch()
    assert pack({"mine/kernel.py": b"source"}, build_dir) == first
    place.mkdir()
    unpack(first, place)
    assert (place / "sources/mine/kernel.py").read_bytes() == b"source"
    assert (place / "extensions/x-1/x.so").read_bytes() == b"library"
    assert (place / "extensions/x-1/x.so").stat().st_mode & 0o777 == 0o444
