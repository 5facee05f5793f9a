"""Messages about an import that found no module."""

from __future__ import annotations

import pytest

from sandbox.builder.python_import import missing_module
from sandbox.compilers.steps import IMPORT_FAILED, UNSUPPORTED

MODULES = ("submission", "kernels", "pkg", "pkg.more", "task", "utils")
FILES = f"the files can be imported as {', '.join(MODULES)}"


@pytest.mark.parametrize("name", ["cutlass", "tilelang", "cuda.tile", "helion", "jax", "scipy.special", "kernel_tuner", "tvm"])
def test_a_package_is_unsupported(name: str) -> None:
    code, text = missing_module(ModuleNotFoundError("no", name=name), MODULES) or (0, "")
    assert code == UNSUPPORTED
    assert text == f"this grader does not have the Python module '{name}'; if it is a file of yours, submit it too"


@pytest.mark.parametrize(
    ("name", "meant"), [("kernles", "kernels"), ("kernel", "kernels"), ("tasks", "task"), ("util", "utils"), ("pkg.mroe", "pkg.more")]
)
def test_a_misspelt_file_is_not(name: str, meant: str) -> None:
    code, text = missing_module(ModuleNotFoundError("no", name=name), MODULES) or (0, "")
    assert code == IMPORT_FAILED
    assert text == f"no module '{name}'; {FILES}; did you mean '{meant}'?"


def test_a_part_of_a_file_and_the_reference_are_told_apart() -> None:
    """Nothing is meant; and an exception without a name says nothing."""
    deep = missing_module(ModuleNotFoundError("no", name="utils.deep"), MODULES)
    assert deep == (IMPORT_FAILED, f"no module 'utils.deep'; {FILES}; did you mean 'utils'?")
    code, text = missing_module(ModuleNotFoundError("no", name="reference"), MODULES) or (0, "")
    assert code == IMPORT_FAILED and text.startswith(
        "no module 'reference': a submission is not given the reference; it can import submission"
    )
    assert missing_module(ModuleNotFoundError("no"), MODULES) is None
