"""Objects with device code as nvcc embeds it, made without nvcc: a cubin in a fat binary, in a shared object of gcc's."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from subprocess import run

EM_CUDA, STO_CUDA_ENTRY, PTX, ELF = 190, 0x10, 1, 2


def cubin(*kernels: str, functions: tuple[str, ...] = ()) -> bytes:
    """A cubin that defines kernels and device functions: header, symbols, their names, three section headers."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*kernels, *functions))
    symbols, at = bytes(24), 1
    for name in (*kernels, *functions):
        symbols += struct.pack("<IBBHQQ", at, 0x12, STO_CUDA_ENTRY if name in kernels else 0, 1, 0, 16)
        at += len(name.encode()) + 1
    headers_at = 64 + len(symbols) + len(names)
    header = b"\x7fELF\x02\x01\x41\x08" + bytes(8) + struct.pack("<HHIQQQIHHHHHH", 2, EM_CUDA, 1, 0, 0, headers_at, 0, 64, 0, 0, 64, 3, 2)
    section = struct.Struct("<IIQQQQIIQQ")
    headers = section.pack(*[0] * 10) + section.pack(0, 2, 0, 0, 64, len(symbols), 2, 1, 8, 24)
    headers += section.pack(0, 3, 0, 0, 64 + len(symbols), len(names), 0, 0, 1, 0)
    return header + symbols + names + headers


def fat_binary(*images: tuple[int, bytes]) -> bytes:
    """Images by their kind, as `fatbinary` joins them."""
    entries = b"".join(struct.pack("<HHIQ", kind, 0x101, 64, len(image)) + bytes(48) + image for kind, image in images)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def with_section(content: bytes, *, section: str = ".nv_fatbin", source: str = "") -> bytes:
    """A shared object that gcc links, with this section."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "device").write_bytes(content)
        (place / "device.s").write_text(f'.section {section},"a",@progbits\n.incbin "device"\n')
        (place / "host.c").write_text(source)
        run(["gcc", "-shared", "-fPIC", "-nostdlib", "host.c", "device.s", "-o", "kernel.so"], cwd=place, check=True)
        return (place / "kernel.so").read_bytes()


def fat_object(*kernels: str) -> bytes:
    """A shared object whose device code defines these kernels."""
    return with_section(fat_binary((ELF, cubin(*kernels))))
