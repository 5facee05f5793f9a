"""The server reads submitted text in a number of steps that grows with its length: 16 kB of C++ once held it for 21 s."""

from __future__ import annotations

import difflib
import importlib
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from types import ModuleType

import pytest
from markupsafe import Markup

from grader.errors import InvalidSubmission
from grader.grading.pipeline import cut
from grader.intake import gate
from grader.intake.gate import check_labels
from grader.model import SourceFile
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2
from grader.verdict.compiler_diagnostics import compiler_diagnostics, defined_twice, first_error
from grader.views.sanitize import escape_unprintable, one_line
from sandbox.judge.library_use import jit_functions
from sandbox.protocol.directives import directives_of
from sandbox.protocol.languages import languages as known_languages
from sandbox.protocol.source_tokens import PYTHON, C, tokens
from tests import fakes
from tests.unit.step_counts import call_steps, pattern_steps

# Those of the findings first: a parser took seconds to minutes for a few kB of each.
SOUPS = (
    "a::b<c>::", ")~", "/* ==", "*/ template", "<! !", "a", " ", "\n", "\\\n", "\\ ", "a\n", "x1;", "(", "[{", "f(",
    "def f(", "def f(a):\n", "lambda a,", "-", "@", " #", "#\n", "#include <", '"', '""', "'", '"""', "'''", 'R"(',
    'R"a(x)b"', "\\\"", "/*", "/*/", "//", "// grader: destination=", "// grader: flags=", " flags=", "1'", "\t", "\u202e", "\x1b[",
    "k.cu(1): error: ", "k.cu:1:1: error: ", "ld: k.cu:(.text): multiple definition of `", 'File "k.py", line 1',
    " at line 1 of ", "../", "jit(", "@jit\ndef f", "a" + " " * 99 + "$",
)  # fmt: skip


def submitted(text: str, path: str = "k.cu") -> submission_pb2.Submission:
    return submission_pb2.Submission(problem="problems/sum", sources=[submission_pb2.SourceFile(path=path, content=text)])


def checked(text: str, path: str) -> None:
    with suppress(InvalidSubmission):
        gate.check_submission(api.SubmitRequest(submission=submitted(text, path)), lambda _: fakes.problem(), ("emulated",))


READERS: dict[str, Callable[[str], object]] = {
    "a check of C++": lambda text: checked(text, "k.cu"),
    "a check of Python": lambda text: checked(text, "k.py"),
    "the language": lambda text: gate.detect([SourceFile(path="k.cu", content=text)]),
    **{
        f"the entry of {name}": lambda text, name=name: gate.missing_entry(name, [SourceFile(path="k.cu", content=text)], "run")
        for name in known_languages()
    },
    "the labels": lambda text: check_labels([text], text, {text: text}),
    "the directives": lambda text: directives_of(text, "flags"),
    "the tokens of C++": lambda text: list(tokens(C, text)),
    "the tokens of Python": lambda text: list(tokens(PYTHON, text)),
    "the functions that are compiled just in time": lambda text: list(jit_functions(text.encode())),
    "the diagnostics": compiler_diagnostics.__wrapped__,
    "the first error": lambda text: (compiler_diagnostics.cache_clear(), first_error(text)),
    "a name that is defined twice": defined_twice,
    "the plain text": escape_unprintable,
    "one line": one_line,
    "the cut output": lambda text: cut(text.encode()),
}
# Not those that read the lines of a compiler's log, of which each is cut to 2000 characters.
MODULES = (
    "grader.api.resource_names",
    "grader.grading.pipeline",
    "grader.intake.gate",
    "sandbox.protocol.directives",
    "sandbox.protocol.source_tokens",
    "sandbox.judge.library_use",
    "sandbox.protocol.languages",
)


def patterns(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    """All compiled patterns of a module, also in its tuples, grammars and languages."""
    for name, value in vars(module).items():
        values = value if isinstance(value, tuple) else [value]
        for item in values:
            pattern = getattr(item, "marker", item)
            if isinstance(pattern, re.Pattern):
                yield f"{module.__name__}.{name}", pattern


PATTERNS = {pattern: where for name in MODULES for where, pattern in patterns(importlib.import_module(name))}


def is_linear(steps: Callable[[str], int], soup: str, length: int) -> bool:
    """Return whether twice the text takes about twice the steps, twice in a row."""
    counts = [steps((soup * size)[:size]) for size in (length, 2 * length, 4 * length)]
    return all(longer <= 2.3 * shorter + 300 for shorter, longer in pairwise(counts))


@pytest.mark.parametrize("name", READERS)
def test_a_text_is_read_in_linear_time(name: str) -> None:
    """Lines of Python that are executed, and characters that functions return."""
    slow = [soup for soup in SOUPS if not is_linear(lambda text: call_steps(lambda: READERS[name](text)), soup, 200)]
    assert not slow


@pytest.mark.parametrize("pattern", PATTERNS, ids=PATTERNS.get)
def test_a_pattern_is_matched_in_linear_time(pattern: re.Pattern[str]) -> None:
    """Characters and places that a backtracking matcher tries, which no line of Python shows."""
    assert not [soup for soup in SOUPS if not is_linear(lambda text: pattern_steps(pattern, text), soup, 100)]


def test_the_source_that_held_the_server_takes_steps_by_its_length() -> None:
    """65 kB of it took tree-sitter more than three minutes; the control has as many bytes of plain code."""
    head = '//\nextern "C" void solve();\n'
    hostile, plain = head + "a::b<c>::" * 7000, head + "int abc;\n" * 7000
    assert call_steps(lambda: checked(hostile, "k.cu")) < 3 * call_steps(lambda: checked(plain, "k.cu"))


def test_the_source_that_held_a_judge_takes_steps_by_its_length() -> None:
    """An unused file of 32 kB took `tokenize` more than three minutes. The control: a pattern of its kind goes back for each space."""
    text = "x = 1\na" + " " * 32_000 + "$\n"
    assert call_steps(lambda: list(jit_functions(text.encode()))) < 10 * len(text)
    assert not is_linear(lambda text: pattern_steps(re.compile(r"[ \t]*\w"), text), " ", 100)


def test_what_is_not_linear_is_noticed() -> None:
    """The controls: a pattern that goes back, a sum of strings, and a comparison of all lines with all."""

    def summed(text: str) -> Markup:
        line = Markup()
        for character in text:
            line += character
        return line

    def lines(text: str) -> list[str]:
        sides = [[f"{line // 2}{mark * (line % 2)}" for line in range(len(text) // 8)] for mark in "xy"]
        return list(difflib.unified_diff(*sides))

    assert not is_linear(lambda text: pattern_steps(re.compile(r"\s*x"), text), " ", 100)
    assert not is_linear(lambda text: pattern_steps(re.compile(r"/\*[\s\S]*?\*/"), text), "/* ", 100)
    assert not is_linear(lambda text: call_steps(lambda: summed(text)), "a", 200)
    assert not is_linear(lambda text: call_steps(lambda: lines(text)), "a", 800)


@pytest.mark.parametrize("grammar", [C, PYTHON], ids=["C", "PYTHON"])
def test_the_matcher_that_counts_matches_as_re_does(grammar: re.Pattern[str]) -> None:
    """Else its counts would be of another pattern."""
    pieces = ('"', "'", "/*", "*/", "//", 'R"(', ')"', "\\", "\n", "a", " ", "#include <", "1", "#", '"""', "def ", "@x", "é")
    generator = random.Random(1)
    for _ in range(100):
        text = "".join(generator.choices(pieces, k=25))
        spans = list[tuple[int, int]]()
        pattern_steps(grammar, text, spans)
        assert spans == [match.span() for match in grammar.finditer(text)], text
