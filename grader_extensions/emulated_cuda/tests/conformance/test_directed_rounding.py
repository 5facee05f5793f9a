"""The sums of directed_rounding.cu, from exact fractions."""

import math
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import isqrt, nan
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ALL_64 = (1 << 64) - 1
DIGITS = {"float": 23, "double": 52}
BIAS = {"float": 127, "double": 1023}


def hashed(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & ALL_64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & ALL_64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & ALL_64
    return x ^ x >> 31


def number(bits: int, kind: str) -> float:
    """The number of a pattern; a double holds every float."""
    return struct.unpack("<f" if kind == "float" else "<d", bits.to_bytes(4 if kind == "float" else 8, "little"))[0]


def pattern(i: int, word: int, kind: str) -> int:
    digits, bias = DIGITS[kind], BIAS[kind]
    sign, mantissa = word >> 63 << (31 if kind == "float" else 63), word & ((1 << digits) - 1)
    top = (2 * bias + 1) << digits
    edges = [0, 1, (1 << digits) - 1, 1 << digits, bias << digits, (bias << digits) + 1, top - 1, top]
    if i % 4 == 0:
        return word >> 32 if kind == "float" else word
    if i % 4 == 2:
        return sign | edges[word >> 56 & 7]
    few = mantissa >> (digits - 6) << (digits - 6)
    return sign | (bias - 16 + (word >> 56 & 31)) << digits | (mantissa if i % 4 == 1 else few)


def operands(i: int, kind: str) -> list[float]:
    values = [number(pattern(i if place == 0 else i // 4 + place, hashed(3 * i + place), kind), kind) for place in range(3)]
    if i % 8 == 5:
        values[2] = -number(result_bits("mul", values, kind, "rn"), kind)
    return values


def rounded(exact: Fraction, kind: str, direction: str, zero: bool) -> int:
    """The pattern of the number next to an exact one in a direction. zero: what the result's sign is where it is zero."""
    digits, bias = DIGITS[kind], BIAS[kind]
    sign = exact < 0 or (exact == 0 and zero)
    size, place = abs(exact), 1 - bias - digits  # of the last digit
    if size:
        place = max(place, size.numerator.bit_length() - size.denominator.bit_length() - digits - 1)
        place += size / Fraction(2) ** place >= 2 << digits
    count, rest = divmod(size / Fraction(2) ** place, 1)
    away = {"rz": False, "rd": sign, "ru": not sign, "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and count % 2 == 1)}[direction]
    count += away and rest > 0
    while count >= 2 << digits:  # it was rounded up to the next power of two
        count, place = count // 2, place + 1
    field = (place + bias + digits - 1 << digits) + count if count >= 1 << digits else count
    top = (2 * bias + 1) << digits
    if field >= top:
        field = top if away or direction == "rn" else top - 1
    return field | sign << (31 if kind == "float" else 63)


def square_root(x: Fraction) -> Fraction:
    """The root, or a fraction on the same side of every number that may be the result."""
    scale = 4**1300
    root = isqrt(x.numerator * scale * 4**80 // x.denominator)
    exact = root * root * x.denominator == x.numerator * scale * 4**80
    return (Fraction(root) + (0 if exact else Fraction(1, 2))) / 2**1380


def result_bits(operation: str, values: list[float], kind: str, direction: str) -> int:
    """The pattern of an operation's result; all NaN are one."""
    a, b, c = values
    if operation == "rcp":
        operation, a, b = "div", 1.0, a
    used = [a] if operation in ("sqrt", "float") else [a, b, c] if operation == "fma" else [a, b]
    exact: Fraction | None = None
    zero = direction == "rd"
    if all(map(math.isfinite, used)):
        x, y, z = (Fraction(value) for value in [*used, 0.0, 0.0][:3])
        negative = [math.copysign(1, value) < 0 for value in used]
        if operation == "float":
            exact, zero = x, negative[0]
        elif operation in ("add", "sub"):
            exact = x + y if operation == "add" else x - y
            if x == y == 0 and negative[0] == (negative[1] != (operation == "sub")):
                zero = negative[0]
        elif operation == "mul":
            exact, zero = x * y, negative[0] != negative[1]
        elif operation == "fma":
            exact = x * y + z
            if x * y == z == 0 and (negative[0] != negative[1]) == negative[2]:
                zero = negative[2]
        elif operation == "div" and y:
            exact, zero = x / y, negative[0] != negative[1]
        elif operation == "sqrt" and x >= 0:
            exact, zero = square_root(x), negative[0]
    if exact is not None:
        return rounded(exact, kind, direction, zero)
    special = unrounded(operation, used)
    sign = math.copysign(1, special) < 0
    top, digits = (2 * BIAS[kind] + 1) << DIGITS[kind], DIGITS[kind]
    if special != special:
        return top | ((1 << digits) - 1)
    return (top if math.isinf(special) else 0) | sign << (31 if kind == "float" else 63)


def unrounded(operation: str, used: list[float]) -> float:
    """Return the result for infinities, NaN and a division by zero: infinity, NaN, zero, or what is infinite without its finite part."""
    a, b, c = [*used, 0.0, 0.0][:3]
    if operation in ("sqrt", "float"):
        return a if a > 0 or operation == "float" else nan
    if operation == "div":
        sign = math.copysign(1, a) * math.copysign(1, b)
        if math.isinf(b) or b != b:
            return nan if math.isinf(a) or a != a or b != b else sign * 0.0
        return nan if a != a or (a == 0 and b == 0) else sign * math.inf
    small = [
        value if not math.isfinite(value) else math.copysign(value != 0, value) for value in (a, b, c)
    ]  # no finite part becomes infinite
    return {"add": a + b, "sub": a - b, "mul": small[0] * small[1], "fma": small[0] * small[1] + small[2]}[operation]


def converted(name: str, i: int, direction: str) -> int:
    """The pattern of a conversion's result."""
    source, kind = name.split("2")
    word = hashed(3 * i)
    if source == "double":
        value = operands(i, "double")[0]
        return result_bits("float", [value * 2.0**-130 if i & 32 else value, 0.0, 0.0], "float", direction)
    width = 64 if "ll" in source else 32
    whole = word >> (64 - width)
    whole -= (whole >> (width - 1) << width) if source in ("int", "ll") else 0
    return rounded(Fraction(whole >> (i & (width - 1))), kind, direction, False)


@pytest.mark.slow
def test_the_sums_are_those_of_exact_fractions() -> None:
    """Of every function of the program, for each direction."""
    lines = dict(line.split() for line in (HERE / "directed_rounding.expected").read_text().splitlines())
    weights = [hashed(i) for i in range(512)]
    numbers = {kind: [operands(i, kind) for i in range(512)] for kind in DIGITS}
    calculated: dict[str, Callable[[int, str], int]] = {}
    for letter, kind in (("f", "float"), ("d", "double")):
        for operation in ("add", "sub", "mul", "div", "rcp", "sqrt", "fma"):
            name = ("__fmaf" if letter == "f" else "__fma") if operation == "fma" else f"__{letter}{operation}"
            calculated[name] = lambda i, direction, o=operation, k=kind: result_bits(o, numbers[k][i], k, direction)  # type: ignore[misc]
    for name in ("double2float", "int2float", "uint2float", "ll2float", "ull2float", "ll2double", "ull2double"):
        calculated[f"__{name}"] = lambda i, direction, n=name: converted(n, i, direction)  # type: ignore[misc]
    assert lines.keys() == {f"{name}_{direction}" for name, direction in product(calculated, ("rn", "rd", "ru", "rz"))}
    for line, total in lines.items():
        match = re.fullmatch(r"(\w+)_(r[nduz])", line)
        assert match is not None
        patterns = (calculated[match[1]](i, match[2]) for i in range(512))
        assert f"{sum(bits * weight for bits, weight in zip(patterns, weights, strict=True)) & ALL_64:016x}" == total, line
