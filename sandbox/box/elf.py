"""Reads the names that a shared object exports, without loading it.  Layout: ELF-64, System V gABI, chapters 4 and 5."""

from __future__ import annotations

import struct

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNSYM = 11


class NotAnObject(ValueError):
    """Not a 64-bit little-endian ELF file with section headers."""


def exported_names(data: bytes) -> list[str]:
    """The defined global and weak functions of the dynamic symbol table, in its order."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotAnObject("no 64-bit ELF file")
    try:
        (table,) = struct.unpack_from("<Q", data, 0x28)
        entry_size, count = struct.unpack_from("<HH", data, 0x3A)
        sections = [_SECTION.unpack_from(data, table + index * entry_size) for index in range(count)]
        names = []
        for _, kind, _, _, offset, size, link, _, _, _ in sections:
            if kind != _DYNSYM:
                continue
            strings_at = sections[link][4]
            for at in range(offset, offset + size, _SYMBOL.size):
                name, info, _, section, _, _ = _SYMBOL.unpack_from(data, at)
                if section != 0 and info & 0xF in (2, 10) and info >> 4 in (1, 2):
                    end = data.index(b"\0", strings_at + name)
                    names.append(data[strings_at + name : end].decode("utf-8", "replace"))
        return names
    except (struct.error, IndexError, ValueError) as error:
        raise NotAnObject(f"damaged: {error}") from None
