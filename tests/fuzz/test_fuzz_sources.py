"""Sources, before anything is kept or run: the intake, the languages, and what of a submission the server parses by itself."""

from __future__ import annotations

import time
from pathlib import PurePosixPath

from hypothesis import example, given
from hypothesis import strategies as st

from grader.errors import CallRefused
from grader.formats import flashinfer_calls
from grader.grading.build import cut
from grader.intake import gate, languages
from grader.model import SourceFile
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2
from sandbox.protocol import wire
from tests import fakes
from tests.fuzz import values

CPP_WORDS = ("/*", "*/", "//", '"', "'", 'R"x(', ')x"', "\\\n", "#if 0\n", "#define A B\n", "<<<", ">>>", "template<", "{", "}", "(",
    "__global__", "??/\n",
             "extern \"C\"", "PYBIND11_MODULE", "asm", "##", "\r", "\f", "\v", "\u2028", "é", "\0", "0x1p3", "1'000", "u8\"", "L'",
             "a<")  # fmt: skip
PYTHON_WORDS = (
    "def ",
    "run(",
    "*a, **b",
    "(",
    "lambda: ",
    "-",
    "@",
    "f'{",
    "'''",
    "\t",
    "\\",
    "async ",
    "class ",
    "match x:\n case ",
    "\x0c",
    "\0",
    "# coding: x\n",
)
PYTHON = "def run(x, y, out):\n    out.copy_(x + y)\n"
SPEC = fakes.problem().spec
CALL_S = 5.0  # of processor time; it takes some milliseconds


def contents() -> st.SearchStrategy[str]:
    long = st.builds(lambda word, count: word * count, st.sampled_from(CPP_WORDS + PYTHON_WORDS), st.integers(1, 3000))
    return st.one_of(values.garbled(fakes.SOURCE, CPP_WORDS), values.garbled(PYTHON, PYTHON_WORDS), long, values.unicode_texts())


def source_files() -> st.SearchStrategy[SourceFile]:
    parts = st.sampled_from(("a", "b.cu", "k.py", "x.cpp", "..", ".", "", "~", "é", "\0", "\n", "\\", "a" * 100, " ", "\u202e", "con"))
    paths = st.one_of(st.lists(parts, max_size=4).map("/".join), values.unicode_texts())
    return st.builds(SourceFile, path=paths, content=contents())


@given(st.lists(source_files(), max_size=6))
def test_files_that_are_taken_lie_inside_and_beside_each_other(files: list[SourceFile]) -> None:
    """Whatever passes can be written below a directory, each to a place of its own; of the others something is said."""
    violations = gate.check_sources(files)
    assert all(one.field and one.description for one in violations)
    if violations:
        return
    paths = [PurePosixPath(one.path) for one in files]
    assert len(set(paths)) == len(paths)
    for path, one in zip(paths, files, strict=True):
        assert not path.is_absolute() and ".." not in path.parts and str(path) == one.path and "\0" not in one.path
        assert not any(other in path.parents for other in paths)
        assert all(len(part.encode()) <= 255 for part in path.parts)


@values.examples(30)
@given(
    st.lists(source_files(), min_size=1, max_size=3),
    st.sampled_from(("", "cuda", "python", "torch_extension", "x")),
    values.unicode_texts(),
)
def test_a_submission_is_taken_or_refused(files: list[SourceFile], language: str, entry: str) -> None:
    asked = submission_pb2.Submission(
        problem="problems/sum",
        language=language,
        entry=entry,
        sources=[submission_pb2.SourceFile(path=f"{index}.cu", content=one.content) for index, one in enumerate(files)],
    )
    try:
        taken = gate.check_submission(api.SubmitRequest(submission=asked), lambda _: fakes.problem(), ("emulated",))
    except CallRefused as refused:
        assert str(refused)
        return
    assert taken.submission.language in fakes.problem().languages


@given(contents(), st.sampled_from(tuple(languages.languages())), st.sampled_from(("solve", "run", "forward")))
def test_any_text_is_looked_through(text: str, language: str, entry: str) -> None:
    begun = time.process_time()
    languages.missing_entry(language, [SourceFile(path="a.cu", content=text)], entry)
    assert time.process_time() - begun < CALL_S


@given(st.one_of(values.garbled(PYTHON, PYTHON_WORDS), contents()))
@example("-" * 200_000 + "1")
@example("a" + ".b" * 60_000)
def test_a_python_source_says_how_it_is_called_or_nothing(text: str) -> None:
    """The server reads it, and neither parses nor executes it."""
    called = flashinfer_calls.with_destination(SPEC, text, "run")
    assert called.convention in (wire.Convention.POSITIONAL, wire.Convention.DESTINATION)


@given(st.binary(max_size=500), st.integers(0, 3))
def test_any_output_is_text(output: bytes, factor: int) -> None:
    text, _ = cut(output * (wire.LOG_LIMIT_BYTES // 400) ** (factor > 1))
    assert len(text.encode()) <= wire.LOG_LIMIT_BYTES
