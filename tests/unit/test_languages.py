"""Languages are detected, and an entry point is called missing only where it surely is."""

import pytest

from grader.intake import gate
from grader.model import SourceFile

RAW = 'extern "C" void solve(float* a) {}'


def source(content, path="k.cu"):
    return [SourceFile(path=path, content=content)]


def missing(content, language="cuda", entry="solve"):
    return gate.missing_entry(language, source(content), entry)


@pytest.mark.parametrize(
    ("content", "language"),
    [
        (RAW, "cuda"),
        ("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}", "torch_extension"),
        ("TORCH_LIBRARY(x, m) {}", "torch_extension"),
        ("#include <torch/extension.h>\nint f();", "torch_extension"),
        (f"// as in PYBIND11_MODULE, but raw\n{RAW}", "cuda"),
        (f"/* #include <torch/extension.h> */ {RAW}", "cuda"),
    ],
)
def test_a_language_is_detected_from_the_code_and_not_from_comments(content, language):
    assert gate.detect(source(content)) == language


@pytest.mark.parametrize(
    "content", ["int main() {}", f"// {RAW}", f"/* {RAW} */ int x;", "void solve(float* a) {}", 'extern "C" void solver() {}', ""]
)
def test_an_entry_that_is_surely_missing_is_reported(content):
    """Not named, named in a comment only, or without C linkage."""
    assert missing(content) is not None


@pytest.mark.parametrize(
    "content",
    [
        RAW,
        'extern "C" {\nvoid solve(float* a) {}\n}',
        '#define EXPORT extern "C"\nEXPORT void solve(float*) {}',
        'extern  /* c */ "C" void\nsolve (float*) {}',
        'extern "C" void so\\\nlve(float*) {}',
        '#define NAME(a, b) a##b\nextern "C" void NAME(so, lve)(float*) {}',
        'void f(float*) __asm__("solve");',
        '#define GLOB "a/*"\nextern "C" void solve(float*) {}\n/* end */',
        '#define LONG \\\n  "a/*"\nextern "C" void solve(float*) {}\n/* end */',
        'const char* s = "/*"; extern "C" void solve(float*) {} // */',
        'const char* s = R"(/*)"; extern "C" void solve(float*) {} /* */',
        "template<" * 200 + RAW,
        '#include <a/*b.h>\nextern "C" void solve(float*) {}\n/* end */',
        "int i = 1'000'000; char c = '\"'; extern \"C\" void solve(float*) {} /* \" */",
        '#error don\'t /* this\nextern "C" void solve(float*) {} /* end */',
        'auto s = R"a(" /* )" )a"; extern "C" void solve(float*) {} /* end */',
        RAW + " /* a comment that is not closed is an error for the builder",
        "/* not closed " + RAW,
    ],
)
def test_an_entry_that_may_be_there_is_left_to_the_builder(content):
    assert missing(content) is None


def test_a_torch_extension_must_register_a_module():
    assert "PYBIND11_MODULE" in missing("torch::Tensor forward(torch::Tensor a);", "torch_extension")
    assert missing("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}", "torch_extension", "anything") is None
    assert missing("TORCH_LIBRARY_FRAGMENT(a, m) {}", "torch_extension") is None
