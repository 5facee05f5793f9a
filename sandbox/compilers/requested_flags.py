"""Reads the compiler flags that a submission asks for: which are used, and which are not.

An allow list. A flag may choose macros, directories of headers and how device code is optimised; never a file that is read or written,
or a program that is started (docs/decisions/0011-light-headers.md).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandbox.compilers.headers import Headers
from sandbox.protocol.directives import directives_of

DIRECTIVE_LIMIT = 4096  # characters of a line of flags that count: splitting a long word takes the square of its length
NOT_USED = "not used; docs/submitting.md lists the flags that count"
# The next word is theirs, though it may begin with a dash.
_TAKES_WORD = frozenset(
    ["Xptxas", "ptxas-options", "Xcompiler", "compiler-options", "Xlinker", "linker-options", "Xcudafe", "Xfatbin", "Xnvlink"]
)
# What is always done, and what changes only what is printed or how long the compiler takes.
_ALWAYS = frozenset(
    ["expt-relaxed-constexpr", "extended-lambda", "expt-extended-lambda", "lineinfo", "generate-line-info", "fPIC", "fpic", "pthread"]
)
_QUIET = frozenset(["w", "v", "g", "verbose", "threads", "t", "split-compile", "Xcudafe", "diag-suppress", "resource-usage", "pipe"])
_WARNING = re.compile(r"-W(?![lap],)[\w=+-]*")
_MACRO = re.compile(r"[A-Za-z_]\w*(?:\([\w, .]*\))?(?:=.*)?")
_STANDARD = re.compile(r"(?:c|gnu)\+\+(17|20)")
_CPP20 = re.compile(
    r"C\+\+20|\b(?:concept|requires|consteval|constinit)\b|"
    r"\bstd::(?:integral|floating_point|same_as|convertible_to|invocable|span|bit_cast|popcount|numbers|ranges|remove_cvref|type_identity)"
)
_LIBRARY = re.compile(r":?[\w.+-]+")
_DEVICE_SWITCHES = {"use-fast-math": "--use_fast_math", "extra-device-vectorization": "--extra-device-vectorization"}
_DEVICE_VALUES = {
    **dict.fromkeys(("ftz", "prec-div", "prec-sqrt", "fmad"), re.compile("true|false")),
    "maxrregcount": re.compile(r"[1-9]\d{0,2}"),
}
_PTXAS = re.compile(
    r"-v|--verbose|-O[0-4]|-dlcm=(?:ca|cg|cs|lu|cv)|-dscm=(?:wb|cg|cs|wt)|--warn-on-(?:spills|local-memory-usage)|-warn-(?:spills|lmem-usage)"
)


@dataclass(slots=True, kw_only=True)
class RequestedFlags:
    """Flags of a submission that count. device: words for nvcc; macros: a name's definition, None where it is to be undefined;
    libraries: as `-lNAME`; standard: of C++, None: the language's own."""

    standard: str | None = None
    device: list[str] = field(default_factory=list)
    macros: dict[str, str | None] = field(default_factory=dict)
    include_dirs: list[str] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    def defines(self, defaults: Sequence[str]) -> tuple[str, ...]:
        """A compiler's own macros, without those that the submission takes back, and the submission's."""
        remaining = (macro for macro in defaults if macro.partition("=")[0] not in self.macros)
        return (*remaining, *filter(None, self.macros.values()))

    def headers(self, way: Headers) -> Headers:
        """A way to answer includes, with the submission's standard, macros and directories."""
        standard, directories = self.standard or way.standard, (*way.include_dirs, *self.include_dirs)
        defines, requested = self.defines(way.defines), frozenset(self.macros)
        return replace(way, standard=standard, defines=defines, include_dirs=directories, requested_macros=requested)

    def remarks(self, asker: str) -> tuple[str, ...]:
        """The sentence on the flags that are not used, if there are any."""
        return (f"{asker}: {', '.join(dict.fromkeys(self.unused))}: {NOT_USED}",) if self.unused else ()


def read(
    *, host: Sequence[str], device: Sequence[str], linker: Sequence[str], emulated: bool, is_own: Callable[[Path], bool]
) -> RequestedFlags:
    """Sort flags of g++, nvcc and the linker. is_own: whether a directory is one that the submission made."""
    reader = _Reader(emulated=emulated, is_own=is_own)
    for flags, take in ((host, reader.host), (device, reader.device), (linker, reader.linker)):
        for flag, value in _flags(flags, reader):
            take(flag, value)
    return reader.flags


def directed(texts: Iterable[str], *, emulated: bool) -> RequestedFlags:
    """Those of the directives in sources, which are nvcc's."""
    device = [value[:DIRECTIVE_LIMIT] for text in texts for value in directives_of(text, "flags")]
    return read(host=(), device=device, linker=(), emulated=emulated, is_own=lambda directory: False)


def with_standard(log: str, standard: str) -> str:
    """A compiler's log, which names the flag at its first error where that is in C++20 and the sources are compiled as C++17."""
    lines = log.split("\n")
    at = next((number for number, line in enumerate(lines) if re.search(r"\berror\b", line)), None)
    if standard == "17" and at is not None and _CPP20.search("\n".join(lines[at : at + 2])):  # what it says, and the line that it quotes
        lines[at] += "; this is compiled as C++17, and for C++20 a line // grader: flags=-std=c++20 is needed"
    return "\n".join(lines)


def _flags(texts: Sequence[str], reader: _Reader) -> Iterator[tuple[str, str | None]]:
    """Each flag as one writes it, and its value where that is a word of its own."""
    words: list[str] = []
    for text in texts:
        try:
            words += shlex.split(text)
        except ValueError:
            reader.unused(text)
    at = 0
    while at < len(words):
        flag, following = words[at], words[at + 1] if at + 1 < len(words) else None
        alone = "=" in flag or following is None or (following.startswith("-") and _name(flag) not in _TAKES_WORD)
        yield (flag, None) if alone else (flag, following)
        at += 1 if alone else 2


def _name(flag: str) -> str:
    """A flag without its dashes and value; nvcc takes one dash for two."""
    return flag.lstrip("-").partition("=")[0].replace("_", "-")


class _Reader:
    def __init__(self, *, emulated: bool, is_own: Callable[[Path], bool]) -> None:
        self.flags = RequestedFlags()
        self._emulated, self._is_own = emulated, is_own

    def unused(self, flag: str, value: str | None = None) -> None:
        self.flags.unused.append(flag if value is None else f"{flag} {value}")

    def host(self, flag: str, value: str | None) -> None:
        """A flag of g++."""
        name = _name(flag)
        if flag[:2] in ("-D", "-U", "-I"):
            text, value = (flag[2:], None) if len(flag) > 2 else (value or "", value)
            if flag[1] == "I" and self._is_own(Path(text)):
                self.flags.include_dirs.append(text)
            elif flag[1] == "I" or not text.isprintable() or _MACRO.fullmatch(text) is None:
                self.unused(flag, value)
            else:
                self.flags.macros[re.split(r"[(=]", text)[0]] = text if flag[1] == "D" else None
        elif name == "std":
            if (standard := _STANDARD.fullmatch(flag.partition("=")[2] or value or "")) is None:
                self.unused(flag, value)
            else:
                self.flags.standard = standard[1]
        elif name not in {"O2" if self._emulated else "O3", *_ALWAYS, *_QUIET} and _WARNING.fullmatch(flag) is None:
            self.unused(flag, value)

    def device(self, flag: str, value: str | None) -> None:
        """A flag of nvcc."""
        name = _name(flag)
        setting = flag.partition("=")[2] if "=" in flag else value
        if name in ("Xcompiler", "compiler-options") and setting is not None:
            for option in setting.split(","):
                self.host(option, None)
        elif (words := _device_words(name, setting)) is not None:
            if not self._emulated:
                self.flags.device += words
            elif set(words) != {"-Xptxas=-v"}:
                self.unused(flag, value)
        else:
            self.host(flag, value)

    def linker(self, flag: str, value: str | None) -> None:
        """A flag of the linker."""
        library = (value or "") if flag == "-l" else flag.removeprefix("-l") if flag.startswith("-l") else ""
        if self._emulated or _LIBRARY.fullmatch(library) is None:
            self.unused(flag, value)
        else:
            self.flags.libraries.append(f"-l{library}")


def _device_words(name: str, value: str | None) -> tuple[str, ...] | None:
    """nvcc's words for a flag that chooses how device code is optimised; None for any other."""
    if name in _DEVICE_SWITCHES and value is None:
        return (_DEVICE_SWITCHES[name],)
    if name in _DEVICE_VALUES and value is not None and _DEVICE_VALUES[name].fullmatch(value) is not None:
        return (f"--{name}={value}",)
    if name in ("Xptxas", "ptxas-options") and value is not None and all(_PTXAS.fullmatch(option) for option in value.split(",")):
        return tuple(f"-Xptxas={option}" for option in value.split(","))
    return None
