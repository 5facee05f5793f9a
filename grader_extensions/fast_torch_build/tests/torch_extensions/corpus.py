"""Reads the sources beside it: torch extensions as people write them, and what to call in each.

A source starts with `// extension: headers=light` (or `full`: one that must fall back), then a line `// call: forward(...)` for every
call, `// raises: forward(...)` for one that must raise. Arguments are literals and tensors: `float32[3, 4]` is random; `% n` makes its
values lie from 0 up to n, `.T` transposes it. A directory is one extension of several files; the file with these lines comes first.
"""

import ast
import math
from dataclasses import dataclass
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


Argument: TypeAlias = "Drawn | bool | int | float | str | list[Argument] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a function of the module."""

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


class BadLine(Exception):
    """A line of expectations that can't be read."""


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
    """What the first lines of a source say."""
    first, *rest = text.splitlines()
    headers = first.removeprefix(FIRST)
    if headers not in HEADERS:
        raise BadLine(f"line 1 is {first!r}; write '{FIRST}light' or '{FIRST}full'")
    calls = []
    for line in rest:
        start = next((start for start in CALLS if line.startswith(start)), None)
        if start is None:
            break
        calls.append(_call(line.removeprefix(start), raises=CALLS[start]))
    if not calls:
        raise BadLine("line 2 names no call; write '// call: forward(float32[3])'")
    return headers, tuple(calls)


def _call(text: str, *, raises: bool) -> Call:
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise BadLine(f"{text!r} is no call; write 'forward(float32[3], 2)'") from None
    match node:
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=keywords):
            named = {keyword.arg: _argument(keyword.value) for keyword in keywords if keyword.arg is not None}
            return Call(text=text, function=function, arguments=tuple(map(_argument, arguments)), keywords=named, raises=raises)
    raise BadLine(f"{text!r} is no call; write 'forward(float32[3], 2)'")


def _argument(node: ast.expr) -> Argument:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=elements):
            return [_argument(element) for element in elements]
    return _drawn(node)


def _drawn(node: ast.expr) -> Drawn:
    below, transposed = None, False
    match node:
        case ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant(value=int() as limit)):
            node, below = left, limit
    match node:
        case ast.Attribute(value=value, attr="T"):
            node, transposed = value, True
    match node:
        case ast.Subscript(value=ast.Name(id=dtype), slice=size) if dtype in DTYPES:
            shape = ast.literal_eval(size)
            shape = shape if isinstance(shape, tuple) else (shape,)
            if math.prod(shape) < 1_000_000:
                return Drawn(dtype=dtype, shape=shape, below=below, transposed=transposed)
    raise BadLine(f"{ast.unparse(node)!r} is no argument; write a literal or a tensor such as 'float32[3, 4]'")
