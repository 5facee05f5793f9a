"""Files that `grader-cli init` writes to begin with."""

import ast
from dataclasses import replace

import pytest

from grader.api.messages import problem_to_proto
from grader.cli.exits import UsageError
from grader.v1 import problem_pb2
from grader_extensions.authoring import starter_files
from grader_extensions.authoring.commands import render, starter, starter_languages
from sandbox.protocol import wire
from sandbox.protocol.signatures import cuda_signature
from tests import fakes
from tests.unit.test_cli_commands import address, run  # noqa: F401  # address is a fixture

SHAPES = {"float16": ["rows", "cols"], "int32": ["3", "cols"]}


def problem(**fields):
    tensors = [problem_pb2.Tensor(name=f"t_{dtype}", dtype=dtype, shape=shape) for dtype, shape in SHAPES.items()]
    signature = 'extern "C" void solve(const __half* t, cudaStream_t stream)'
    values = {"name": "problems/p", "title": "A title", "format": "native", "entry": "solve", "cuda_signature": signature, **fields}
    values = {"languages": ["torch_extension", "cuda", "python"], "inputs": tensors[:1], "outputs": tensors, **values}
    return problem_pb2.Problem(**values)


def test_a_cuda_file_has_the_signature_the_headers_and_the_problem():
    """So that it can be submitted as it is."""
    text = starter(problem(), "cuda")
    assert text.startswith("// grader: problem=p\n") and "#include <cuda_fp16.h>" in text and "cuda_bf16" not in text
    assert 'extern "C" void solve(const __half* t, cudaStream_t stream) {' in text and "every element of t_float16 and t_int32" in text


def test_a_file_makes_the_outputs_whose_sizes_an_input_has():
    """In Python, which defines the entry, and in a torch extension. Of others it says dtype and shape."""
    text = starter(problem(), "python")
    (function,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert function.name == "solve" and [argument.arg for argument in function.args.args] == ["t_float16"]
    assert "torch.empty((3, t_float16.shape[1]), dtype=torch.int32, device=t_float16.device)" in text
    unknown = problem(outputs=[problem_pb2.Tensor(name="y", dtype="int32", shape=["n"])])
    assert "y = None  # int32 of shape (n)" in starter(unknown, "python")
    assert "(t_float16.shape[0],)" in starter(problem(outputs=[problem_pb2.Tensor(name="y", dtype="int32", shape=["rows"])]), "python")
    assert "torch::empty({3, t_float16.size(1)}, t_float16.options().dtype(torch::kInt32));" in starter(problem(), "torch_extension")
    assert "torch::Tensor y;  // int32 of shape (n)" in starter(unknown, "torch_extension")


@pytest.mark.parametrize(
    ("fields", "defined"),
    [
        ({"format": "reference_kernels", "entry": "custom_kernel"}, "custom_kernel"),
        ({"format": "kernelbench", "entry": "ModelNew"}, "ModelNew"),
        ({"format": "flashinfer", "entry": "run"}, "run"),
    ],
)
def test_each_format_begins_with_its_own_entry(fields, defined):
    body = ast.parse(starter(problem(**fields), "python")).body
    assert body[-1].name == defined


def test_a_server_writes_no_code_into_the_file():
    """Names that are no identifiers, and lines in texts that go into a comment."""
    evil = problem_pb2.Tensor(name="x): import os #", dtype="float32", shape=["n\nimport os"])
    text = starter(problem(title="a\nimport os", entry="f(): pass\nimport os", inputs=[evil], outputs=[evil]), "python")
    assert [type(node) for node in ast.parse(text).body] == [ast.Import, ast.FunctionDef] and text.count("\nimport") == 1


def test_a_language_without_a_starter_is_refused_with_those_there_are():
    """Such as one that the problem does not take, or whose signature only the problem's code knows."""
    assert starter_languages(problem(cuda_signature="")) == ["python"]
    with pytest.raises(UsageError, match="take one of: python"):
        starter(problem(languages=["python", "cuda"], cuda_signature=""), "cuda")
    with pytest.raises(UsageError, match="Did you mean 'python'"):
        starter(problem(), "pyton")


def test_a_file_is_the_one_of_the_pages():
    """Though it is made from what the server sends, and theirs from the problem itself. With scalars and hidden sizes."""
    sample = fakes.problem()
    cuda, message = cuda_signature(sample.spec), problem_to_proto(sample)
    pages = {name: starter_files.starter(sample.spec, name, cuda=cuda, title=sample.title) for name in sample.languages}
    assert pages.keys() == set(message.languages) and pages == {language: starter(message, language) for language in message.languages}


def test_a_file_is_written_once_and_can_be_submitted(address, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    assert run("init", "sum", "--server", address).exit_code == 0
    before = (tmp_path / "sum.cu").read_text()
    assert run("submit", "sum.cu", "--server", address).exit_code == 0
    ended = run("init", "sum", "--server", address)
    assert ended.exit_code == 2 and "'sum.cu' is there already" in ended.stderr and (tmp_path / "sum.cu").read_text() == before
    assert run("init", "sum", "--server", address, "--out", "-").stdout == before
    assert run("init", "sum", "--server", address, "--out", "none/x.cu").exit_code == 2
    assert "Did you mean 'sum'?" in run("init", "sumn", "--server", address).stderr


def test_nothing_is_made_or_returned_that_is_changed_in_place():
    x = wire.TensorSpec(name="x", dtype="float32", shape=("n",), inout=True)
    y, out = replace(x, name="y", inout=False), replace(x, name="out", inout=False)
    stored = replace(fakes.problem(), spec=replace(fakes.problem().spec, inputs=(y, x), outputs=(replace(x, inout=False),)))
    message = problem_to_proto(replace(stored, languages=("cuda", "torch_extension", "python")))
    python = starter(message, "python")
    assert "def solve(y: torch.Tensor, x: torch.Tensor) -> None:" in python and "# inout x: float32, n" in python and "return" not in python
    extension = starter(message, "torch_extension")
    assert "void forward(torch::Tensor y, torch::Tensor x) {" in extension and "empty" not in extension and "return" not in extension
    mixed_spec = replace(stored.spec, outputs=(*stored.spec.outputs, out))
    mixed = starter(problem_to_proto(replace(stored, spec=mixed_spec, languages=("python",))), "python")
    assert "-> torch.Tensor:" in mixed and "out = torch.empty(" in mixed and "return out\n" in mixed and "x = " not in mixed
    assert len(list(render(message))) > 5
