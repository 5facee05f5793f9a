"""Parameters in another order than the problem's get their arguments; what contradicts the problem is named with its line."""

from __future__ import annotations

import pytest

from sandbox.compilers.entry_signature import note
from sandbox.protocol.wire import BuildNote, EntryCall, TensorSpec


def tensor(name, dtype="float32", shape=("n",)):
    return TensorSpec(name=name, dtype=dtype, shape=shape)


ADD = EntryCall(inputs=(tensor("a"), tensor("b")), outputs=(tensor("c"),), axes=("n",))
SCALE = EntryCall(inputs=(tensor("a"), tensor("s", shape=()), tensor("k", "int32", ())), outputs=(tensor("c"),), axes=("n",))


def noted(parameters: str, call: EntryCall = ADD, before: str = "// the first line"):
    source = f'{before}\n__global__ void k(const double* a) {{}}\nextern "C" void solve({parameters}) {{ k<<<1, 1>>>(0); }}\n'
    return note("solve", call, {"k.cu": source, "part.cuh": "void solved(double* a);"})


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
    assert noted(parameters) == BuildNote()


ROWS = EntryCall(inputs=(tensor("x", shape=("m", "d")),), outputs=(tensor("y", shape=("m", "d")),), axes=("m", "d"))


@pytest.mark.parametrize(
    ("parameters", "mismatch"),
    [
        ("const float* x, float* y, int N", "k.cu:3: `int N` is given the size m, and nothing is given d"),
        ("const float* x, float* y, int M", ""),
        ("const float* x, float* y, int d", ""),
        ("const float* x, float* y, int rows, int columns", ""),
        ("const float* x, float* y", ""),
    ],
)
def test_one_size_where_there_are_two_is_named(parameters, mismatch):
    """The size may be meant for their product; a parameter with an axis's name is meant for that, and the order stays the problem's."""
    assert noted(parameters, ROWS) == BuildNote(mismatch=mismatch)


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
            "int n, int rows, const float* a, float* c",
            "`int n` is given the input a, which is passed as a pointer to float32 (and 3 more);",
        ),
        ("void", "it has 0 parameters, and is called with 4 and the stream;"),
    ],
)
def test_a_contradiction_is_named_with_its_line(parameters, sentence):
    """And with how the problem calls the entry."""
    notes = noted(parameters)
    assert notes.argument_order == notes.remarks == ()
    assert notes.mismatch.startswith(f"k.cu:3: {sentence}"), notes
    assert notes.mismatch.endswith("the problem calls void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream)")


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
    notes = noted(parameters, SCALE)
    assert (sentence in notes.mismatch) if sentence else notes == BuildNote()


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
    assert note("solve", ADD, {"k.cu": source}) == BuildNote()


LAYER_NORM = EntryCall(
    inputs=(tensor("input"), tensor("weight"), tensor("eps", shape=())), outputs=(tensor("output"),), axes=("rows", "N"), sizes={}
)


@pytest.mark.parametrize(
    ("parameters", "order"),
    [
        ("const float* input, const float* weight, float* output, int rows, int N, float eps", "input weight output rows N eps"),
        ("float* output, const float* input, const float* weight, float eps, int rows, int n", "output input weight eps rows N"),
        ("float* out, const float* x, const float* w, size_t m, size_t n, float epsilon", "output input weight rows N eps"),
        ("cudaStream_t s, float* y, const float* x, const float* w, float e, int m, int n", "stream output input weight eps rows N"),
        ("int N, int rows, float eps, float* output, float* weight, float* input", "N rows eps output weight input"),
        ("float* output, float* input, float* weight, float eps", "output input weight eps"),
        ("const float* a, float* y, const float* b, float e, int m, int n, void* stream", "input output weight eps rows N stream"),
    ],
)
def test_parameters_in_another_order_get_their_arguments(parameters, order):
    """By their names, and what is left by its kind: as vLLM, DeepSpeed and LeetGPU declare their entries. The remark says which."""
    notes, names = noted(parameters, LAYER_NORM), ["input", "weight", "eps", "output", "rows", "N", "stream"]
    assert [names[place] for place in notes.argument_order] == order.split(), notes
    assert notes.remarks == (f"k.cu:3: solve is called as solve({', '.join(order.split())}), by its parameters",)


@pytest.mark.parametrize(
    "parameters",
    [
        "float* output, const float* a, const float* b, float eps, int count",
        "float* a, float* b, float* c, float* d, int rows, int N, float eps",
        "const float* input, float* output, int rows, int N, float eps",
        "const float* input, const double* weight, float* output, int rows, int N, float eps",
    ],
)
def test_an_order_that_is_not_certain_is_not_taken(parameters):
    """A size of two, pointers without a role, an input left out, another type: the verdict names the contradiction."""
    notes = noted(parameters, LAYER_NORM)
    assert notes.argument_order == () and notes.mismatch


def test_a_line_in_the_source_says_the_order():
    """Whatever the parameters are called; a name that the problem lacks is no order."""
    parameters = "float* out, const float* in, const float* by, int count"
    for line in ("problem=norm arguments=output, input ,weight,eps,N,rows", "arguments=output,input,weight,eps,N,rows problem=norm"):
        notes = noted(f"{parameters}, float eps, int more", LAYER_NORM, f"// grader: {line}")
        assert notes == BuildNote(argument_order=(3, 0, 1, 2, 5, 4))


@pytest.mark.parametrize(
    ("directive", "fault"),
    [
        ("output,input,weight,eps,n", "the problem has no 'n'"),
        ("output,input,weight-eps", "the problem has no 'weight-eps'"),
        ("output,input,N,eps", "'weight' has to be there once"),
        ("output,input,weight,eps,eps", "'eps' has to be there once"),
        ("output,input,weight,eps,N", "5 arguments for 4 parameters"),
    ],
)
def test_a_line_that_says_no_order_is_told(directive, fault):
    """The directive is checked even where the entry cannot be read."""
    notes = noted("float* out, const float* in, const float* by, float eps", LAYER_NORM, f"// grader: arguments={directive}")
    assert notes.argument_order == () and notes.mismatch.startswith(f"k.cu: arguments={directive}: ") and fault in notes.mismatch
    source = f"// grader: arguments={directive}\nENTRY(solve) {{}}"
    assert bool(note("solve", LAYER_NORM, {"k.cu": source}).mismatch) is ("5 arguments" not in fault)


def test_sizes_and_other_integers_are_told_apart_by_name():
    """Two names of the kernel's own leave open which is which; one that is exact is taken before one in another case."""
    top = EntryCall(inputs=(tensor("k", "int32", ()), tensor("x")), outputs=(tensor("y"),), axes=("n", "K"))
    assert noted("const float* x, float* y, int size, int topk", top).argument_order == ()
    assert noted("const float* x, float* y, int K, int k, int n", top).argument_order == (1, 2, 4, 0, 3)


@pytest.mark.parametrize(
    "source",
    [
        "namespace impl { void solve(float* c, const float* a, const float* b, int n) {} }\nENTRY(solve) {}",
        "struct Impl { static void solve(float* c, const float* a, const float* b, int n) {} };\nENTRY(solve) {}",
        "#if 0\nvoid solve(float* c, const float* a, const float* b, int n) {}\n#endif\nENTRY(solve) {}",
    ],
)
def test_a_namesake_is_not_the_entry(source):
    """Of a scope, or left out; the control has C linkage."""
    assert note("solve", ADD, {"k.cu": source}) == BuildNote()
    linked = source.replace("void solve", 'extern "C" void solve').replace("#if 0", "#if 1").replace("static extern", "extern")
    assert "struct" in source or note("solve", ADD, {"k.cu": linked}).argument_order == (2, 0, 1, 3)


def test_an_output_without_a_shape_is_a_pointer():
    """A loss is written to memory; an input without a shape is passed by value."""
    mean = EntryCall(inputs=(tensor("a"),), outputs=(tensor("loss", shape=()),), axes=("n",))
    assert noted("const float* a, float* loss, int n", mean) == BuildNote()
