"""Names of the kernels that an artifact's own device code defines: symbols of its cubins and PTX, and its Triton and Numba functions.

The judge reads what an attacker chose. Work stays in proportion to the artifact, and what no compiler or linker writes defines nothing.
Text defines nothing: neither a comment nor a string of a source, nor a string of an object.
"""

from __future__ import annotations

import io
import re
import struct
import tarfile
from collections.abc import Iterator
from itertools import islice

from sandbox.protocol import elf
from sandbox.protocol.python_archive import FILE_COUNT_LIMIT, SOURCES
from sandbox.protocol.source_tokens import COMMENT, PYTHON, STRING, tokens

FATBIN_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
SOURCE_LIMIT_BYTES = 1 << 20
NAME_COUNT_LIMIT = 20_000  # of one file; libraries of templates have hundreds
_FATBIN = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes that follow it
_ENTRY = struct.Struct("<HHIQ")  # kind, version, bytes of this header, bytes that follow it, padding included
_FATBIN_MAGIC = 0xBA55ED50
_PTX = 1
_PTX_ENTRY = re.compile(rb"\.entry\s{1,8}([\w$]{1,4096})")
_PYTHON_TOKEN = re.compile(r"\b[^\W\d]\w*+|[^\w\s]|\n")
_MANGLED = re.compile(r"_Z(N?)[rVK]*(?:St)?")
_LENGTH = re.compile(r"L?(\d{1,5})")  # L: of internal linkage
_SPECIALISED = re.compile(r"_[0-9][0-9cde]*$")  # as older Tritons end a name: add_kernel_0d1d2d


class DeviceCode:
    """What an artifact defines: the kernels of its device code and its Python functions, by names without namespaces."""

    def __init__(self, artifact: bytes) -> None:
        self._symbols: set[str] = set()
        self._functions: set[str] = set()
        for path, content in members(artifact):
            if len(self._symbols) + len(self._functions) >= NAME_COUNT_LIMIT:
                break
            if content.startswith(elf.MAGIC):
                self._symbols.update(map(source_name, islice(_kernels_of(content), NAME_COUNT_LIMIT)))
            elif path.startswith(f"{SOURCES}/") and path.endswith(".py"):
                self._functions.update(islice(jit_functions(content), NAME_COUNT_LIMIT))

    def defines(self, kernel: str) -> bool:
        """Whether a kernel of this name, without templates and arguments, is of this code."""
        name = kernel.rpartition("::")[2]
        return name in self._symbols or name in self._functions or _SPECIALISED.sub("", name) in self._functions


def members(artifact: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of a Python module's archive by their paths, or the artifact itself as the only one. A damaged archive ends early."""
    if artifact.startswith(elf.MAGIC):
        yield "", artifact
        return
    try:
        with tarfile.open(fileobj=io.BytesIO(artifact), mode="r:") as archive:
            for number, entry in enumerate(archive):
                if number >= FILE_COUNT_LIMIT:
                    return
                if entry.isreg() and not entry.issparse() and (file := archive.extractfile(entry)) is not None:
                    yield entry.name, file.read()
    except (tarfile.TarError, EOFError, ValueError, OverflowError):
        return


def jit_functions(source: bytes) -> Iterator[str]:
    """The functions that a Python source decorates with `jit`, or hands to it: `@triton.jit`, `@cuda.jit(...)`, `cuda.jit(add)`."""
    if len(source) > SOURCE_LIMIT_BYTES:
        return
    parts = tokens(PYTHON, source.decode(errors="replace").replace("\r\n", "\n"))
    text = "".join(" " if kind in (COMMENT, STRING) else part for kind, part in parts).replace("\\\n", " ")
    line, depth, decorated = list[str](), 0, False
    for match in _PYTHON_TOKEN.finditer(text + "\n"):
        word = match[0]
        if word != "\n":
            depth = max(depth + (word in "([{") - (word in ")]}"), 0)
            line.append(word)
        elif line and not depth:
            if line[0] == "@":
                decorated = decorated or "jit" in line
            else:
                if decorated and line[0] == "def" and len(line) > 1:
                    yield line[1]
                decorated = False
                yield from (line[at + 2] for at, part in enumerate(line[:-2]) if part == "jit" and line[at + 1] == "(")
            line = []


def source_name(symbol: str) -> str:
    """A function's own name in a mangled one: `f` of `_ZN1a1fILi1EEEvPf`; a name that is not mangled, or by no rule known here, as it is.

    <name> of the Itanium C++ ABI 5.1.3: parts that begin with their length, between N and E where there are namespaces. A kernel is a
    function at namespace scope, so the last part is its own. An anonymous namespace's may end with a digit.
    """
    if (start := _MANGLED.match(symbol)) is None:
        return symbol
    at, found = start.end(), symbol
    while (length := _LENGTH.match(symbol, at)) is not None:
        at = length.end() + int(length[1])
        found = symbol[length.end() : at]
        if start[1] != "N":  # what follows are the types of its parameters
            break
    return found


def _kernels_of(content: bytes) -> Iterator[str]:
    """Those of a cubin, or of what an object for the host embeds; none where one of them is damaged."""
    try:
        found = list(elf.kernel_names(content)) if elf.is_cubin(content) else list(_embedded(content))
    except elf.NotAnObject:
        return
    yield from found


def _embedded(content: bytes) -> Iterator[str]:
    for name in FATBIN_SECTIONS:
        section = elf.section(content, name)
        at = section.start
        while at + _FATBIN.size <= section.stop:
            magic, _, header, size = _FATBIN.unpack_from(content, at)
            if magic != _FATBIN_MAGIC:
                at += 8  # they are aligned
                continue
            end = at + header + size
            if header < _FATBIN.size or end > section.stop:
                raise elf.Damaged("a fat binary that does not end in its section")
            yield from _entries(content, at + header, end)
            at = end


def _entries(content: bytes, at: int, end: int) -> Iterator[str]:
    """What is compressed defines nothing: nvcc compresses PTX only, and the cubin that a GPU runs lies next to it."""
    while at + _ENTRY.size <= end:
        kind, _, header, size = _ENTRY.unpack_from(content, at)
        stop = at + header + size
        if header < _ENTRY.size or stop > end:
            raise elf.Damaged("an entry that does not end in its fat binary")
        image = content[at + header : stop]
        if kind == _PTX:
            yield from (match[1].decode() for match in _PTX_ENTRY.finditer(image))
        elif image.startswith(elf.MAGIC) and elf.is_cubin(image):
            yield from elf.kernel_names(image)
        at = stop
