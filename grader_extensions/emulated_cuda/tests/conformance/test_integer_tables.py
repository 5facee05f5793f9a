"""The sums of integer_tables.cu, from a second definition of each function: by lanes of Python's integers, as CUDA's manual words them."""

import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import numpy as np

HERE = Path(__file__).parent
EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x5555, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFF7F, 0xFF80, 0xFFFE, 0xFFFF)
Words = Any  # an array of integers
SATURATED = {"ss": True, "us": False}
COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "ge", "gt", "le", "lt")}


def operands() -> tuple[Words, Words, Words]:
    """All pairs of bytes in each of the four lanes, then all quadruples of edges in the halfwords."""
    i, edges = np.arange(131072), np.array(EDGES)
    a, b = np.zeros_like(i), np.zeros_like(i)
    for lane in range(4):
        pair = (i * 40503 * (2 * lane + 1) + lane * 12345) & 0xFFFF
        assert len(set(pair[:65536].tolist())) == 65536
        a |= (pair & 0xFF) << 8 * lane
        b |= (pair >> 8) << 8 * lane
    a = np.where(i < 65536, a, edges[i & 15] | edges[i >> 8 & 15] << 16)
    b = np.where(i < 65536, b, edges[i >> 4 & 15] | edges[i >> 12 & 15] << 16)
    return a, b, ((a ^ b) * 2654435761 + i) & 0xFFFFFFFF


def number(bits: Words, width: int, signed: bool) -> Words:
    """The number that the low bits are."""
    bits = bits & ((1 << width) - 1)
    return np.where(bits >> (width - 1) == 1, bits - (1 << width), bits) if signed else bits


def saturated(value: Words, width: int, signed: bool) -> Words:
    return np.clip(value, -(1 << width - 1), (1 << width - 1) - 1) if signed else np.clip(value, 0, (1 << width) - 1)


def by_lane(width: int, signed: bool, function: Callable[..., Words], *words: Words) -> Words:
    """The word of the function's results in each lane."""
    result = 0
    for at in range(0, 32, width):
        result = result | (function(*(number(word >> at, width, signed) for word in words)) & ((1 << width) - 1)) << at
    return result


def half_away_from_zero(total: Words) -> Words:
    return np.sign(total) * ((np.abs(total) + 1) // 2)


def video(name: str, a: Words, b: Words) -> Words:
    """A function of halfwords (2) or bytes (4)."""
    width = 32 // int(name[-1])
    word = name[3:-1]
    if comparison := re.fullmatch(r"(cmp|set)(eq|ne|ge|gt|le|lt)([su]?)", word):
        compare, yes = COMPARISONS[comparison[2]], -1 if comparison[1] == "cmp" else 1
        return by_lane(width, comparison[3] == "s", lambda x, y: compare(x, y) * yes, a, b)
    if sad := re.fullmatch(r"sad([su])", word):
        signed = sad[1] == "s"
        return sum(np.abs(number(a >> at, width, signed) - number(b >> at, width, signed)) for at in range(0, 32, width))
    arithmetic = re.fullmatch(r"(abs|neg|add|sub)(ss|us)?", word)
    if arithmetic:
        signed = arithmetic[2] != "us"

        def calculate(x: Words, y: Words) -> Words:
            value = {"abs": abs(x), "neg": -x, "add": x + y, "sub": x - y}[arithmetic[1]]
            return saturated(value, width, signed) if arithmetic[2] else value

        return by_lane(width, signed, calculate, a, b)
    functions: dict[str, Callable[[Words, Words], Words]] = {
        "avgs": lambda x, y: half_away_from_zero(x + y),
        "avgu": lambda x, y: (x + y + 1) // 2,
        "haddu": lambda x, y: (x + y) // 2,
        "max": np.maximum,
        "min": np.minimum,
        "absdiff": lambda x, y: np.abs(x - y),
    }
    function = functions.get(word) or functions[word[:-1]]
    return by_lane(width, word.endswith("s"), function, a, b)


def dynamic(name: str, a: Words, b: Words, c: Words) -> Words:
    """A function for dynamic programming; the choices are told in the low bits."""
    form = re.fullmatch(r"__vi(add|b|)(max|min)(3?)_([su])(32|16x2)(_relu)?", name)
    assert form is not None
    width, signed, extreme = int(form[5][:2]), form[4] == "s", np.maximum if form[2] == "max" else np.minimum

    def calculate(x: Words, y: Words, z: Words) -> Words:
        value = extreme(number(x + y, width, signed), z) if form[1] == "add" else extreme(x, y)
        value = extreme(value, z) if form[3] else value
        return np.maximum(value, 0) if form[6] else value

    chosen = by_lane(width, signed, calculate, a, b, c)
    if form[1] != "b":
        return chosen
    compare = np.greater_equal if form[2] == "max" else np.less_equal
    first = [compare(number(a >> at, width, signed), number(b >> at, width, signed)) * 1 for at in range(0, 32, width)]
    return chosen * 4 + (first[0] if len(first) == 1 else first[1] * 2 + first[0])


def nth_set(mask: int, base: int, n: int) -> int:
    """The place of a set bit, as the PTX manual has it."""
    places = [at for at in range(32) if mask >> at & 1]
    if n == 0:
        return base if base in places else 0xFFFFFFFF
    ahead = [at for at in places if at >= base] if n > 0 else [at for at in reversed(places) if at <= base]
    return ahead[abs(n) - 1] if abs(n) <= len(ahead) else 0xFFFFFFFF


def dot(a: Words, b: Words, c: Words, *, width: int, first: int, signed: bool) -> Words:
    parts = range(32 // width)
    return c + sum(number(a >> width * k, width, signed) * number(b >> 8 * (first + k), 8, signed) for k in parts)


def scalar(name: str, a: Words, b: Words, c: Words) -> Words:
    """A function of whole words."""
    if name.startswith("dp"):
        width, first = (8, 0) if name.startswith("dp4a") else (16, 2 if "hi" in name else 0)
        return dot(a, b, c, width=width, first=first, signed=name.endswith("s"))
    lists = [x.tolist() for x in (a, b, c)]
    signed_both = [(x - (x >> 31 << 32) << 32 | y, y - (y >> 31 << 32) << 32 | z) for x, y, z in zip(*lists, strict=True)]
    both = [(x << 32 | y, y << 32 | z) for x, y, z in zip(*lists, strict=True)]

    def folded(values: Any) -> Words:
        return np.array([(value ^ (value & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF for value in values])

    functions: dict[str, Callable[[], Words]] = {
        "umin": lambda: np.minimum(a, b),
        "umax": lambda: np.maximum(a, b),
        "llmin": lambda: folded(map(min, signed_both)),
        "llmax": lambda: folded(map(max, signed_both)),
        "ullmin": lambda: folded(map(min, both)),
        "ullmax": lambda: folded(map(max, both)),
        "uhadd": lambda: (a + b) // 2,
        "urhadd": lambda: (a + b + 1) // 2,
        "usad": lambda: np.abs(a - b) + c,
        "funnelshift_lc": lambda: np.array([(y << 32 | x) << min(z & 63, 32) >> 32 & 0xFFFFFFFF for x, y, z in zip(*lists, strict=True)]),
        "funnelshift_rc": lambda: np.array([(y << 32 | x) >> min(z & 63, 32) & 0xFFFFFFFF for x, y, z in zip(*lists, strict=True)]),
        "fns": lambda: np.array([nth_set(x, y & 31, z % 67 - 33) for x, y, z in zip(*lists, strict=True)]),
    }
    return functions[name]()


def test_the_sums_are_those_of_a_second_definition() -> None:
    """Of every function of the program, and of no other."""
    a, b, c = operands()
    i = np.arange(1, 131073, dtype=np.uint64)
    weight = i * np.uint64(0x9E3779B97F4A7C15)
    weight ^= weight >> np.uint64(29)
    for line in (HERE / "integer_tables.expected").read_text().splitlines():
        name, expected = line.split()
        if name.startswith("__vi"):
            values = dynamic(name, a, b, c)
        else:
            values = video(name, a, b) if name.startswith("__v") else scalar(name, a, b, c)
        total = int((np.asarray(values & 0xFFFFFFFF).astype(np.uint64) * weight).sum())
        assert f"{total:016x}" == expected, name
