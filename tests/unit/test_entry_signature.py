"""A parameter that contradicts the problem is named with its line; what may be right is not."""

from __future__ import annotations

import pytest

from sandbox.compilers.entry_signature import remarks
from sandbox.protocol.wire import EntryCall, TensorSpec


def tensor(name, dtype="float32", shape=("n",)):
    return TensorSpec(name=name, dtype=dtype, shape=shape)


ADD = EntryCall(inputs=(tensor("a"), tensor("b")), outputs=(tensor("c"),), axes=("n",))
SCALE = EntryCall(inputs=(tensor("a"), tensor("s", shape=()), tensor("k", "int32", ())), outputs=(tensor("c"),), axes=("n",))


def remarked(parameters: str, call: EntryCall = ADD) -> tuple[str, ...]:
    source = f'// the first line\n__global__ void k(const double* a) {{}}\nextern "C" void solve({parameters}) {{ k<<<1, 1>>>(0); }}\n'
    return remarks("solve", call, {"k.cu": source, "part.cuh": "void solved(double* a);"})


@pytest.mark.parametrize(
    "parameters",
    [
        "const float* a, const float* b, float* c, int64_t n, cudaStream_t stream",
        "const float* __restrict__ a, const float *b, float c[], int n",
        "float* a, float* b, float* c",
        "const float* a, const float* b, float* c, unsigned long long n, cudaStream_t",
        "const float* a, const float* b, float* c, size_t const n, void* stream",
        "const void* a, const unsigned char* b, char* c, long n",
        "const float4* a, const float4* b, float4* c, long n",
        "const scalar_t* a, const Vector<double>* b, T* c, index_t n",
        "const std::byte* a, uint8_t* b, float (&c)[4], long n",
        "const float* a, const float* b, float** c, long n",
    ],
)
def test_what_may_be_right_is_not_remarked(parameters):
    """Other spellings, fewer parameters, bytes, vectors, and types that are not known here."""
    assert remarked(parameters) == ()


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ("const double* a, const float* b, float* c, int64_t n", "`const double* a` is given the input a, which is float32;"),
        ("const float* a, const int* b, float* c, int64_t n", "`const int* b` is given the input b, which is float32;"),
        ("const float* a, const float* b, __half* c, int64_t n", "`__half* c` is given the output c, which is float32;"),
        ("const float* a, const float* b, const float* c, int64_t n", "`const float* c` is given the output c, which is to be written;"),
        ("float a, const float* b, float* c, int64_t n", "`float a` is given the input a, which is passed as a pointer to float32;"),
        ("const float* a, const float* b, float* c, float n", "`float n` is given the size n, which is an int64_t;"),
        ("const float* a, const float* b, float* c, int* n", "`int* n` is given the size n, which is an int64_t;"),
        ("const float* a, float* c", "it has 2 parameters, and is called with 4 and the stream;"),
        ("const float* a, const float* b, float* c, int n, int m, int k", "it has 6 parameters, and is called with 4 and the stream;"),
        (
            "int n, const float* a, const float* b, float* c",
            "`int n` is given the input a, which is passed as a pointer to float32 (and 2 more);",
        ),
        ("void", "it has 0 parameters, and is called with 4 and the stream;"),
    ],
)
def test_a_contradiction_is_named_with_its_line(parameters, sentence):
    """And with how the problem calls the entry."""
    (remark,) = remarked(parameters)
    assert remark.startswith(f"k.cu:3: {sentence}"), remark
    assert remark.endswith("the problem calls void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream)")


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ("const float* a, float s, int k, float* c, int n", None),
        ("const float* a, float s, long k, float* c, int n", None),
        ("const float* a, double s, int k, float* c, int n", "`double s` is given the input s, which is float32"),
        ("const float* a, int s, int k, float* c, int n", "`int s` is given the input s, which is float32"),
        ("const float* a, float s, float k, float* c, int n", "`float k` is given the input k, which is int32"),
        (
            "const float* a, const float* s, int k, float* c, int n",
            "`const float* s` is given the input s, which is passed by value, as float",
        ),
    ],
)
def test_scalars_are_passed_by_value(parameters, sentence):
    """In registers of their kind: an integer's size does not matter there."""
    found = remarked(parameters, SCALE)
    assert (sentence in found[0]) if sentence else found == ()


@pytest.mark.parametrize(
    "source",
    [
        "void solve(double* a);",
        "#if X\nvoid solve(double* a) {}\n#else\nvoid solve(float* a) {}\n#endif",
        "#define ENTRY solve\nvoid ENTRY(double* a) {}",
        "void solve(double* a, ) oops {}",
        "",
    ],
)
def test_a_definition_that_can_not_be_read_is_not_judged(source):
    """None, two of them, a macro, a mistake that the compiler finds."""
    assert remarks("solve", ADD, {"k.cu": source}) == ()
