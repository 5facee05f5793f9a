"""Problem files that fuzzing has found: each is refused in a sentence, or taken and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.errors import ProblemInvalid
from grader.formats import native

ROOT = Path(__file__).parents[2]
NATIVE = (ROOT / "kernels_examples" / "vector_add" / "problem.toml").read_text()
NATIVE_FILES = {
    "nested too deep": "a = " + "[" * 2000,
    "a number of 5000 digits": "a = " + "1" * 5000,
    "a negative size": NATIVE.replace('shape = ["n"]', "shape = [-1]"),
    "a size beyond every device": NATIVE.replace('shape = ["n"]', f"shape = [{10**30}]"),
    "nine axes of a tensor": NATIVE.replace('shape = ["n"]', f"shape = {[1] * 9}"),
    "an axis twice": NATIVE.replace('axes = ["n"]', 'axes = ["n", "n"]'),
    "a formula that cannot be shown": NATIVE.replace('moved_bytes = "', f'moved_bytes = "{"-" * 190}'),
}


@pytest.mark.parametrize("text", NATIVE_FILES.values(), ids=NATIVE_FILES)
def test_a_native_problem_is_refused(tmp_path: Path, text: str) -> None:
    """Other exceptions came of some; the others were taken, and broke the judge's layout later."""
    (tmp_path / "reference.py").touch()
    (tmp_path / "problem.toml").write_text(NATIVE)
    native.load(tmp_path)  # the control
    assert text != NATIVE
    (tmp_path / "problem.toml").write_text(text)
    with pytest.raises(ProblemInvalid):
        native.load(tmp_path)
