"""No test asserts that something took less than so many seconds, unless it is marked `timing` and runs alone: the machine may be busy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}  # and not process_time
TWO_READINGS = """
import time
def test_it():
    begun = time.monotonic()
    {first}
    assert {second}
"""


def reads_clock(node: ast.AST) -> bool:
    """Return whether the node calls a clock, such as `time.monotonic()` or `asyncio.get_running_loop().time()`."""
    calls = (call.func for call in ast.walk(node) if isinstance(call, ast.Call) and not call.args)
    return any(getattr(function, "attr", getattr(function, "id", "")) in CLOCKS for function in calls)


def is_duration(node: ast.AST, durations: set[str]) -> bool:
    """Return whether the node holds a difference of a clock's readings, or the name of one."""
    return any(
        (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) and reads_clock(part))
        or (isinstance(part, ast.Name) and part.id in durations)
        for part in ast.walk(node)
    )


def names_of_durations(function: ast.AST) -> set[str]:
    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and is_duration(node.value, set())]
    return {name.id for node in assigned for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def bounded(compare: ast.Compare, durations: set[str]) -> bool:
    """Return whether the node says that a duration is less than something that is none."""
    sides = [compare.left, *compare.comparators]
    for smaller, operator, larger in zip(sides, compare.ops, sides[1:], strict=False):
        if isinstance(operator, ast.Gt | ast.GtE):
            smaller, larger = larger, smaller
        ordered = isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        if ordered and is_duration(smaller, durations) and not is_duration(larger, durations):
            return True
    return False


def wall_time_asserts(text: str) -> Iterator[int]:
    """The lines of asserts on wall time, in functions without the mark."""
    if not any(f"{clock}()" in text for clock in CLOCKS):
        return  # most files have none, and a tree takes a while
    module = ast.parse(text)
    if any("mark.timing" in ast.unparse(node) for node in module.body if isinstance(node, ast.Assign)):
        return
    for function in (definition for definition in ast.walk(module) if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)):
        if any("mark.timing" in ast.unparse(decorator) for decorator in function.decorator_list):
            continue
        durations = names_of_durations(function)
        asserts = (statement for statement in ast.walk(function) if isinstance(statement, ast.Assert))
        compares = (comparison for statement in asserts for comparison in ast.walk(statement.test) if isinstance(comparison, ast.Compare))
        yield from (compare.lineno for compare in compares if bounded(compare, durations))


def test_no_test_asserts_wall_time() -> None:
    """Assert the order of events, use a clock that the test moves (tests/clock.py), processor time, or a ratio within one run."""
    paths = [*TESTS.rglob("*.py"), *TESTS.parent.glob("grader_extensions/*/tests/*.py")]
    lines = {f"{path.relative_to(TESTS.parent)}:{line}" for path in paths for line in wall_time_asserts(path.read_text("utf-8"))}
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
    text = TWO_READINGS.format(first=first, second=second)
    assert list(wall_time_asserts(text)) == [6]
    assert list(wall_time_asserts(text.replace("def", "@pytest.mark.timing\ndef"))) == []
    assert list(wall_time_asserts("pytestmark = [pytest.mark.slow, pytest.mark.timing]" + text)) == []


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
    assert list(wall_time_asserts(TWO_READINGS.format(first=first, second=second))) == []
