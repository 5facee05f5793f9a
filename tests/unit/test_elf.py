"""Reading of a shared object, at a cost bounded by its size even if it is hostile."""

import struct
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from subprocess import run

import pytest

from sandbox.protocol import elf

SYMBOL_BYTES, SECTION_BYTES = 24, 64
STRTAB, DYNAMIC, DYNSYM = 3, 6, 11
SOURCE = 'extern "C" int wanted(int); extern "C" int given(int x) { return wanted(x); }'
DAMAGE = [
    {"header_bytes": 0},
    {"header_bytes": 65},
    {"count": 65535},
    {"count": 0},
    {"tables": 0},
    {"tables": 2},
    {"entry_bytes": 0},
    {"entry_bytes": 1},
    {"size": 1 << 62},
    {"link": 60000},
]


def shared_object(
    names: Sequence[bytes],
    *,
    shared: int = 1,
    header_bytes: int = SECTION_BYTES,
    count: int | None = None,
    tables: int = 1,
    entry_bytes: int = SYMBOL_BYTES,
    size: int | None = None,
    link: int = 0,
) -> bytes:
    """An object that wants functions of these names, each by so many symbols, and lies where told to."""
    strings, symbols = b"\0", b""
    for name in names:
        symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 0, 0, 0) * shared
        strings += name + b"\0"
    strings_at = 64
    symbols_at = strings_at + len(strings)
    symbols_bytes = len(symbols) if size is None else size
    sections = [
        struct.pack("<IIQQQQIIQQ", 0, STRTAB, 0, 0, strings_at, len(strings), 0, 0, 1, 0),
        *(struct.pack("<IIQQQQIIQQ", 0, DYNSYM, 0, 0, symbols_at, symbols_bytes, link, 0, 8, entry_bytes) for _ in range(tables)),
    ]
    if header_bytes == 0:  # then every header is the one of the symbols
        sections.reverse()
    count = len(sections) if count is None else count
    sections_at = symbols_at + len(symbols)
    header = elf.MAGIC + bytes(34) + struct.pack("<QIHHHHHH", sections_at, 0, 64, 0, 0, header_bytes, count, 0)
    return header + strings + symbols + b"".join(sections)


def cost(data: bytes) -> tuple[float, int]:
    """Seconds and bytes that it takes to go through what is wanted."""
    tracemalloc.start()
    begun = time.process_time()
    try:
        for _ in elf.undefined_names(data):
            pass
    except elf.NotAnObject:
        pass
    finally:
        taken_s, (_, peak_bytes) = time.process_time() - begun, tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return taken_s, peak_bytes


def test_a_linkers_object_tells_its_names(tmp_path: Path) -> None:
    """Exported names, undefined names and soname."""
    (tmp_path / "kernel.cpp").write_text(SOURCE)
    run(["g++", "-shared", "-fPIC", "-Wl,-soname,mine.so", str(tmp_path / "kernel.cpp"), "-o", str(tmp_path / "kernel.so")], check=True)
    data = (tmp_path / "kernel.so").read_bytes()
    assert elf.exported_names(data) == ["given"] and "wanted" in elf.undefined_names(data) and elf.soname(data) == "mine.so"


@pytest.mark.parametrize("lie", DAMAGE, ids=str)
def test_a_table_that_no_linker_writes_is_not_read(lie: dict[str, int]) -> None:
    """The error is another than that of a file which is no object at all."""
    with pytest.raises(elf.Damaged):
        list(elf.undefined_names(shared_object([b"one", b"two"], **lie)))


def test_a_name_that_does_not_end_is_damage() -> None:
    """A name that begins outside of the file is damage, too."""
    data = shared_object([b"one"])
    symbol_at = data.index(b"one\0") + 4
    for start in (len(data) - 64, 0xFFFFFFFF):
        hostile = data[:symbol_at] + struct.pack("<I", start) + data[symbol_at + 4 :]
        with pytest.raises(elf.Damaged):
            list(elf.undefined_names(hostile[:-1] + b"x"))


def test_a_long_name_is_cut() -> None:
    """A template's may be of thousands of characters, so it is no damage."""
    (name,) = elf.undefined_names(shared_object([b"x" * 10_000]))
    assert name == "x" * elf.NAME_LIMIT_BYTES


def test_names_that_are_longer_than_the_file_are_damage() -> None:
    """Symbols that share a long one make work of the square of its size; versions of one function share theirs, and may."""
    assert list(elf.undefined_names(shared_object([b"one"], shared=2))) == ["one", "one"]
    with pytest.raises(elf.Damaged):
        list(elf.undefined_names(shared_object([b"x" * 4000], shared=4000)))


@pytest.mark.parametrize(
    "hostile",
    [
        shared_object([b"x"], shared=20, header_bytes=0, count=65535),
        shared_object([b"x"], shared=20, count=65535) + bytes(64 * 65535),
        shared_object([b"x"], shared=500, tables=500),
        shared_object([b"x" * 100_000], shared=4_000),
    ],
    ids=["one header for all sections", "as many sections as can be", "overlapping tables", "one long name for all symbols"],
)
def test_a_hostile_object_costs_what_its_size_does(hostile: bytes) -> None:
    """Not what its numbers multiply to."""
    taken_s, peak_bytes = cost(hostile)
    assert taken_s < 1.0 and peak_bytes < 1 << 20
