"""Keeps the collection of tests cheap: without torch, and without the garbage collector. A plugin: conftest.py loads it.

Importing torch costs every process two seconds of CPU, and most tests never touch it. A test module that needs torch, or a module that
imports torch, says so in a block that is left out while tests are collected, and executed before its first test is set up:

    from tests.collection import AFTER_COLLECTION

    if AFTER_COLLECTION:
        import torch

        from sandbox.judge.lane import judge

So tests and fixtures can use these names. What Python evaluates on import can not: parameters, decorators, default values, constants of
the module. Annotations can, with `from __future__ import annotations`. A module from which others import tests' helpers while they are
collected has no such block: it imports torch in functions.
"""

from __future__ import annotations

import ast
import fcntl
import gc
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

AFTER_COLLECTION = True  # False only while tests are collected
HEAVY = ("numba", "numpy", "torch", "triton")
LOADED = pytest.StashKey[list[str]]()  # of these, after the collection
_COLLECTED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Leave out what needs torch; and collect without the garbage collector, which finds next to nothing and takes half of the time.
    What was collected lasts as long as the process, so it need not be looked at again either."""
    global AFTER_COLLECTION
    AFTER_COLLECTION = False
    gc.disable()
    try:
        with compiled_once():
            return (yield)
    finally:
        session.config.stash[LOADED] = [name for name in HEAVY if name in sys.modules]
        gc.enable()
        gc.freeze()
        AFTER_COLLECTION = True


@contextmanager
def compiled_once() -> Iterator[None]:
    """Let the first worker of a run compile all modules, which takes two thirds of a collection; the others wait, and load them."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    with (Path(os.environ["GRADER_TEST_RUN_DIR"]) / "compiled").open("a") as compiled:
        fcntl.flock(compiled, fcntl.LOCK_EX)
        if os.fstat(compiled.fileno()).st_size > 0:
            fcntl.flock(compiled, fcntl.LOCK_UN)
        yield
        compiled.write("by a worker")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first test of a module, import what it left out."""
    collector = item.getparent(pytest.Module)
    if collector is not None and _COLLECTED not in collector.stash:
        execute_deferred(collector.obj)
        collector.stash[_COLLECTED] = True


def execute_deferred(module: ModuleType) -> None:
    """Execute the blocks that the module left out when it was imported."""
    if getattr(module, "AFTER_COLLECTION", True) or module.__file__ is None:
        return
    # CPython 3.11 raises "AST constructor recursion depth mismatch" where a finaliser logs a traceback while source is parsed.
    gc.disable()
    try:
        tree = ast.parse(Path(module.__file__).read_bytes())
    finally:
        gc.enable()
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "AFTER_COLLECTION":
            exec(compile(ast.Module(body=statement.body, type_ignores=[]), module.__file__, "exec", dont_inherit=True), vars(module))
