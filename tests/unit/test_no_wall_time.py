"""No test asserts that something took less than so many seconds, unless it is marked `timing` and runs alone: the machine may be busy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}  # and not process_time
TAKEN = """
import time
def test_it():
    begun = time.monotonic()
    {first}
    assert {second}
"""


def reads_clock(node: ast.AST) -> bool:
    """Whether it calls a clock, such as `time.monotonic()` or `asyncio.get_running_loop().time()`."""
    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call) and not one.args)
    return any(getattr(function, "attr", getattr(function, "id", "")) in CLOCKS for function in calls)


def is_duration(node: ast.AST, durations: set[str]) -> bool:
    """Whether it has a difference of a clock's readings in it, or the name of one."""
    return any(
        (isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub) and reads_clock(one))
        or (isinstance(one, ast.Name) and one.id in durations)
        for one in ast.walk(node)
    )


def names_of_durations(function: ast.AST) -> set[str]:
    assigned = [one for one in ast.walk(function) if isinstance(one, ast.Assign) and is_duration(one.value, set())]
    return {name.id for one in assigned for target in one.targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def bounded(compare: ast.Compare, durations: set[str]) -> bool:
    """Whether it says that a duration is less than something that is none."""
    sides = [compare.left, *compare.comparators]
    for left, operator, right in zip(sides, compare.ops, sides[1:], strict=False):
        if isinstance(operator, ast.Gt | ast.GtE):
            left, right = right, left
        ordered = isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        if ordered and is_duration(left, durations) and not is_duration(right, durations):
            return True
    return False


def found(text: str) -> Iterator[int]:
    """The lines of asserts on wall time, in functions without the mark."""
    if not any(f"{clock}()" in text for clock in CLOCKS):
        return  # most files have none, and a tree takes a while
    module = ast.parse(text)
    if any("mark.timing" in ast.unparse(node) for node in module.body if isinstance(node, ast.Assign)):
        return
    for function in (one for one in ast.walk(module) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)):
        if any("mark.timing" in ast.unparse(decorator) for decorator in function.decorator_list):
            continue
        durations = names_of_durations(function)
        asserts = (one for one in ast.walk(function) if isinstance(one, ast.Assert))
        compares = (one for statement in asserts for one in ast.walk(statement.test) if isinstance(one, ast.Compare))
        yield from (compare.lineno for compare in compares if bounded(compare, durations))


def test_no_test_asserts_wall_time() -> None:
    """Assert the order of events, use a clock that the test moves (tests/clock.py), processor time, or a ratio within one run."""
    paths = [*TESTS.rglob("*.py"), *TESTS.parent.glob("grader_extensions/*/tests/*.py")]
    lines = {f"{path.relative_to(TESTS.parent)}:{line}" for path in paths for line in found(path.read_text("utf-8"))}
    assert not lines, "compares wall time with a limit; a busy machine exceeds it"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("", "time.monotonic() - begun < 2"),
        ("", "0.1 <= time.perf_counter() - begun <= LIMIT_S"),
        ("", "2 > time.time() - begun and done"),
        ("took_s = time.monotonic() - begun", "done and took_s < 2"),
        ("done, took_s = 1, time.monotonic() - begun", "not took_s >= 2 or took_s < 3"),
        ("", "asyncio.get_running_loop().time() - begun < 2"),
    ],
)
def test_wall_time_is_found(first: str, second: str) -> None:
    """The control, and the mark that allows it; of the function or of the module."""
    text = TAKEN.format(first=first, second=second)
    assert list(found(text)) == [6]
    assert list(found(text.replace("def", "@pytest.mark.timing\ndef"))) == []
    assert list(found("pytestmark = [pytest.mark.slow, pytest.mark.timing]" + text)) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("", "time.process_time() - begun < 2"),
        ("", "time.monotonic() < deadline"),
        ("", "time.monotonic() - begun >= 0.1"),
        ("short, long = time.monotonic() - begun, time.monotonic() - begun", "short < 0.5 * long"),
    ],
)
def test_what_a_busy_machine_keeps_is_not(first: str, second: str) -> None:
    assert list(found(TAKEN.format(first=first, second=second))) == []
