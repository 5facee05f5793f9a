"""Reads the sources beside it: torch extensions as people write them, and what to call in each.

A source starts with `// extension: headers=light` (or `full`: one that must fall back), then a line `// call: forward(...)` for every
call, `// raises: forward(...)` for one that must raise. Arguments are literals and tensors: `float32[3, 4]` is random; `% n` makes its
values lie from 0 up to n, `.T` transposes it. A directory is one extension of several files; the file with these lines comes first.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

HERE = Path(__file__).parent
SUFFIXES = {".cu", ".cpp"}
HEADERS = ("light", "full")
FIRST = "// extension: headers="
CALLS = {"// call: ": False, "// raises: ": True}
DTYPES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A random tensor."""

    dtype: str
    shape: tuple[int, ...]
    below: int | None = None
    transposed: bool = False

    def __mod__(self, below: int) -> "Drawn":
        return replace(self, below=below)

    @property
    def T(self) -> "Drawn":
        return replace(self, transposed=True)


Argument: TypeAlias = "Drawn | bool | int | float | str | list[Argument] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a function of the module."""

    text: str
    function: str
    arguments: tuple[Argument, ...]
    keywords: dict[str, Argument]
    raises: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """A source and its expectations. files: by path, the one with the expectations first."""

    name: str
    files: dict[str, str]
    headers: str
    calls: tuple[Call, ...]


class _Dtype(str):
    def __getitem__(self, shape: tuple[int, ...] | int) -> Drawn:  # type: ignore[override]
        sizes = shape if isinstance(shape, tuple) else (shape,)
        assert math.prod(sizes) < 1_000_000
        return Drawn(dtype=str(self), shape=sizes)


class _Names(dict[str, object]):
    """Each dtype, and a function that takes down how it is called for any other name."""

    def __missing__(self, name: str) -> object:
        return _Dtype(name) if name in DTYPES else lambda *arguments, **keywords: (name, arguments, keywords)


def load(name: str) -> Extension:
    """Read one extension by its name."""
    place = next(path for path in _places() if path.stem == name)
    paths = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    texts = {str(path.relative_to(place if place.is_dir() else HERE)): path.read_text("utf-8") for path in paths}
    files = dict(sorted(texts.items(), key=lambda item: not item[1].startswith(FIRST)))
    headers, calls = expectations(next(iter(files.values())))
    return Extension(name=name, files=files, headers=headers, calls=calls)


def names() -> list[str]:
    """All extensions there are."""
    return sorted(path.stem for path in _places())


def _places() -> list[Path]:
    return [path for path in HERE.iterdir() if path.suffix in SUFFIXES or (path / "binding.cpp").exists()]


def expectations(text: str) -> tuple[str, tuple[Call, ...]]:
    """Return the expectations in the first lines of a source."""
    first, *rest = text.splitlines()
    headers = first.removeprefix(FIRST)
    assert headers in HEADERS, f"line 1 is {first!r}; write '{FIRST}light' or '{FIRST}full'"
    calls = []
    for line in rest:
        start = next((start for start in CALLS if line.startswith(start)), None)
        if start is None:
            break
        call = line.removeprefix(start)
        function, arguments, keywords = eval(call, {"__builtins__": {}}, _Names())
        calls.append(Call(text=call, function=function, arguments=arguments, keywords=keywords, raises=CALLS[start]))
    assert calls, "line 2 names no call; write '// call: forward(float32[3])'"
    return headers, tuple(calls)
