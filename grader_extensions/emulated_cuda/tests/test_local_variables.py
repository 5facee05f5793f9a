"""Which local variables the emulated device's sanitizer knows, and how a build goes on where g++ rejects the marks."""

from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import emulation, gcc
from grader_extensions.emulated_cuda.gcc import Emulated
from sandbox.compilers.headers import Headers

MARKED = [
    ("float x;", "float x EMU_LOCAL_ENDS; EMU_LOCAL_BEGINS(x)"),
    (
        "float a[4][2], *p, c = 0;",
        "float a[4][2] EMU_LOCAL_ENDS, *p EMU_LOCAL_ENDS, c = 0; EMU_LOCAL_BEGINS(a) EMU_LOCAL_BEGINS(p)",
    ),
    ("unsigned long long n;", "unsigned long long n EMU_LOCAL_ENDS; EMU_LOCAL_BEGINS(n)"),
    ("if (t) { S s; s.x = f(); }", "if (t) { S s EMU_LOCAL_ENDS; EMU_LOCAL_BEGINS(s) s.x = f(); }"),
    ("S s[2]; s[1] = f(3);", "S s[2] EMU_LOCAL_ENDS; EMU_LOCAL_BEGINS(s) s[1] = f(3);"),
    (
        "auto g = [](int i) { int k; k = i; return k; };",
        "{ int k EMU_LOCAL_ENDS; EMU_LOCAL_BEGINS(k) k = i; return k; };",
    ),
]
UNMARKED = [
    "float x = 1;",
    "float x{};",
    "static int x;",
    "for (int i; i < 3; ++i) t();",
    "struct S { float x; };",
    "float& x = y;",
    "extern __shared__ float x[];",
    "a * b + c;",
]


def translated(body: str, head: str = "__device__ void k()") -> str:
    """The code of a function with this body, as it is compiled for the sanitizer."""
    return emulation.translate(f"{head} {{ {body} }}", "k.cu", sanitize=True).splitlines()[-1]


@pytest.mark.parametrize(("body", "marked"), MARKED)
def test_a_variable_without_an_initialiser_is_marked(body: str, marked: str) -> None:
    assert marked in translated(body)


@pytest.mark.parametrize("body", UNMARKED)
def test_other_variables_are_left_alone(body: str) -> None:
    """What has a value, or another life than a variable of one thread."""
    assert "EMU_LOCAL" not in translated(body)


@pytest.mark.parametrize(("head", "marked"), [("__global__ void k()", True), ("void k()", False), ("__device__ constexpr int k()", False)])
def test_only_device_code_is_marked(head: str, marked: bool) -> None:
    """Nothing of the host's, nor what the compiler evaluates; and nothing at all without the sanitizer."""
    assert ("EMU_LOCAL" in translated("float x; x = 1;", head)) is marked
    assert "EMU_LOCAL" not in emulation.translate(f"{head} {{ float x; }}", "k.cu")


def test_a_source_that_does_not_compile_with_the_marks_is_compiled_without(tmp_path: Path) -> None:
    with_marks = Emulated(files=tmp_path, translated=tmp_path, sources={"k.cu": ""}, ready=tmp_path, sanitize=True, has_additions=True)
    without = with_marks.fallback()
    assert without is not None and without.fallback() is None

    def flags(compiler: Emulated) -> tuple[str, ...]:
        (step,) = compiler.compile("k.cu", 0, Headers(include_dirs=(), defines=()), tmp_path)
        return step.command

    assert gcc.WITHOUT_LOCAL_VARIABLES not in flags(with_marks)
    assert isinstance(without, Emulated) and gcc.WITHOUT_LOCAL_VARIABLES in flags(without)
