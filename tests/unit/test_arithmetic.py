"""Amounts are integer arithmetic over the axes, and nothing else."""

import time

import pytest

from grader.formats.arithmetic import ExpressionInvalid, evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4 * (2 * n * n + n * n)", 300),
        ("n * n * m", 75),
        ("n ** 3 // 2", 62),
        ("n * m % 4 + (n - m)", 5),
        (" 7 ", 7),
        ("n - n", 0),
    ],
)
def test_an_expression_has_its_value(text, value):
    """At n = 5 and m = 3."""
    assert evaluate(text, {"n": 5, "m": 3}) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4 *", "is not an expression"),
        ("n * k", "'k', which is not an axis; the axes are m, n"),
        ("n / 2", "another operator"),
        ("n // (m - 3)", "divides by 0"),
        ("n - 6", "is -1 at"),
        ("256 ** 8", "over 2 \\*\\* 63"),
        ("n ** 9", "an exponent is from 0 to 8"),
        ("n ** -1", "may hold"),
        ("1.5 * n", "'1.5'"),
        ("True + n", "'True'"),
        ("-n", "'-n'"),
        ("n if n else m", "may hold"),
        ("n.real", "may hold"),
        ("max(n, m)", "may hold"),
        ("lambda: n", "may hold"),
        ("(n := 3)", "may hold"),
        ("'n'", "may hold"),
        ("n << 2", "another operator"),
        ("n % (m - 3)", "divides by 0"),
        ("", "is not an expression"),
        ("n\nn", "is not an expression"),
        ("__import__('os').system('true')", "may hold"),
        ("[n for n in (1,)][0]", "may hold"),
        ("n +" * 100 + "n", "longer than"),
        ("n\0", "is not an expression"),
    ],
)
def test_what_is_no_such_expression_says_why(text, message):
    with pytest.raises(ExpressionInvalid, match=message):
        evaluate(text, {"n": 5, "m": 3})


def test_a_tower_of_powers_takes_no_time():
    """Each step is bounded, not only the result, which no machine can compute."""
    begun = time.process_time()
    with pytest.raises(ExpressionInvalid, match="bits"):
        evaluate("(" * 30 + "9" + "**8)" * 30, {})
    assert time.process_time() - begun < 1
