"""The kernelbench format's server half: what it reads of a file, and what it says of a wrong one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.errors import ProblemInvalid
from grader.formats import with_calling_convention
from grader.model import NewSubmission
from grader_extensions.formats import kernelbench
from grader_extensions.formats.adjustments import UNCHANGED, Adjustments, literal
from grader_extensions.formats.kernelbench import with_constants
from sandbox.protocol import wire
from sandbox.protocol.signatures import cuda_signature, entry_in, torch_signature

PARTS = {
    "model": "class Model(nn.Module):\n    def forward(self, x):\n        return x\n",
    "get_inputs": "def get_inputs():\n    return [torch.rand(3)]\n",
    "get_init_inputs": "def get_init_inputs():\n    return []\n",
}


def write(directory: Path, name: str = "7_A_thing.py", without: str = "", extra: str = "", **replaced: str) -> Path:
    """A file of a right problem, but for what is left out, put in another's place or added."""
    parts = [text for part, text in {**PARTS, **replaced}.items() if part != without]
    path = directory / name
    path.write_text("import torch\nimport torch.nn as nn\n" + "\n".join(parts) + extra)
    return path


def refusal(path: Path, **options: str) -> str:
    with pytest.raises(ProblemInvalid) as caught:
        kernelbench.load(path, **options)
    assert caught.value.path == str(path)
    return caught.value.message


def test_a_precision_is_another_problem_with_another_tolerance(tmp_path: Path) -> None:
    path = write(tmp_path)
    problems = [kernelbench.load(path, adjustments=Adjustments(precision=precision)) for precision in ("fp32", "fp16", "bf16")]
    assert [problem.problem_id for problem in problems] == ["kb_7_a_thing", "kb_7_a_thing_fp16", "kb_7_a_thing_bf16"]
    assert len({problem.digest for problem in problems}) == 3
    assert [problem.spec.tolerance.atol for problem in problems] == [1e-4, 1e-2, 1e-2]
    assert "fp32, fp16, bf16" in refusal(path, adjustments=Adjustments(precision="fp8"))


def test_a_tolerance_of_one_s_own_is_another_problem(tmp_path: Path) -> None:
    """Both values, and the rule in the statement; the floor of the budget follows, and stays under what zeros would need."""
    path, lower = write(tmp_path), Adjustments(tolerance=1e-2, allow_lower_precision=True)
    usual, wide, half = (kernelbench.load(path, adjustments=adjustments) for adjustments in (UNCHANGED, Adjustments(tolerance=1e-2), lower))
    assert len({problem.digest for problem in (usual, wide, half)}) == 3
    tolerances = [problem.spec.tolerance for problem in (usual, wide, half)]
    assert [(tolerance.atol, tolerance.rtol) for tolerance in tolerances] == [(1e-4, 1e-4), (1e-2, 1e-2), (1e-2, 1e-2)]
    assert [tolerance.allow_lower_precision for tolerance in tolerances] == [False, False, True]
    assert [tolerance.budget_floor for tolerance in tolerances] == [1e-2, 5e-2, 5e-2]
    assert kernelbench.load(path, adjustments=Adjustments(tolerance=0.9)).spec.tolerance.budget_floor == 0.25
    assert "within 0.01 + 0.01 * |reference|" in half.statement and "Lower precision is allowed" in half.statement
    assert "Lower precision" not in wide.statement and half.title == "7 A thing (tolerance 0.01, lower precision allowed)"


def test_a_constant_that_is_set_is_part_of_the_text_and_of_the_digest(tmp_path: Path) -> None:
    path = write(tmp_path, extra="rate = 0.2\n")
    problem = kernelbench.load(path, adjustments=Adjustments(constants={"rate": "0.0"}))
    assert "rate = 0.0\n" in problem.spec.reference and problem.spec.reference in problem.statement
    digests = [kernelbench.load(path, adjustments=Adjustments(constants={"rate": rate})).digest for rate in ("0.0", "0")]
    assert problem.digest == digests[0] != digests[1]
    assert kernelbench.settable(path)["rate"] == "0.2"


def test_a_compiled_entry_is_a_function_that_gets_the_weights(tmp_path: Path) -> None:
    """A class in Python, `forward` of a torch extension, else `solve`; what is learned of the arguments changes no digest."""
    problem = kernelbench.load(write(tmp_path))
    assert [entry_in(problem.spec, language) for language in ("python", "torch_extension", "cuda")] == ["ModelNew", "forward", "solve"]
    assert cuda_signature(problem.spec) == "" and torch_signature(problem.spec) == ""
    x, w, y = (wire.TensorSpec(name=name, dtype="float32", shape=(f"{name}_0",)) for name in ("x", "w", "y"))
    number = wire.TensorSpec(name="n", dtype="int64", shape=())
    description = wire.Described(digest=problem.digest, inputs=(x, number), outputs=(y,), weights=(w,), axes={"x_0": 3, "w_0": 4, "y_0": 5})
    described = kernelbench.with_description(problem, description)
    assert described.digest == problem.digest and described.spec.convention is wire.Convention.MODEL
    arguments = "const float* x, int64_t n, const float* w, float* y, int64_t x_0, int64_t y_0, int64_t w_0, cudaStream_t stream"
    assert cuda_signature(described.spec) == f'extern "C" void solve({arguments})'
    assert torch_signature(described.spec) == "torch::Tensor forward(torch::Tensor x, int64_t n, torch::Tensor w)"
    draft = NewSubmission(problem_id="p", language="cuda", sources=())
    called = with_calling_convention(described.spec, draft)
    assert called.convention is wire.Convention.POSITIONAL and [tensor.name for tensor in called.inputs] == ["x", "n", "w"]
    assert with_calling_convention(described.spec, replace(draft, language="python")) == described.spec
    python_only = kernelbench.with_description(problem, replace(description, weights=(), obstacle="it has 99 weights"))
    assert python_only.languages == ("python",) and "it has 99 weights" in python_only.statement


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"model": "class Model(nn.Module):\n    pass\n"}, "line 3: class Model has no method forward"),
        ({"model": "def Model():\n    pass\n"}, "has no class Model"),
        ({"get_inputs": "def get_inputs(size):\n    return []\n"}, "get_inputs takes arguments"),
        ({"get_inputs": "def get_inputs(*, size):\n    return []\n"}, "get_inputs takes arguments"),
        ({"more": "\nif :\n"}, "is not Python"),
        ({"more": "\nx = " + "-" * 100_000 + "1\n"}, "is not Python"),
        ({"more": "\nx = " + "(" * 1000 + ")" * 1000 + "\n"}, "is not Python"),
        ({"more": "\nx = '\0'\n"}, "Python"),
        ({"more": "\nimport transformers\n"}, "imports transformers"),
        ({"more": "\nfrom transformers.models import x\n"}, "imports transformers"),
        ({"more": "\n#" + "x" * kernelbench.SOURCE_LIMIT_BYTES}, "is not a file of at most"),
    ],
)
def test_a_wrong_file_says_what_to_do(tmp_path: Path, parts: dict[str, str], expected: str) -> None:
    assert expected in refusal(write(tmp_path, **parts))


@pytest.mark.parametrize(
    ("source", "values", "wanted"),
    [
        ("a = 1\n", {"a": "2"}, "a = 2\n"),
        ("a = 1  # one\nb = a * 2\n", {"a": "22"}, "a = 22  # one\nb = a * 2\n"),
        ("b = a * 2\n", {"b": "7"}, "b = 7\n"),
        ("a: int = 1\n", {"a": "2"}, "a: int = 2\n"),
        ("D, H = 24, 32\n", {"H": "3"}, "D, H = 24, 3\n"),
        ("D, H = (24,\n        32)\nx = 1\n", {"D": "1", "H": "2", "x": "3"}, "D, H = (1,\n        2)\nx = 3\n"),
        ("a = b = 256  # no constants\na, *b = 1, 2\n", {"b": "8"}, "a = b = 256  # no constants\na, *b = 1, 2\n"),
        ("s = 'é'; a = 1; t = 'ü'\n", {"a": "2", "t": "0"}, "s = 'é'; a = 2; t = 0\n"),
        ("a = '''x\ny'''; b = 1\n", {"a": "2", "b": "3"}, "a = 2; b = 3\n"),
        ("a = 1\na = 2\n", {"a": "3"}, "a = 3\na = 3\n"),
        ("shape = (n, 4)\nn = 1\n", {"shape": "(2, 4)"}, "shape = (2, 4)\nn = 1\n"),
        ("a = 1\n", {"other": "2"}, "a = 1\n"),
    ],
)
def test_a_constant_is_set_where_it_is_assigned(source: str, values: dict[str, str], wanted: str) -> None:
    assert with_constants(source, values) == wanted


@pytest.mark.parametrize("text", ["", "M * 2", "relu", "f()", "1; import os", "1\nimport os", "(" * 1000, "f'{x}'", "'\0'", "a=1"])
def test_what_would_have_to_be_computed_is_no_literal(text: str) -> None:
    """An expression would be executed with the file, and is not what somebody means who sets a size."""
    with pytest.raises(ValueError, match="is not a literal"):
        literal(text)
