"""Reads the names that a shared object exports and wants, without loading it.  Layout: ELF-64, System V gABI, chapters 4 and 5."""

from __future__ import annotations

import mmap
import struct

Bytes = bytes | mmap.mmap
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC_ENTRY = struct.Struct("<QQ")
_DYNAMIC, _DYNSYM = 6, 11
_DT_SONAME = 14


class NotAnObject(ValueError):
    """Not a 64-bit little-endian ELF file with section headers."""


def exported_names(data: Bytes) -> list[str]:
    """The defined global and weak functions of the dynamic symbol table, in its order."""
    return [name for name, info, section in _dynamic_symbols(data) if section != 0 and info & 0xF in (2, 10) and info >> 4 in (1, 2)]


def undefined_names(data: Bytes) -> list[str]:
    """What the object wants of others."""
    return [name for name, _, section in _dynamic_symbols(data) if section == 0 and name]


def soname(data: Bytes) -> str | None:
    """What the object is called by those that need it; None where it has no name."""
    try:
        for kind, offset, size, strings_at in _sections(data):
            for at in range(offset, offset + size if kind == _DYNAMIC else offset, _DYNAMIC_ENTRY.size):
                tag, value = _DYNAMIC_ENTRY.unpack_from(data, at)
                if tag == _DT_SONAME:
                    return _text(data, strings_at + value)
        return None
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotAnObject(f"damaged: {error}") from None


def _dynamic_symbols(data: Bytes) -> list[tuple[str, int, int]]:
    """Each symbol's name, info byte and section index."""
    try:
        symbols = []
        for kind, offset, size, strings_at in _sections(data):
            for at in range(offset, offset + size if kind == _DYNSYM else offset, _SYMBOL.size):
                name, info, _, section, _, _ = _SYMBOL.unpack_from(data, at)
                symbols.append((_text(data, strings_at + name), info, section))
        return symbols
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotAnObject(f"damaged: {error}") from None


def _sections(data: Bytes) -> list[tuple[int, int, int, int]]:
    """Each section's kind, offset and size, and where the section that it links to begins."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotAnObject("no 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, table + index * entry_size) for index in range(count)]
    return [
        (kind, offset, size, sections[link][4]) for _, kind, _, _, offset, size, link, _, _, _ in sections if kind in (_DYNAMIC, _DYNSYM)
    ]


def _text(data: Bytes, start: int) -> str:
    end = data.find(b"\0", start)
    if end < 0:
        raise ValueError("a name that does not end")
    return data[start:end].decode("utf-8", "replace")
