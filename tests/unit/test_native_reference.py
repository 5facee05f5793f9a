"""The reference of a native problem: how it is called, and what the judge makes of its answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.formats import native
from sandbox.judge import ReferenceFailed
from tests import fakes
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.references import load_task
    from sandbox.judge.trial import expected


def loaded(tmp_path, body, dtype="float32"):
    directory = fakes.write_problem(tmp_path)
    (directory / "reference.py").write_text(f"import torch\n\n\ndef reference(a, n):\n    return {body}\n")
    spec = native.load(directory).spec
    return load_task(replace(spec, outputs=tuple(replace(tensor, dtype=dtype) for tensor in spec.outputs)), "cpu")


def test_the_size_of_an_axis_is_an_int(tmp_path):
    """Though it travels as a tensor; a baseline gives it as an int."""
    task = loaded(tmp_path, "a[:n] * isinstance(n, int)")
    for size in (torch.tensor(3), 3):
        assert task.reference([torch.ones(5), size])[0].tolist() == [1.0, 1.0, 1.0]


def test_an_answer_in_float8_is_known_before_it_is_rounded(tmp_path):
    """The controls: another dtype, and a reference that rounds, which would hide how far a kernel may be off."""
    task = loaded(tmp_path, "a * 1.0625", "float8_e4m3fn")
    inputs = [torch.ones(2), torch.tensor(2)]
    assert task.reference(inputs)[0].dtype == torch.float8_e4m3fn and task.reference64 is not None
    assert expected(task.reference64, inputs, task.spec, dtype=torch.float64)[0].tolist() == [1.0625, 1.0625]
    assert loaded(tmp_path, "a").reference64 is None
    with pytest.raises(ReferenceFailed, match=r"'c' is of torch.float8_e4m3fn already; return it before it is rounded, as float32"):
        expected(loaded(tmp_path, "a.to(torch.float8_e4m3fn)", "float8_e4m3fn").reference, inputs, task.spec)
