"""Reads the names that a shared object exports and wants, and its kernels, without loading it.  Layout: ELF-64, System V gABI, 4 and 5.

The judge reads what an attacker chose: work and memory stay in proportion to the file, whatever its numbers say.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator

Bytes = bytes | mmap.mmap
MAGIC = b"\x7fELF\x02\x01"
NAME_LIMIT_BYTES = 4096  # a template's has thousands
_HEADER = struct.Struct("<40xQ10xHH")
_NAMES_INDEX = struct.Struct("<62xH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC_ENTRY = struct.Struct("<QQ")
_PROGBITS, _SYMTAB, _DYNAMIC, _DYNSYM = 1, 2, 6, 11
_DT_SONAME = 14
_EM_CUDA, _STO_CUDA_ENTRY = 190, 0x10
FATBIN_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_FATBIN = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes that follow it
_ENTRY = struct.Struct("<HHIQ")  # kind, version, bytes of this header, bytes that follow it, padding included
_FATBIN_MAGIC = 0xBA55ED50
_PTX = 1
_PTX_ENTRY = re.compile(rb"\.entry\s{1,8}([\w$]{1,4096})")


class NotAnObject(ValueError):
    """Not a 64-bit little-endian ELF file with section headers."""


class Damaged(NotAnObject):
    """An object that begins as one, but no linker writes it so. It may still load: the dynamic loader reads program headers only."""


def exported_names(data: Bytes) -> list[str]:
    """The defined global and weak functions of the dynamic symbol table, in its order; each is cut to NAME_LIMIT_BYTES."""
    symbols = _symbols(data, _table(data, _DYNSYM, _SYMBOL))
    return [name for name, info, section in symbols if section != 0 and info & 0xF in (2, 10) and info >> 4 in (1, 2)]


def undefined_names(data: Bytes) -> Iterator[str]:
    """Yield the names that the object wants of others, cut likewise; that it is no object may come out after some of them."""
    return (name for name, _, section in _symbols(data, _table(data, _DYNSYM, _SYMBOL)) if section == 0 and name)


def soname(data: Bytes) -> str | None:
    """Return the name by which others need the object; None where it has no name."""
    entries, strings_at = _table(data, _DYNAMIC, _DYNAMIC_ENTRY) or (range(0), 0)
    for at in entries:
        tag, value = _unpacked(_DYNAMIC_ENTRY, data, at)
        if tag == _DT_SONAME:
            return _text(data, strings_at + value)
    return None


def _is_cubin(data: Bytes) -> bool:
    return data[18:20] == _EM_CUDA.to_bytes(2, "little")


def kernel_names(data: Bytes) -> Iterator[str]:
    """The kernels that a cubin defines, as they are mangled, or those of the device code that an object for the host embeds."""
    if _is_cubin(data):
        yield from _kernels_of_cubin(data)
        return
    for name in FATBIN_SECTIONS:
        fatbins = section(data, name)
        at = fatbins.start
        while at + _FATBIN.size <= fatbins.stop:
            magic, _, header, size = _FATBIN.unpack_from(data, at)
            if magic != _FATBIN_MAGIC:
                at += 8  # they are aligned
                continue
            end = at + header + size
            if header < _FATBIN.size or end > fatbins.stop:
                raise Damaged("a fat binary that does not end in its section")
            yield from _kernels_of_entries(data, at + header, end)
            at = end


def _kernels_of_entries(data: Bytes, at: int, end: int) -> Iterator[str]:
    """Skip what is compressed: nvcc compresses PTX only, and the cubin that a GPU runs lies next to it."""
    while at + _ENTRY.size <= end:
        kind, _, header, size = _ENTRY.unpack_from(data, at)
        stop = at + header + size
        if header < _ENTRY.size or stop > end:
            raise Damaged("an entry that does not end in its fat binary")
        image = data[at + header : stop]
        if kind == _PTX:
            yield from (match[1].decode() for match in _PTX_ENTRY.finditer(image))
        elif image.startswith(MAGIC) and _is_cubin(image):
            yield from _kernels_of_cubin(image)
        at = stop


def _kernels_of_cubin(cubin: Bytes) -> Iterator[str]:
    """None of its device functions."""
    table = _table(cubin, _SYMTAB, _SYMBOL) or (range(0), 0)
    yield from (name for name, _, _ in _symbols(cubin, table, kernels_only=True))


def section(data: Bytes, name: str) -> range:
    """Where the contents of a section are, found by its name; empty where there is none."""
    headers = _section_headers(data)
    (names_index,) = _unpacked(_NAMES_INDEX, data, 0)
    if headers and names_index >= len(headers):
        raise Damaged(f"its names are in section {names_index} of {len(headers)}")
    names_at = _unpacked(_SECTION, data, headers[names_index])[4] if headers else 0
    wanted, content = name.encode() + b"\0", range(0)
    for at in headers:
        name_at, kind, _, _, offset, size, *_ = _unpacked(_SECTION, data, at)
        if kind != _PROGBITS or data[names_at + name_at : names_at + name_at + len(wanted)] != wanted:
            continue
        if content or offset + size > len(data):
            raise Damaged(f"two sections {name}, or one that ends after the file")
        content = range(offset, offset + size)
    return content


def _section_headers(data: Bytes) -> range:
    """Where each of them begins."""
    if data[: len(MAGIC)] != MAGIC:
        raise NotAnObject("no 64-bit ELF file")
    begin, header_bytes, count = _unpacked(_HEADER, data, 0)
    if count and header_bytes != _SECTION.size:
        raise Damaged(f"section headers of {header_bytes} bytes")
    return range(begin, begin + count * _SECTION.size, _SECTION.size)


def _symbols(data: Bytes, table: tuple[range, int] | None, *, kernels_only: bool = False) -> Iterator[tuple[str, int, int]]:
    """Name, info and section of each symbol of a table, or of each kernel."""
    if table is None:
        raise Damaged("it has no dynamic symbols")
    entries, strings_at = table
    room = len(data)
    for at in entries:
        name_at, info, visibility, section, _, _ = _unpacked(_SYMBOL, data, at)
        if kernels_only and (section == 0 or info & 0xF != 2 or not visibility & _STO_CUDA_ENTRY):
            continue
        name = _text(data, strings_at + name_at)
        room -= len(name)
        if room < 0:
            raise Damaged("its names are longer than it is: symbols share them")
        yield name, info, section


def _table(data: Bytes, wanted: int, entry: struct.Struct) -> tuple[range, int] | None:
    """Where the entries of the one section of a kind are, and where the section that it links to begins; None where there is none."""
    headers, symbols = _section_headers(data), None
    for at in headers:
        _, kind, _, _, offset, size, link, _, _, entry_bytes = _unpacked(_SECTION, data, at)
        if kind != wanted:
            continue
        if symbols is not None:  # the gABI allows one
            raise Damaged(f"two sections of kind {kind}")
        if entry_bytes != entry.size or offset + size > len(data) or link >= len(headers):
            raise Damaged(f"a section of kind {kind} with {size} bytes at {offset}, {entry_bytes} an entry, linked to {link}")
        symbols = range(offset, offset + size, entry.size), _unpacked(_SECTION, data, headers[link])[4]
    return symbols


def _unpacked(layout: struct.Struct, data: Bytes, at: int) -> tuple[int, ...]:
    if at + layout.size > len(data):
        raise Damaged(f"it ends before byte {at + layout.size}")
    return layout.unpack_from(data, at)


def _text(data: Bytes, start: int) -> str:
    limit = min(start + NAME_LIMIT_BYTES, len(data))
    end = data.find(b"\0", start, limit) if start < limit else -1
    if end < 0 and limit - start < NAME_LIMIT_BYTES:
        raise Damaged("a name that does not end")
    return data[start : end if end >= 0 else limit].decode("utf-8", "replace")
