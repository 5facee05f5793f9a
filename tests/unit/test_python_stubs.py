"""Stand-ins for what is not installed: plotting libraries when a submission is imported, and the CUDA runtime of Numba's simulator."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from sandbox.languages import python_stubs

MISSING = [name for name in sorted(python_stubs.PLOTTING) if importlib.util.find_spec(name) is None]
needs_missing = pytest.mark.skipif(not MISSING, reason="all plotting libraries are installed")


@pytest.fixture
def remarks():
    """Stubs, for one test."""
    messages: list[str] = []
    python_stubs.install("", messages.append)
    yield messages
    sys.meta_path.pop()
    for name in [name for name in sys.modules if name.partition(".")[0] in MISSING]:
        del sys.modules[name]


def imported(text: str) -> dict[str, object]:
    """Return what a submission has after its import; LIBRARY stands for one that is not installed."""
    names: dict[str, object] = {}
    exec(compile(text.replace("LIBRARY", MISSING[0]), "/tmp/submission/kernel.py", "exec"), names)
    return names


@needs_missing
def test_without_stubs_the_library_is_missing():
    """The control."""
    with pytest.raises(ModuleNotFoundError):
        imported("import LIBRARY")


@needs_missing
def test_a_submission_may_plot(remarks):
    """In the ways that plots begin with, and one remark says that nothing is drawn."""
    imported(
        """
import LIBRARY
import LIBRARY.pyplot as plt
from LIBRARY import graph_objects
figure, axes = plt.subplots(1, 2)
axes[0].plot([1, 2], label="x")
plt.rcParams["font.size"] = 12
with plt.style.context("dark"):
    figure.savefig("x.png")
frame = LIBRARY.DataFrame({"a": [1]})
print(frame["a"].mean(), *frame)
def report(rows: LIBRARY.DataFrame) -> None: ...
"""
    )
    assert remarks == [f"{MISSING[0]} is not installed here: what it is asked for is not done"]


@needs_missing
def test_an_installed_package_that_can_do_without_is_not_deceived(remarks):
    """Packages ask whether a library is there; only the submission's own imports are answered."""
    text = f"try:\n    import {MISSING[0]}\nexcept ImportError:\n    found = False\nelse:\n    found = True\n"
    for path, is_found in ((importlib.util.__file__.replace("importlib/util.py", "x.py"), False), ("/tmp/submission/kernel.py", True)):
        names: dict[str, object] = {}
        exec(compile(text, path, "exec"), names)
        assert names["found"] is is_found
