"""Tells from an error under light headers that torch's own would give one too, so that a slip of the pen is answered at once; and from
a source that it has no entry, whatever the headers.

Light headers leave things out, so most errors may be their fault. Not so where the first error is a name that torch's headers do not
contain at all, a slip in the grammar, or a tensor-core fragment that CUDA does not have: what stands before it was understood, and the
same names mean the same with both. Later errors may be consequences of the first and prove nothing. A source that uses a macro which only
torch's own headers have proves nothing either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from sandbox.compilers.precompiled import MACROS, NAMES, listed

WORD = re.compile(r"[A-Za-z_]\w*")
# A line of g++, and one of nvcc's passes.
_ERROR = re.compile(r"^(?P<path>[^:(\n]+)(?::\d+:\d+|\(\d+\)): (?P<fatal>fatal )?error: (?P<message>.*)$", re.MULTILINE)
_QUOTED = r"[‘'\"](\w+)[’'\"]"
_UNKNOWN = (
    rf"{_QUOTED} was not declared in this scope",
    rf"{_QUOTED} is not a member of ",
    rf"{_QUOTED} has not been declared",
    rf"{_QUOTED} does not name a type",
    rf"identifier {_QUOTED} is undefined",
    rf'namespace "[\w:]+" has no member {_QUOTED}',
)
# What makes a Python module or an operator; and what makes names that do not stand in the source.
_MAKES_ENTRY = re.compile(
    r"PYBIND11_|PyInit_|PyModule|TORCH_LIBRARY(?!_IMPL\b)|TORCH_EXTENSION_NAME|RegisterOperators|\bLibrary\b|##|%:%:|\basm\b|__asm"
)
# A tensor-core fragment of a type or shape that CUDA does not have: `mma.h` declares them, whichever headers of torch are there.
_NO_FRAGMENT = re.compile(
    r"[‘'\"](?:const )?nvcuda::wmma::fragment<[^;]*\bincomplete type\b|\bincomplete type [‘'\"](?:const )?nvcuda::wmma::fragment<"
)
_NO_MEMBER = (rf"has no member named {_QUOTED}", rf'class ".*" has no member {_QUOTED}')


def is_certain(log: str, sources: Mapping[str, str], ready: Path) -> bool:
    """Whether the sources would be rejected with torch's own headers too; ready: where `precompile` has left what it knows of those."""
    first = next((match for match in re.finditer(r"^.*\berror: .*$", log, re.MULTILINE)), None)
    error = _ERROR.match(first[0]) if first is not None else None
    known = listed(NAMES, ready)
    if error is None or error["fatal"] or error["path"] not in sources or not known:
        return False
    texts = "\n".join(sources.values())
    if not listed(MACROS, ready).isdisjoint(WORD.findall(texts)):
        return False
    message = error["message"]
    if message.startswith("expected ") or _NO_FRAGMENT.search(message):
        return True
    if (name := _named(_UNKNOWN, message)) is not None:
        return name not in known
    if (name := _named(_NO_MEMBER, message)) is not None:
        # A class of the source's own may have it, and another overload may return that.
        elsewhere = re.search(rf"(?<![.>\w]){name}\b", texts)
        return elsewhere is None and name not in known
    return False


def makes_no_entry(sources: Mapping[str, str], ready: Path) -> bool:
    """Whether the sources make neither a Python module nor an operator, with torch's own headers either: they name nothing that does, and
    no macro that only those headers know. `TORCH_LIBRARY_IMPL` is the same in both; it adds to an operator that is defined elsewhere."""
    known, texts = listed(MACROS, ready), "\n".join(sources.values())
    return bool(known) and _MAKES_ENTRY.search(texts) is None and known.isdisjoint({*WORD.findall(texts)} - {"TORCH_LIBRARY_IMPL"})


def _named(patterns: tuple[str, ...], message: str) -> str | None:
    return next((match[1] for pattern in patterns if (match := re.search(pattern, message)) is not None), None)
