"""Integer arithmetic over a problem's axes, as problem.toml writes it: "4 * (2 * n * n + n)".  Parsed, never executed."""

from __future__ import annotations

import ast
from collections.abc import Mapping

LENGTH_LIMIT = 200
LARGEST_EXPONENT = 8
LARGEST = 2**63 - 1  # of a result; on the way there may be more
_BITS_LIMIT = 256


class ExpressionInvalid(ValueError):
    """An expression that has no value; the message says why."""


def evaluate(text: str, axes: Mapping[str, int], *, with_signs: bool = False) -> int:
    """The value at these axes: whole, not negative, and at most LARGEST. with_signs: it may hold signs too, and `/` without remainder."""
    if len(text) > LENGTH_LIMIT:
        raise ExpressionInvalid(f"is longer than {LENGTH_LIMIT} characters; write it shorter")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        raise ExpressionInvalid(f"{text!r} is not an expression; write one such as '4 * (n * n + n)'") from None
    value = _value(tree.body, axes, with_signs)
    if not 0 <= value <= LARGEST:
        raise ExpressionInvalid(f"{text!r} is {value if value < 0 else 'over 2 ** 63'} at {dict(axes)}; it has to be from 0 to 2 ** 63 - 1")
    return value


def _value(node: ast.expr, axes: Mapping[str, int], with_signs: bool) -> int:
    match node:
        case ast.Constant(value=int() as value) if type(value) is int:
            return _bounded(value)
        case ast.Name(id=name):
            if name not in axes:
                raise ExpressionInvalid(f"uses {name!r}, which is not an axis; the axes are {', '.join(sorted(axes))}")
            return axes[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand) if with_signs:
            return _value(operand, axes, with_signs) * (-1 if isinstance(sign, ast.USub) else 1)
        case ast.BinOp(left=left, op=operator, right=right):
            first, second = _value(left, axes, with_signs), _value(right, axes, with_signs)
            if isinstance(operator, ast.Div) and with_signs:
                if second == 0 or first % second:
                    raise ExpressionInvalid(f"divides {first} by {second}, which is not a whole number; write '//', or fix it")
                operator = ast.FloorDiv()
            return _bounded(_apply(operator, first, second))
    raise ExpressionInvalid(f"holds {ast.unparse(node)!r}; it may hold axes, whole numbers, + - * // % ** and parentheses")


def _apply(operator: ast.operator, first: int, second: int) -> int:
    match operator:
        case ast.Add():
            return first + second
        case ast.Sub():
            return first - second
        case ast.Mult():
            return first * second
        case ast.FloorDiv() | ast.Mod():
            if second == 0:
                raise ExpressionInvalid("divides by 0 at one of the workloads")
            return first // second if isinstance(operator, ast.FloorDiv) else first % second
        case ast.Pow():
            if not 0 <= second <= LARGEST_EXPONENT:
                raise ExpressionInvalid(f"raises to the power of {second}; an exponent is from 0 to {LARGEST_EXPONENT}")
            return int(first**second)
    raise ExpressionInvalid("uses another operator than + - * // % **")


def _bounded(value: int) -> int:
    # Each step is held small, so that a power of a power of a power takes no time either.
    if value.bit_length() > _BITS_LIMIT:
        raise ExpressionInvalid(f"passes through a value of more than {_BITS_LIMIT} bits; write it another way")
    return value
