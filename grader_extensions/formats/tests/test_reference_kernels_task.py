"""The judge's half of reference_kernels: their own check decides, but not over what nobody wrote; what is executed stays among itself."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader_extensions.formats import reference_kernels
from grader_extensions.formats.tests.tasks import KEY, MISMATCHED, OTHER_KEY, PASSED, outcomes
from sandbox.protocol import pytree, wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from grader_extensions.formats.problem_code import Modules
    from grader_extensions.formats.reference_kernels_reference import Code
    from sandbox.judge.references import ReferenceFailed, Task, load_task
    from sandbox.judge.tolerance import same_bytes
    from tests.unit.test_lane import judged


FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures" / "reference_kernels"
UNWRITTEN = wire.TrialOutcome.UNWRITTEN
EQUAL = "(torch.equal(output, ref_kernel(data)), '')"


def task_of(directory: Path) -> Task:
    """The task on the CPU, without what is meant for a GPU."""
    spec = reference_kernels.load(directory, root=directory.parent).spec
    workloads = tuple(workload for workload in spec.workloads if workload.device_kind == "")
    return load_task(dataclasses.replace(spec, workloads=workloads), "cpu")


def spec_of(tmp_path: Path, reference: str, cases: str) -> wire.ProblemSpec:
    """The spec of a problem that is one file."""
    files = '[{"name": "reference.py", "source": "reference.py"}]'
    (tmp_path / "task.yml").write_text(f"files: {files}\nlang: py\nconfig: {{main: eval.py}}\ntests: [{cases}]\n")
    (tmp_path / "reference.py").write_text("import torch\n\n" + reference)
    return reference_kernels.load(tmp_path, root=tmp_path.parent).spec


def source(inputs: str, answer: str, check: str = "''") -> str:
    """The text of a reference that draws these inputs from n and seed, answers data with this, and checks by that."""
    functions = {"generate_input(n, seed)": inputs, "ref_kernel(data)": answer, "check_implementation(data, output)": check}
    return "".join(f"def {name}: return {value}\n" for name, value in functions.items())


def written(tmp_path: Path, reference: str, cases: str = '{"n": 5, "seed": 1}') -> Task:
    """The task of a problem that is one file."""
    return load_task(spec_of(tmp_path, reference, cases), "cpu")


def tells_right_from_wrong(task: Task) -> bool:
    """Return whether the reference's outputs pass in every case, and others do not."""
    return all(
        set(outcomes(task, workload=index)) == {PASSED}
        and MISMATCHED in outcomes(task, lambda outputs: [output + 1 for output in outputs], workload=index)
        for index in range(len(task.spec.workloads))
    )


def trial_outcomes(place: Path, kernel: Callable[..., object], spec: wire.ProblemSpec) -> list[wire.TrialOutcome]:
    """The outcomes of a kernel's trials, judged by the whole lane."""
    place.mkdir()
    return [fact.outcome for fact in judged(place, kernel, problem=spec) if isinstance(fact, wire.Trial)]


@pytest.mark.parametrize("name", ["scaled_add", "masked_sums", "row_topk", "product_out", "scaled_fp8", "packed_fp4", "decode_step"])
def test_the_right_answer_passes_and_a_wrong_one_does_not(name):
    assert tells_right_from_wrong(task_of(FIXTURES / name))


def test_the_same_key_gives_the_same_inputs_and_another_gives_others():
    for name in ("scaled_add", "masked_sums"):
        task = task_of(FIXTURES / name)
        first, again, different = (task.draw(task.spec.workloads[0], key)[0] for key in (KEY, KEY, OTHER_KEY))
        assert torch.equal(first, again) and not torch.equal(first, different)


def test_the_spec_that_it_returns_comes_to_the_same_in_another_process():
    """That is how the baseline gets it: without running the cases again."""
    task = task_of(FIXTURES / "masked_sums")
    job = wire.AdmissionJob(job_id="j", problem=task.spec)
    again = load_task(wire.decode(wire.encode(job)).problem, "cpu")
    assert (again.spec, again.templates, again.scratch) == (task.spec, task.templates, task.scratch)


def test_cases_of_the_same_shapes_are_told_apart():
    """By plain values alone two references differ: both cases get their own."""
    task = task_of(FIXTURES / "masked_sums")
    first, second = (task.draw(workload, KEY) for workload in task.spec.workloads[:2])
    assert torch.equal(task.reference(first)[0], -task.reference(second)[0]) and bool((task.reference(first)[0] != 0).any())


def test_the_problems_own_check_decides():
    """Coarser than the reference's elements, and finer; control: the tolerance by elements says the contrary."""
    task = task_of(FIXTURES / "masked_sums")

    def coarser(outputs):
        rows = outputs[0] + 0.05
        return [rows, rows.sum()]

    def finer(outputs):
        return [outputs[0], outputs[1] + 0.01]

    assert outcomes(task, coarser) == [PASSED, PASSED]
    assert MISMATCHED in outcomes(task, finer)
    right, wrong = torch.tensor([1.0]), torch.tensor([1.05])
    assert not torch.allclose(wrong, right, rtol=task.spec.tolerance.rtol, atol=task.spec.tolerance.atol)


def test_an_order_that_the_check_allows_passes():
    task = task_of(FIXTURES / "row_topk")
    assert outcomes(task, lambda outputs: [outputs[0].flip(1).contiguous()]) == [PASSED]
    assert outcomes(task, lambda outputs: [(outputs[0] + 1) % 32]) == [MISMATCHED]


def test_an_unwritten_element_is_wrong_whatever_the_check_says(tmp_path):
    """Control: the same check accepts the same values where they were written."""
    for dtype in ("float32", "float16", "int64"):
        task = written(tmp_path, source(f"torch.arange(n, dtype=torch.{dtype})", "data + 1", "(True, 'anything goes')"))
        assert outcomes(task, lambda outputs: [outputs[0] + 2]) == [PASSED]
        assert outcomes(task, lambda outputs: [outputs[0] + 2], lambda outputs: [outputs[0] == 4]) == [UNWRITTEN]


def test_nan_is_wrong_where_the_reference_has_none(tmp_path):
    """Even if the check compares in a way that NaN passes."""
    task = written(tmp_path, source("torch.ones(n)", "data * 2", "(not bool(((output - 2).abs() > 1).any()), '')"))
    assert outcomes(task) == [PASSED]
    assert outcomes(task, lambda outputs: [outputs[0] * torch.nan]) == [wire.TrialOutcome.NON_FINITE]


def test_a_check_that_raises_has_not_accepted(tmp_path):
    """A check that raises is the problem's fault if it also raises of the reference's output, and else the kernel's."""
    task = written(tmp_path, source("torch.ones(n)", "data * 2", "'' if bool((output == 2).all()) else 1 / 0"))
    assert outcomes(task) == [PASSED]
    assert outcomes(task, lambda outputs: [outputs[0] + 1]) == [MISMATCHED]
    with pytest.raises(
        ReferenceFailed, match="check_implementation raised ZeroDivisionError: division by zero, given the output of ref_kernel"
    ):
        outcomes(written(tmp_path, source("torch.ones(n)", "data * 2", "1 / 0")))


def test_a_check_that_refuses_its_own_reference_is_the_problems_fault(tmp_path):
    for check, message in (("(False, 'never')", "does not accept what ref_kernel returns"), ("1", "returned a int")):
        with pytest.raises(ReferenceFailed, match=message):
            outcomes(written(tmp_path, source("torch.ones(n)", "data * 2", check)))


def test_a_reference_that_changes_its_input_does_not_change_the_judges():
    """Neither where it only writes there, nor where it reads first; and the check gets copies."""
    for name in ("scaled_add", "masked_sums"):
        task = task_of(FIXTURES / name)
        workload = task.spec.workloads[0]
        inputs = task.draw(workload, KEY)
        before = [tensor.clone() for tensor in inputs]
        expected = task.reference(inputs)
        masks = [torch.zeros_like(tensor, dtype=torch.bool) for tensor in expected]
        task.compare(workload, inputs, expected, [tensor.clone() for tensor in expected], masks)
        pairs = zip(inputs, before, strict=True)
        assert all(torch.equal(tensor.view(-1).view(torch.uint8), old.view(-1).view(torch.uint8)) for tensor, old in pairs)
        assert all(torch.equal(tensor, again) for tensor, again in zip(expected, task.reference(inputs), strict=True))


def test_a_problem_that_fills_no_memory_changes_nothing_for_others(tmp_path, monkeypatch):
    """Its switch is as before when its code has run, and where it was off before, memory that the generator leaves unwritten is NaN all the
    same: a kernel that returns a buffer half filled is found out."""
    lax = "torch.utils.deterministic.fill_uninitialized_memory = False\n"
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    task = written(tmp_path, lax + source(f"exec({lax!r}) or torch.randn(n)", "data"))
    task.draw(task.spec.workloads[0], KEY)
    assert torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = False
    scaled = task_of(FIXTURES / "scaled_add")
    assert bool(scaled.draw(scaled.spec.workloads[0], KEY)[2].isnan().all())


def test_a_kernel_may_write_where_the_reference_does_and_nowhere_else(tmp_path):
    """Into the buffer that is part of data; control: writing into another part is found out."""
    spec = written(tmp_path, source("(torch.randn(n), torch.empty(n))", "data[1].copy_(data[0] * 2)", EQUAL)).spec

    def allowed(inputs, outputs):
        inputs[1].copy_(inputs[0] * 2)
        outputs[0].copy_(inputs[1])

    def forbidden(inputs, outputs):
        allowed(inputs, outputs)
        inputs[0].add_(1)

    assert trial_outcomes(tmp_path / "a", allowed, spec) == [PASSED] * 3
    assert trial_outcomes(tmp_path / "b", forbidden, spec) == [wire.TrialOutcome.INPUT_MODIFIED]


def test_what_a_problem_imports_is_gone_for_the_next(tmp_path):
    """Two problems with modules of the same names each get their own, and nobody else gets them; torch's switches are as before."""
    place = tmp_path / "problems"
    shutil.copytree(FIXTURES, place)
    (place / "shared" / "utils.py").write_text((FIXTURES / "shared" / "utils.py").read_text().replace("return not message", "return True"))
    before = torch.are_deterministic_algorithms_enabled(), torch.get_rng_state()
    strict, lax = task_of(FIXTURES / "scaled_add"), task_of(place / "scaled_add")
    wrong = [outcomes(task, lambda outputs: [output + 1 for output in outputs]) for task in (strict, lax, strict)]
    assert wrong == [[MISMATCHED], [PASSED], [MISMATCHED]]
    assert not {"task", "utils", "reference"} & set(sys.modules)
    assert before[0] == torch.are_deterministic_algorithms_enabled() and torch.equal(before[1], torch.get_rng_state())


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (source("torch.randn(10**12)", "data"), "generate_input raised RuntimeError"),
        (source("(torch.ones(n), object())", "data[0]"), "holds a object"),
        (source("torch.randn(n, 3)[:, :2]", "data"), "gaps or overlaps in its memory, which can't be sent: add .contiguous()"),
        (source("torch.tensor(1.0)", "data"), "0 dimensions"),
        (source("torch.ones(n).cfloat()", "data"), "complex64"),
        (source("[torch.ones(n)] * 128", "data[0]"), "128 can be sent"),
        (source("torch.ones(n)", "7"), "returns no tensor"),
        (source("torch.ones(n)", "data.cfloat()"), "complex64"),
        (source("torch.ones(n)", "1 / 0"), "ref_kernel at 'test-0' raised ZeroDivisionError"),
        (source("torch.ones(m)", "data").replace("input(n,", "input(m,"), "unexpected keyword argument 'n'"),
        (f"raise RuntimeError('no')\n{source('n', 'data')}", "the reference raised RuntimeError: no"),
        (f"__import__('nowhere')\n{source('n', 'data')}", "No module named 'nowhere'"),
    ],
)
def test_what_can_not_be_judged_is_the_problems_fault(tmp_path, reference, message):
    with pytest.raises(ReferenceFailed, match="problem") as caught:
        written(tmp_path, reference)
    assert message in str(caught.value)


def test_data_that_differs_from_seed_to_seed_in_shape_is_the_problems_fault(tmp_path):
    """For the runner is told the shapes before it runs."""
    task = written(tmp_path, source("torch.ones(n + seed % 1000)", "data"))
    with pytest.raises(ReferenceFailed, match="let them depend on the case alone"):
        task.draw(task.spec.workloads[0], KEY)


GROUPS = """
def generate_input(sizes, seed):
    torch.manual_seed(seed)
    return [(torch.randn(n, n).half(), torch.randn(n)) for n in sizes], [torch.empty(n) for n in sizes]
def ref_kernel(data):
    groups, outs = data
    for (a, x), out in zip(groups, outs):
        out.copy_(a.float() @ x)
    return outs
def check_implementation(data, output):
    return len(output) == len(data[1]) and all(torch.allclose(one, ref) for one, ref in zip(output, ref_kernel(data))), ""
"""


def test_cases_may_have_other_numbers_of_tensors(tmp_path):
    """As grouped matrix products do: a case that needs fewer than another has tensors without elements in their place."""
    task = written(tmp_path, GROUPS, cases='{"sizes": [2], "seed": 1}, {"sizes": [3, 4], "seed": 1}, {"sizes": [5], "seed": 1}')
    assert [tensor.dtype for tensor in task.spec.inputs] == ["float16", "float32", "float32", "float16", "float32", "float32"]
    assert [tensor.dtype for tensor in task.spec.outputs] == ["float32", "float32"]
    shapes = [[tuple(tensor.shape) for tensor in task.draw(workload, KEY)] for workload in task.spec.workloads]
    assert shapes[0] == [(2, 2), (2,), (2,), (0, 0), (0,), (0,)]
    assert tells_right_from_wrong(task)


def test_what_a_runner_is_told_does_not_depend_on_hidden_workloads(tmp_path):
    """A hidden case with more tensors would show; one with fewer does not."""
    spec = spec_of(tmp_path, GROUPS, '{"sizes": [2], "seed": 1}, {"sizes": [3, 4], "seed": 1}')
    few, many = spec.workloads
    task = load_task(dataclasses.replace(spec, workloads=(many, dataclasses.replace(few, hidden=True))), "cpu")
    assert task.spec.inputs == load_task(dataclasses.replace(spec, workloads=(many,)), "cpu").spec.inputs
    with pytest.raises(ReferenceFailed, match="a hidden workload has tensors that no public one has") as caught:
        load_task(dataclasses.replace(spec, workloads=(few, dataclasses.replace(many, hidden=True))), "cpu")
    assert not {"3", "4", "test-1"} & set(str(caught.value).split())


def test_a_buffer_that_the_reference_adds_to_keeps_its_content(tmp_path):
    """Control: one that it overwrites comes without, and both come to the same again."""
    integers = "(torch.ones(n, dtype=torch.int64), torch.zeros(n, dtype=torch.int64))"
    counts = written(tmp_path, source(integers, "data[1].add_(data[0])", EQUAL))
    assert json.loads(counts.spec.workloads[0].arguments)["scratch"] == {"1": "kept"}
    for change, before in (("add_", 5.0), ("copy_", 0.0)):
        task = written(tmp_path, source("(torch.randn(n), torch.full((n,), 5.0))", f"data[1].{change}(data[0])", EQUAL))
        inputs = task.draw(task.spec.workloads[0], KEY)
        assert all(torch.equal(task.reference(inputs)[0], inputs[0] + before) for _ in range(2)) and task.scratch == (1,)
        kinds = [json.loads(workload.arguments)["scratch"] for workload in task.spec.workloads]
        assert kinds == [{"1": "kept" if change == "add_" else "blank"}]


def test_what_says_cuda_means_the_cpu_on_the_emulated_device():
    """And on a GPU it says what it said."""
    text = "import torch\nDEVICE = 'cuda:0'\nOTHER = 'cudart'\ndef on(): return torch.ones(1).cuda().is_cuda, torch.cuda.synchronize()\n"
    cpu, cuda = (Modules({"reference": text}, f"test_says_cuda_{where}", where).load("reference") for where in ("cpu", "cuda"))
    assert (cpu.DEVICE, cpu.OTHER, cpu.on()) == ("cpu", "cudart", (True, None)) and cuda.DEVICE == "cuda:0"


# -- what GPU MODE's tasks hand out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtypes"), [("scaled_fp8", {"float8_e4m3fnuz"}), ("packed_fp4", {"float4_e2m1fn_x2", "float8_e4m3fn"})])
def test_narrow_floats_and_permuted_tensors_reach_a_kernel_as_they_were_made(name, dtypes):
    """Contiguous on the way; the template makes the generator's strides and bytes of them again. The answer lies as the reference's."""
    task = task_of(FIXTURES / name)
    assert dtypes <= {tensor.dtype for tensor in task.spec.inputs}
    workload = task.spec.workloads[1]
    inputs = task.draw(workload, KEY)
    assert all(tensor.is_contiguous() for tensor in inputs)
    code = Code(task.spec, "cpu")
    data = code.data(json.loads(workload.arguments)["case"], KEY)
    arguments, _, output = pytree.build(task.templates[1], [*inputs, *task.reference(inputs)])
    for argument, wanted in zip(arguments, data, strict=True):
        assert argument.stride() == wanted.stride() and same_bytes(argument, wanted)
    returned = code.reference(data)
    assert output.stride() == returned.stride() and torch.equal(output, returned)


def test_a_tensor_that_is_only_permuted_is_sent(tmp_path):
    """The control of one with gaps, which is refused."""
    assert outcomes(written(tmp_path, source("torch.randn(n, 3, 2).permute(2, 0, 1)", "data * 2", EQUAL))) == [PASSED]


BUFFERS = """
def generate_input(n, seed):
    torch.manual_seed(seed)
    return torch.randn(n, n), torch.randn(n, n), {buffer}
def ref_kernel(data):
    a, b, c = data
    return {answer}
def check_implementation(data, output): return torch.allclose(output, ref_kernel(data)), ""
"""


@pytest.mark.parametrize(
    ("buffer", "answer", "scratch"),
    [
        ("torch.empty(n, n)", "a @ b", (2,)),
        ("torch.randn(n, n)", "a @ b", (2,)),
        ("torch.empty(n, n, dtype=torch.int64)", "a @ b", (2,)),
        ("torch.empty(1)", "(a @ b).sum()", (2,)),
        ("torch.randn(3)", "a @ b", ()),
        ("torch.randn(n, n)", "a @ b + c", ()),
        ("torch.randn(n, n)", "a + c", (1,)),
    ],
    ids=["unwritten", "like the output", "integers", "of another shape", "unlike the output", "read", "another is not read"],
)
def test_a_buffer_that_the_reference_leaves_alone_may_be_written(tmp_path, buffer, answer, scratch):
    """If the generator did not write it, or it looks like the output; never one that the answer depends on."""
    assert written(tmp_path, BUFFERS.format(buffer=buffer, answer=answer)).scratch == scratch


def test_an_input_that_one_case_reads_may_be_written_in_none(tmp_path):
    for answer, scratch in (("a @ b + (c if len(a) > 2 else 0)", ()), ("a @ b", (2,))):
        text = BUFFERS.format(buffer="torch.randn(n, n)", answer=answer)
        assert written(tmp_path, text, cases='{"n": 2, "seed": 1}, {"n": 3, "seed": 1}').scratch == scratch


def test_what_a_kernel_writes_to_a_buffer_does_not_reach_what_is_expected(tmp_path):
    """A kernel that leaves its wrong answer in the buffer is compared with the reference's own; control: the right one passes."""
    spec = written(tmp_path, BUFFERS.format(buffer="torch.empty(n, n)", answer="a @ b")).spec

    def kernel(factor):
        def run(inputs, outputs):
            inputs[2].copy_(inputs[0] @ inputs[1] * factor)
            outputs[0].copy_(inputs[2])

        return run

    for factor, outcome in ((1, PASSED), (2, MISMATCHED)):
        assert trial_outcomes(tmp_path / outcome, kernel(factor), spec)[-1] is outcome


def test_objects_of_data_are_made_of_the_problems_classes_for_each_call():
    """A frozen dataclass with its methods, a named tuple, a module with a buffer: what the reference changes in one is gone in the next."""
    task = task_of(FIXTURES / "decode_step")
    code, workload = Code(task.spec, "cpu"), task.spec.workloads[0]
    inputs = task.draw(workload, KEY)
    first, second = (pytree.build(task.templates[0], [*inputs, None, None], code.make_object)[0] for _ in range(2))
    config, row, cache = first
    assert type(config).__name__ == "Config" and config.limits.high == 2.0 and torch.equal(config.clamped(row), row.clamp(-1, 2))
    assert cache.length == 3 and cache.data.data_ptr() == inputs[2].data_ptr()
    cache(row)
    assert (cache.length, second[2].length) == (4, 3)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("torch.float16", "holds a dtype"),
        ("made()", "whose class is not at the top level of a file of the problem"),
        ("[print]", "holds a builtin_function_or_method"),
        ("Loop()", "nested more than"),
    ],
)
def test_an_object_that_can_not_be_made_again_is_refused(tmp_path, value, message):
    classes = (
        "import dataclasses\nclass Loop:\n    def __init__(self): self.me = self\n"
        "def made():\n    @dataclasses.dataclass\n    class Inner:\n        x: int = 1\n    return Inner()\n"
    )
    with pytest.raises(ReferenceFailed, match=message):
        written(tmp_path, classes + source(f"(torch.ones(n), {value})", "data[0]"))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"])
def test_float8_outputs_are_compared_by_the_problems_check(tmp_path, dtype):
    """A sentinel that is right is written; where it is wrong, and in every byte of a half-written answer, it is not."""
    check = "(torch.equal(output.float(), ref_kernel(data).float()), '')"
    task = written(tmp_path, source("torch.arange(1, n + 1).float()", f"data.to(torch.{dtype})", check), cases='{"n": 64, "seed": 1}')
    everywhere = lambda outputs: [torch.ones_like(output, dtype=torch.bool) for output in outputs]  # noqa: E731
    assert outcomes(task, masks=everywhere) == [PASSED]

    def half(outputs):
        outputs[0].view(torch.uint8)[32:] = 1
        return outputs

    def second(outputs):
        return [torch.arange(64) >= 32]

    assert outcomes(task, half, second) == [UNWRITTEN]
