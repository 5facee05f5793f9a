"""The judge's half of robust_kbench: what a kernel is called with, what it has to return, and which faults are the task's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader_extensions.formats import robust_kbench
from grader_extensions.formats.tests.tasks import KEY, MISMATCHED, OTHER_KEY, PASSED, outcomes
from grader_extensions.formats.tests.test_robust_kbench import FIXTURES
from sandbox.protocol import pytree
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.references import ReferenceFailed, Task, load_task


FORWARD, BACKWARD = "func_forward.py", "func_backward.py"
PROBLEMS = tuple(path for name in ("row_scale", "power_loss") for path in robust_kbench.members(FIXTURES / name))


def task_of(path: Path) -> Task:
    return load_task(robust_kbench.load(path).spec, "cpu")


def arguments(task: Task, workload: int = 0, key: str = KEY) -> tuple[object, ...]:
    """Return what a kernel is called with, as a runner makes it."""
    return pytree.build(task.templates[workload], task.draw(task.spec.workloads[workload], key))


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_the_right_answer_passes_and_a_wrong_one_does_not(path):
    """In every setting; zeros do not pass either, nor the right answer to other inputs."""
    task = task_of(path)
    for index, workload in enumerate(task.spec.workloads):
        assert set(outcomes(task, workload=index)) == {PASSED}
        assert MISMATCHED in outcomes(task, lambda outputs: [output * 1.1 for output in outputs], workload=index)
        assert MISMATCHED in outcomes(task, lambda outputs: [torch.zeros_like(output) for output in outputs], workload=index)
        different = task.reference(task.draw(workload, OTHER_KEY))
        assert MISMATCHED in outcomes(task, lambda outputs, different=different: different, workload=index)


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_the_same_key_gives_the_same_inputs_and_another_gives_others(path):
    """Also of a task that is made again, of the spec as it was found, as a baseline's process does."""
    task = task_of(path)
    again = load_task(task.spec, "cpu")
    assert again.spec == task.spec and again.templates == task.templates
    for workload in task.spec.workloads:
        first, second, different = task.draw(workload, KEY), again.draw(workload, KEY), task.draw(workload, OTHER_KEY)
        assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))
        pairs = zip(first, different, strict=True)
        assert not any(torch.equal(tensor, redrawn) for tensor, redrawn in pairs if tensor.is_floating_point() and tensor.numel())
        assert all(torch.equal(*pair) for pair in zip(task.reference(first), again.reference(second), strict=True))


def test_weights_are_inputs():
    """So that each trial has others; numbers lie around them."""
    task = task_of(FIXTURES / "row_scale" / FORWARD)
    assert [tensor.name for tensor in (*task.spec.inputs, *task.spec.outputs)] == ["x", "scale", "shift", "output"]
    x, scale, shift, gain = arguments(task)
    assert gain == 1.5 and (x.shape, scale.shape, shift.shape) == ((5, 64), (64,), (64,))
    (expected,) = task.reference(task.draw(task.spec.workloads[0], KEY))
    assert torch.allclose(expected, 1.5 * x * scale + shift)


def test_a_backward_kernel_returns_the_gradients_in_its_own_order():
    """They are autograd's; of the shift too, which the kernel is not given."""
    task = task_of(FIXTURES / "row_scale" / BACKWARD)
    assert [tensor.name for tensor in task.spec.inputs] == ["grad_output", "x", "scale"]
    assert [tensor.name for tensor in task.spec.outputs] == ["grad_x", "grad_scale", "grad_shift"]
    gradient, x, scale, gain, shape = arguments(task)
    assert shape == (5, 64)
    gradients = task.reference(task.draw(task.spec.workloads[0], KEY))
    for computed, expected in zip(gradients, (gain * scale * gradient, (gain * x * gradient).sum(0), gradient.sum(0)), strict=True):
        assert torch.allclose(computed, expected, atol=1e-5)


def test_settings_with_other_tensors_and_numbers_are_told_apart():
    """A tensor that a setting does not have has no elements; equal shapes with another number have a mark that no kernel is given."""
    task = task_of(FIXTURES / "power_loss" / FORWARD)
    calls = [arguments(task, index) for index in range(3)]
    assert [call[2] is None for call in calls] == [True, True, False] and [call[3] for call in calls] == [1, 2, 2]
    draws = [task.draw(workload, KEY) for workload in task.spec.workloads]
    assert [draw[2].numel() for draw in draws] == [0, 0, 40]
    for call, draw in zip(calls, draws, strict=True):
        x, targets, weight, power = call
        loss = (x - targets).abs() ** power
        assert torch.allclose(task.reference(draw)[0], (loss if weight is None else loss * weight).mean())


def test_double_precision_is_the_same_answer():
    """Of both halves, with tensors that no kernel is given."""
    for path in PROBLEMS:
        task = task_of(path)
        for workload in task.spec.workloads:
            inputs = task.draw(workload, KEY)
            wide = task.reference64([tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs])
            assert all(tensor.dtype == torch.float64 for tensor in wide)
            assert all(torch.allclose(tensor.float(), exact, atol=1e-4) for tensor, exact in zip(wide, task.reference(inputs), strict=True))


def test_an_answer_that_is_small_next_to_the_tolerance_has_to_be_right(tmp_path):
    """Zeros keep the rule there; control: with double precision it is not kept by them, and by the right answer it is."""
    path = changed(tmp_path, FORWARD, "return gain * x * scale + shift", "return 1e-5 * (gain * x * scale + shift)")
    task = task_of(path)
    assert set(outcomes(task)) == {PASSED} and set(outcomes(task, lambda outputs: [output * 1.0001 for output in outputs])) == {PASSED}
    assert outcomes(task, lambda outputs: [torch.zeros_like(output) for output in outputs]) != [PASSED]


def test_forward_may_change_its_arguments(tmp_path):
    """Then a kernel may, too; the next call sees none of it."""
    path = changed(tmp_path, FORWARD, "return gain * x * scale + shift", "return x.mul_(gain).mul_(scale).add_(shift)")
    task = task_of(path)
    assert task.scratch == (0,)
    inputs = task.draw(task.spec.workloads[0], KEY)
    first = task.reference(inputs)
    assert torch.equal(first[0], task.reference(inputs)[0])


def changed(place: Path, name: str, old: str, replacement: str) -> Path:
    """A copy of the task with one text replaced; the path of the problem."""
    directory = Path(shutil.copytree(FIXTURES / "row_scale", place / "row_scale"))
    path = directory / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, replacement))
    return path


@pytest.mark.parametrize(
    ("name", "old", "replacement", "expected"),
    [
        (FORWARD, "return fn(x, self.scale, self.shift, self.gain)", "return x", "Model.forward never calls fn"),
        (FORWARD, "self.gain = gain", "self.gain = object()", "can't be sent to a kernel: it holds a object"),
        (FORWARD, "torch.randn(columns)", "torch.randn(columns + 1)", "forward_fn in setting 'setting-0' raised RuntimeError"),
        (FORWARD, "return gain * x", "return 'no'\n    return gain * x", "forward_fn returned a str; return a tensor"),
        (FORWARD, "import torch\n", "import torch, no_such_package\n", "No module named 'no_such_package'"),
        (FORWARD, "torch.randn(rows, columns)", "torch.randn(10**12, columns)", "raised RuntimeError"),
        (FORWARD, "torch.randn(rows, columns)", "torch.randn(rows, columns, dtype=torch.complex64)", "'x' is complex64 with 2 axes"),
        (BACKWARD, "AutogradFunction.backward_fn(grad_output, x", "AutogradFunction.backward_fn(x, x", "not given the gradient"),
        (BACKWARD, "return grad_x, grad_scale, grad_shift, None", "return grad_x * 2, grad_scale, grad_shift, None", "return them as"),
        (BACKWARD, "x, scale = ctx.saved_tensors", "x, scale = ctx.saved_tensors\n        scale = scale * 1", "not as forward_fn gets it"),
        (BACKWARD, "return gain * x * scale + shift\n\n    @", "return (x, scale)\n\n    @", "forward returned a tuple"),
    ],
)
def test_code_that_does_not_fit_is_the_tasks_fault(tmp_path, name, old, replacement, expected):
    path = changed(tmp_path, name, old, replacement)
    with pytest.raises(ReferenceFailed) as caught:
        task_of(path)
    assert expected in str(caught.value) and "row_scale" in str(caught.value)
