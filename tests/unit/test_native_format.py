"""A native problem is read without being executed, and a wrong one says which key."""

from pathlib import Path

import pytest

from grader.errors import ProblemInvalid
from grader.formats import native
from grader.problems.store import Problems
from sandbox.protocol import wire
from sandbox.protocol.signatures import cuda_signature, is_axis, rule_of, torch_signature
from tests import fakes

EXAMPLES = Path(__file__).parents[2] / "kernels_examples"


def wrong(tmp_path, old, replacement):
    text = fakes.PROBLEM_TOML.format(name="sum")
    assert old in text
    with pytest.raises(ProblemInvalid) as caught:
        native.load(fakes.write_problem(tmp_path, text=text.replace(old, replacement)))
    return str(caught.value)


def test_the_digest_changes_with_what_decides_a_verdict_only(tmp_path):
    directory = fakes.write_problem(tmp_path)
    before = native.load(directory).digest
    toml = directory / "problem.toml"
    toml.write_text(toml.read_text().replace("A sum", "The sum"))
    assert native.load(directory).digest == before
    (directory / "reference.py").write_text("def reference(a):\n    return a + 1\n")
    assert native.load(directory).digest != before


@pytest.mark.parametrize(
    ("old", "replacement", "reason"),
    [
        ('axes = ["n"]', 'axes = ["m"]', "'n', which is not in axes; add it there"),
        ("axes = { n = 64 }", "axes = { }", "must give exactly the axes"),
        ('name = "c"', 'name = "a"', "two tensors are called 'a'"),
        ('id = "secret33"', 'id = "n64"', "same id"),
        ('title = "A sum"', 'titel = "A sum"', "titel: is not a key here; did you mean 'title'?"),
        ('axes = ["n"]', 'axes = ["n"]\ntolerance = { atoll = 1.0 }', "tolerance.atoll: is not a key here; did you mean 'atol'?"),
        ('["n"] }', '["n"], distribution = { colour = 1 } }', "inputs.0.distribution.colour: is not a key here; take one of: kind, low"),
        ('name = "sum"', 'name = "../sum"', "name"),
        ('name = "sum"', "name =", "is not TOML"),
        ('axes = ["n"]', 'moved_bytes = "4 * m"\naxes = ["n"]', "moved_bytes uses 'm', which is not an axis"),
        ('axes = ["n"]', 'flops = "n - 64"\naxes = ["n"]', "flops 'n - 64' is -31 at {'n': 33}"),  # of one workload only
        ('axes = ["n"]', 'flops = "open(n)"\naxes = ["n"]', "flops holds 'open(n)'"),
        ('axes = ["n"]', 'moved_bytes = 512\naxes = ["n"]', "moved_bytes: Input should be a valid string"),
        ('id = "n64"', 'id = "n64", device = "cuda:0"', "device"),
        ('id = "n64"', 'id = "n64", tolerance = { atol = -1.0 }', "atol"),
        ('id = "n64"', 'id = "n64", tolerance = { btol = 1.0 }', "btol"),
    ],
)
def test_a_wrong_problem_names_file_and_key(tmp_path, old, replacement, reason):
    message = wrong(tmp_path, old, replacement)
    assert "problem.toml" in message and reason in message


INTEGER, WHOLE = "Input should be a valid integer", "write a whole number, without a point"
NUMBER, QUOTES = "Input should be a valid number", "write it without quotes"
TRUTH = "Input should be a valid boolean; write true or false"


@pytest.mark.parametrize(
    ("old", "replacement", "reason"),
    [
        ("n = 64 }", 'n = "64" }', f"workloads.0.axes.n: {INTEGER}; {QUOTES}"),
        ("n = 64 }", "n = 64.0 }", f"workloads.0.axes.n: {INTEGER}; {WHOLE}"),
        ("n = 64 }", "n = true }", f"workloads.0.axes.n: {INTEGER}"),
        ("hidden = true", 'hidden = "yes"', f"workloads.1.hidden: {TRUTH}"),
        ("hidden = true", "hidden = 1", f"workloads.1.hidden: {TRUTH}"),
        ('["n"] }', "[-1] }", "inputs.0.shape.0: Input should be greater than or equal to 0"),
        ('["n"] }', "[64.0] }", f"inputs.0.shape.0: {INTEGER}; {WHOLE}"),
        ('["n"] }', '["n"], distribution = { low = "0" } }', f"inputs.0.distribution.low: {NUMBER}; {QUOTES}"),
        ('["n"] }', '["n"], distribution = { high = true } }', f"inputs.0.distribution.high: {NUMBER}"),
        ('axes = ["n"]', 'axes = ["n"]\ntrials = "3"', f"trials: {INTEGER}; {QUOTES}"),
        ('axes = ["n"]', 'axes = ["n"]\ntolerance = { atol = "1e-3" }', f"tolerance.atol: {NUMBER}; {QUOTES}"),
        ('title = "A sum"', "title = 3", "title: Input should be a valid string; write it in quotes"),
    ],
)
def test_a_value_of_another_type_names_its_key(tmp_path, old, replacement, reason):
    assert wrong(tmp_path, old, replacement).endswith(f"problem.toml: {reason}")


AMOUNTS = 'moved_bytes = "4 * 2 * n"\nflops = "n // 2"\naxes = ["n"]'


def test_amounts_are_worked_out_for_every_workload(tmp_path):
    text = fakes.PROBLEM_TOML.format(name="sum").replace('axes = ["n"]', AMOUNTS)
    problem, bare = native.load(fakes.write_problem(tmp_path, text=text)), native.load(fakes.write_problem(tmp_path / "bare"))
    assert [(workload.moved_bytes, workload.flops) for workload in problem.spec.workloads] == [(512, 32), (264, 16)]
    assert [(workload.moved_bytes, workload.flops, workload.device_kind, workload.tolerance) for workload in bare.spec.workloads] == [
        (None, None, "", None)
    ] * 2
    assert problem.digest != bare.digest


def test_a_workload_s_tolerance_differs_where_it_says_so(tmp_path):
    text = fakes.PROBLEM_TOML.format(name="sum").replace('id = "n64"', 'id = "n64", device = "cuda", tolerance = { atol = 0.5 }')
    text += "\n[tolerance]\nrtol = 0.25\nbudget_factor = 7.0\n"
    problem = native.load(fakes.write_problem(tmp_path, text=text))
    with_tolerance, plain = problem.spec.workloads
    assert with_tolerance.tolerance is not None and plain.tolerance is None
    assert (with_tolerance.tolerance.atol, with_tolerance.tolerance.rtol, with_tolerance.tolerance.budget_factor) == (0.5, 0.25, 7.0)
    assert (with_tolerance.device_kind, plain.device_kind) == ("cuda", "")


def test_an_infinite_factor_is_no_budget(tmp_path):
    """The judge takes none for None only: infinity times PyTorch's error of zero is no number. A workload may have one, and have none."""
    text = fakes.PROBLEM_TOML.format(name="sum")
    none = native.load(fakes.write_problem(tmp_path / "none", text=text + "[tolerance]\nbudget_factor = inf\n")).spec
    assert none.tolerance == wire.Tolerance(budget_factor=None)
    override_text = text.replace('id = "n64"', 'id = "n64", tolerance = { budget_factor = inf }')
    override_text = override_text.replace('id = "secret33"', 'id = "secret33", tolerance = { budget_factor = 7.0 }')
    first, second = native.load(fakes.write_problem(tmp_path / "own", text=override_text)).spec.workloads
    assert (first.tolerance.budget_factor, second.tolerance.budget_factor) == (None, 7.0)
    assert none.digest != native.load(fakes.write_problem(tmp_path / "old")).digest


def test_lower_precision_is_allowed_by_the_problem(tmp_path):
    """The problem's line takes the budget away, which would reject it, unless that is asked for by name; and it makes another problem."""
    text = fakes.PROBLEM_TOML.format(name="sum") + "\n[tolerance]\natol = 1e-2\nrtol = 1e-2\n"
    strict = native.load(fakes.write_problem(tmp_path / "strict", text=text)).spec
    lower = native.load(fakes.write_problem(tmp_path / "lower", text=f"{text}allow_lower_precision = true\n")).spec
    explicit = native.load(fakes.write_problem(tmp_path / "asked", text=f"{text}allow_lower_precision = true\nbudget_factor = 9.0\n")).spec
    assert (strict.tolerance.allow_lower_precision, strict.tolerance.budget_factor) == (False, 32.0)
    assert (lower.tolerance.allow_lower_precision, lower.tolerance.budget_factor) == (True, None)
    assert (explicit.tolerance.allow_lower_precision, explicit.tolerance.budget_factor) == (True, 9.0)
    assert len({strict.digest, lower.digest, explicit.digest}) == 3
    assert rule_of(lower) == "|out - ref| <= 0.01 + 0.01 * |ref|, lower precision allowed"


def test_two_problems_of_one_name_are_a_mistake(tmp_path):
    fakes.write_problem(tmp_path / "a")
    duplicate = fakes.write_problem(tmp_path / "b")
    (duplicate / "reference.py").write_text("def reference(a):\n    return -a\n")
    with pytest.raises(ProblemInvalid, match="rename one"):
        Problems.load([tmp_path / "a", tmp_path / "b"])


def test_names_of_axes_and_tensors_may_have_capitals(tmp_path):
    """As in papers and in the field's kernels. A problem's own name is an identifier of the server."""
    text = fakes.PROBLEM_TOML.format(name="sum").replace('"n"', '"N"').replace("{ n =", "{ N =").replace('name = "a"', 'name = "A"')
    spec = native.load(fakes.write_problem(tmp_path, text=text.replace('axes = ["N"]', 'moved_bytes = "4 * N"\naxes = ["N"]'))).spec
    assert (spec.axes, spec.inputs[0].name, spec.inputs[0].shape) == (("N",), "A", ("N",))
    assert {workload.moved_bytes // workload.axes["N"] for workload in spec.workloads} == {4}
    assert "name" in wrong(tmp_path / "other", 'name = "sum"', 'name = "Sum"')


@pytest.mark.parametrize(
    ("reference", "inputs"),
    [
        ("def reference(a, n):", ["a", "n"]),
        ("def reference(n, values):", ["n", "a"]),
        ("def reference(a, /, n):", ["a", "n"]),
        ("def reference(a): pass\ndef reference(a, n):", ["a", "n"]),
        ("def reference(values):", ["a"]),
        ("def reference(n):", ["a"]),
        ("def reference(a, n=5):", ["a"]),
        ("def reference(a, m):", ["a"]),
        ("def reference(*inputs):", ["a"]),
        ("def reference(a, n:", ["a"]),
    ],
)
def test_a_reference_gets_the_axes_that_its_parameters_name(tmp_path, reference, inputs):
    """As numbers that are constant at a workload. The controls: as many parameters as inputs, whatever their names, and defaults."""
    directory = fakes.write_problem(tmp_path)
    (directory / "reference.py").write_text(f"{reference}\n    return 1\n")
    spec = native.load(directory).spec
    assert [tensor.name for tensor in spec.inputs] == inputs
    assert all(
        (tensor.dtype, tensor.shape, tensor.distribution) == ("int64", (), wire.Distribution(kind="constant", high_axis="n"))
        for tensor in spec.inputs
        if tensor.name == "n"
    )
    assert cuda_signature(spec) == 'extern "C" void solve(const float* a, float* c, int64_t n, cudaStream_t stream)'
    assert torch_signature(spec).count("int64_t n") == inputs.count("n")


def test_a_number_that_has_an_axis_name_is_no_axis(tmp_path):
    """The number is drawn, and the reference gets what was drawn."""
    text = fakes.PROBLEM_TOML.format(name="sum").replace(
        'shape = ["n"] }]\noutputs', 'shape = ["n"] }, { name = "n", shape = [] }]\noutputs'
    )
    directory = fakes.write_problem(tmp_path, text=text)
    (directory / "reference.py").write_text("def reference(a, n):\n    return a * n\n")
    assert [is_axis(tensor) for tensor in native.load(directory).spec.inputs] == [False, False]


def test_float8_is_a_type_of_tensors_and_not_of_numbers(tmp_path):
    """In raw CUDA it is the type of cuda_fp8.h."""
    text = fakes.PROBLEM_TOML.format(name="sum").replace('shape = ["n"] }]\noutputs', 'dtype = "float8_e4m3fn", shape = ["n"] }]\noutputs')
    spec = native.load(fakes.write_problem(tmp_path, text=text)).spec
    assert cuda_signature(spec).startswith('extern "C" void solve(const __nv_fp8_e4m3* a, float* c, ')
    assert "input 'a' at workload 'n64': a number that goes by value is no float8_e5m2" in wrong(
        tmp_path / "other", 'shape = ["n"] }]\noutputs', 'dtype = "float8_e5m2", shape = [] }]\noutputs'
    )


IN_PLACE = """
name = "step"
title = "A step in place"
axes = ["n"]
inputs = [{ name = "p", shape = ["n"], role = "inout" }, { name = "g", shape = ["n"] }]
workloads = [{ id = "n64", axes = { n = 64 } }]
"""


def in_place(tmp_path, text=IN_PLACE):
    return native.load(fakes.write_problem(tmp_path, text=text))


def test_an_input_may_be_the_output_too(tmp_path):
    """The input is the first of the outputs; others may follow. The role decides a verdict, so it is in the digest."""
    spec = in_place(tmp_path).spec
    assert [tensor.inout for tensor in spec.inputs] == [True, False] and spec.separate_outputs == ()
    assert spec.outputs == (wire.TensorSpec(name="p", dtype="float32", shape=("n",)),) and spec.in_place == (0,)
    extra = in_place(tmp_path, IN_PLACE + 'outputs = [{ name = "norm", shape = [1] }]\n').spec
    assert [tensor.name for tensor in extra.outputs] == ["p", "norm"] and [tensor.name for tensor in extra.separate_outputs] == ["norm"]
    assert extra.digest != spec.digest
    plain = IN_PLACE.replace(', role = "inout"', "") + 'outputs = [{ name = "p2", shape = ["n"] }]\n'
    assert "role" not in str(in_place(tmp_path, plain).spec)


@pytest.mark.parametrize(
    ("old", "replacement", "reason"),
    [
        ('shape = ["n"], role', "shape = [], role", "'p' has no axes, so it goes by value and can't be changed in place; give it an axis"),
        (', role = "inout"', "", "a problem has 1 to 8 outputs and inputs with role = 'inout'; this one has 0"),
        ("inout", "in", "inputs.0.role: "),
        ('axes = ["n"]\n', 'axes = ["n"]\noutputs = [{ name = "p", shape = ["n"] }]\n', "two tensors are called 'p'"),
    ],
)
def test_what_can_not_be_changed_in_place_is_refused(tmp_path, old, replacement, reason):
    assert old in IN_PLACE
    with pytest.raises(ProblemInvalid) as caught:
        in_place(tmp_path, IN_PLACE.replace(old, replacement, 1))
    assert reason in str(caught.value)
