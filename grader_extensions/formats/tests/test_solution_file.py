"""A solution file of FlashInfer-Bench or SOL-ExecBench becomes a submission, or a sentence that says what is wrong with it."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from grader.cli import sources
from grader.cli.exits import UsageError
from grader.cli.submit import build_submission
from grader.model import NewSubmission, SourceFile
from grader.v1 import submission_pb2
from grader_extensions.formats import flashinfer, solution_file
from grader_extensions.formats.tests import test_flashinfer
from sandbox.protocol import wire

FLAT = test_flashinfer.FIXTURES / "flat"
CUDA, PYTHON = FLAT / "solutions" / "clipped_sum_cuda.json", FLAT / "solutions" / "clipped_sum_python.json"
SPEC = flashinfer.load(FLAT / "definitions" / "clipped_sum_w96.json").spec
WHOLE = json.loads(CUDA.read_text())


changed = partial(test_flashinfer.changed, WHOLE)


def parsed(table: object) -> sources.SubmittedFiles:
    return solution_file.parse(Path("s.json"), json.dumps(table))


def test_a_solution_names_its_problem_language_entry_and_sources() -> None:
    """The entry's file is the first; a flag goes before the file. The problem is the definition above it."""
    handed = sources.read([CUDA], None)
    assert [source.path for source in handed.sources] == ["main.cpp", "clip.h", "clip.cu"]
    assert (handed.problem_id, handed.language, handed.entry) == ("clipped_sum_w96", "torch_extension", "run")
    assert handed.problem_dir == FLAT / "definitions" / "clipped_sum_w96.json"
    message = build_submission(handed, submission_pb2.Submission())
    assert (message.problem, message.language, message.entry) == ("problems/clipped_sum_w96", "torch_extension", "run")
    submission = sources.read([CUDA], "problems/mine")
    assert submission.problem_id == "mine" and submission.problem_dir is None
    assert build_submission(handed, submission_pb2.Submission(entry="go", language="cuda")).entry == "go"


@pytest.mark.parametrize(
    ("path", "style", "convention"),
    [
        (CUDA, True, wire.Convention.DESTINATION),
        (CUDA, None, wire.Convention.DESTINATION),
        (CUDA, False, wire.Convention.POSITIONAL),
        (PYTHON, True, wire.Convention.DESTINATION),
        (PYTHON, False, wire.Convention.POSITIONAL),
        (PYTHON, None, wire.Convention.POSITIONAL),
    ],
)
def test_destination_passing_style_decides_how_the_entry_is_called(path: Path, style: bool | None, convention: wire.Convention) -> None:
    """Left out, it is true for compiled code, as it is there; a Python entry's parameters tell. No line of a source moves."""
    table = json.loads(path.read_text())
    table = test_flashinfer.changed(table, "spec", "destination_passing_style", value=style)
    solution = parsed(table)
    draft = NewSubmission(problem_id="p", language=solution.language, sources=solution.sources, entry=solution.entry)
    assert flashinfer.with_calling_convention(SPEC, draft).convention is convention
    contents = {source["path"]: source["content"] for source in table["sources"]}
    assert all(source.content.startswith(contents[source.path]) for source in solution.sources)


def test_compile_options_of_compiled_code_are_a_line_of_flags() -> None:
    """After the other directive, in one line whatever they hold. Of Python a note says that they are not used."""
    options = {"cuda_cflags": ["-O3", "-Xptxas -v\n-DTILE=4"], "ld_flags": None}
    source = parsed(test_flashinfer.changed(json.loads(CUDA.read_text()), "spec", "compile_options", value=options)).sources[0].content
    assert source.splitlines()[-1] == "// grader: destination=true flags=-O3 -Xptxas -v -DTILE=4"
    python = parsed(test_flashinfer.changed(json.loads(PYTHON.read_text()), "spec", "compile_options", value=options))
    assert "flags" not in python.sources[0].content and python.notes[0].startswith("compile_options of s.json are not used: -O3")


def test_the_directive_works_without_a_solution_file() -> None:
    """In any file, in a comment of its own; it is not for raw CUDA, which has its outputs anyway."""

    def convention(language: str, *contents: str) -> wire.Convention:
        suffix = "py" if language == "python" else "cu"
        files = tuple(SourceFile(path=f"part_{index}.{suffix}", content=content) for index, content in enumerate(contents))
        return flashinfer.with_calling_convention(SPEC, NewSubmission(problem_id="p", language=language, sources=files)).convention

    run = "def run(*arguments):\n    pass\n"
    assert convention("python", run) is wire.Convention.POSITIONAL
    assert convention("python", run, "  # grader: problem=x destination=true\n") is wire.Convention.DESTINATION
    assert convention("python", run, "x = 1  # grader: destination=true\n") is wire.Convention.POSITIONAL
    assert convention("torch_extension", "// grader: destination=true") is wire.Convention.DESTINATION
    assert convention("cuda", "// grader: destination=true") is wire.Convention.POSITIONAL


@pytest.mark.parametrize(
    ("spec", "files", "language"),
    [
        ({"language": "triton", "entry_point": "a.py::run"}, {"a.py": "def run(x): pass"}, "python"),
        ({"languages": ["pytorch", "triton"], "entry_point": "a.py::run"}, {"a.py": "def run(x): pass"}, "python"),
        ({"languages": ["cute_dsl"], "entry_point": "a.py::run"}, {"a.py": "import cutlass"}, "python"),
        (
            {"languages": ["cuda_cpp"], "entry_point": "a.cu::run", "binding": "torch"},
            {"a.cu": "PYBIND11_MODULE(x, m) {}"},
            "torch_extension",
        ),
        ({"language": "cuda", "entry_point": "a.cu::solve"}, {"a.cu": 'extern "C" void solve(float* x) {}'}, "cuda"),
        ({"language": "cuda", "entry_point": "a.cu::run", "binding": "tvm-ffi"}, {"a.cu": "void run();"}, "tvm_ffi"),
        ({"language": "cuda", "entry_point": "a.cu::run"}, {"a.cu": "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);"}, "tvm_ffi"),
        ({"language": "cpp", "entry_point": "a.cpp::run"}, {"a.cpp": "int run() { return 0; }"}, ""),
    ],
)
def test_the_language_is_read_from_both_schemas(spec: dict[str, Any], files: dict[str, str], language: str) -> None:
    """Where it says too little, the server tells from the sources."""
    table = {"definition": "d", "spec": spec, "sources": [{"path": name, "content": text} for name, text in files.items()]}
    assert parsed(table).language == language


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([], "s.json is not a solution file; it needs the keys definition, spec and sources"),
        ({"name": "a definition", "axes": {}}, "is not a solution file"),
        (changed("spec", value="x"), "spec: must be an object"),
        (changed("spec", "entry_point"), "spec.entry_point: is missing; add it"),
        (changed("spec", "entry_point", value="main.cpp"), "spec.entry_point: is 'main.cpp'; write FILE::FUNCTION"),
        (changed("spec", "entry_point", value="main.cpp::a::b"), "write FILE::FUNCTION"),
        (changed("spec", "entry_point", value="no.cpp::run"), "names 'no.cpp', which is not in sources (clip.h, clip.cu, main.cpp)"),
        (changed("spec", "language", value="cobol"), "spec.language: 'cobol' is not known; take one of: python, "),
        (changed("spec", "language", value="python"), "spec.entry_point: 'main.cpp' is not a file of python"),
        (
            test_flashinfer.changed(changed("spec", "language"), "spec", "languages", value=["cuda", "triton"]),
            "spec.languages: cuda, triton can't be mixed",
        ),
        (changed("spec", "destination_passing_style", value="yes"), "spec.destination_passing_style: must be true or false"),
        (
            test_flashinfer.changed(changed("spec", "binding", value="tvm-ffi"), "spec", "destination_passing_style", value=False),
            "spec.destination_passing_style: a function of TVM-FFI gets its outputs here",
        ),
        (changed("sources", value=[]), "sources: must be a list that is not empty"),
        (changed("sources", 0, value="x"), "sources[0]: must be an object with path and content"),
        (changed("sources", 1, "content", value=""), "sources[1].content: must be a text that is not empty"),
        (changed("sources", 1, "path"), "sources[1].path: is missing"),
        (changed("definition", value=3), "definition: must be a text"),
        (changed("sources", 0, "content", value="\ud800"), "sources[0].content: has half of a surrogate pair"),
    ],
)
def test_a_wrong_solution_names_file_and_key(table: object, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(table)
    assert str(caught.value).startswith("solution: s.json") and expected in str(caught.value)


def test_what_is_no_json_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{\n "definition": x\n}')
    with pytest.raises(UsageError, match=r"s\.json:2 is not JSON from column 16 on; fix the line"):
        sources.read([path], None)
    path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="not JSON that can be read"):
        sources.read([path], None)


def test_the_problem_of_a_solution_lies_near(tmp_path: Path) -> None:
    """Of SOL next to it; of a trace set above it, at any depth. Control: another definition is not taken."""
    directory = Path(shutil.copytree(FLAT.parent / "scaled_rows", tmp_path / "p"))
    assert solution_file.problem_near(directory / "solution.json", "scaled_rows_d64") == directory
    assert solution_file.problem_near(directory / "solution.json", "other") is None
    trace = Path(shutil.copytree(FLAT.parent / "trace", tmp_path / "trace"))
    definition = solution_file.problem_near(trace / "solutions" / "team" / "x.json", "rmsnorm_h128")
    assert definition == trace / "definitions" / "rmsnorm" / "rmsnorm_h128.json"
    assert solution_file.problem_near(trace / "solutions" / "x.json", "../*") is None
