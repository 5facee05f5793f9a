"""Which of CUDA's libraries the emulated device has, by their names."""

import pytest

from grader_extensions.emulated_cuda import emulation, emulation_limits
from grader_extensions.emulated_cuda.emulation import Unsupported

UNDECLARED = "k.cu:3:5: error: ‘{}’ was not declared in this scope; did you mean something else?\n"


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("cublasSgemm", "cuBLAS"),
        ("cublasLtMatmul", "cuBLAS"),
        ("ncclAllReduce", "NCCL"),
        ("curandCreateGenerator", "cuRAND's host functions"),
    ],
)
def test_a_call_of_a_library_that_needs_a_gpu_is_named(name: str, library: str) -> None:
    assert (
        emulation_limits.library_call(name)
        == f"the emulated device has no {library}, of which {name} is called here; use a CUDA device for this kernel"
    )


@pytest.mark.parametrize("name", ["curand", "curand_init", "cublasHandle_t", "cufft_plan", "cudaMalloc", "my_cublasSgemm"])
def test_other_names_are_no_calls_of_a_library(name: str) -> None:
    assert emulation_limits.library_call(name) is None


@pytest.mark.parametrize("name", ["cudaGraphAddNode", "cuCtxCreate", "__prof_trigger", "curand_poisson"])
def test_a_name_of_cuda_that_nobody_declared_is_not_supported(name: str) -> None:
    """The name may be right where there is a GPU."""
    sentence = emulation_limits.unknown_name(UNDECLARED.format(name), f"void f() {{\n\n  {name}(1);\n}}\n")
    assert sentence == f"the emulated device has no {name}; use a CUDA device for this kernel"


@pytest.mark.skipif(emulation_limits.open_headers() is None, reason="without a toolkit nobody knows its names")
@pytest.mark.parametrize(
    ("error", "lacking"),
    [
        ("‘umin’ was not declared in this scope; did you mean ‘fmin’?", "umin"),
        ("‘mine’ was not declared in this scope; did you mean ‘fmin’?", None),
        ("there are no arguments to ‘cyl_bessel_i0f’ that depend on a template parameter", "cyl_bessel_i0f"),
        ("cooperative_groups/scan.h: No such file or directory", "cooperative_groups/scan.h"),
        ("helper_cuda.h: No such file or directory", None),
    ],
)
def test_what_the_toolkit_has_is_not_supported_whatever_it_is_called(error: str, lacking: str | None) -> None:
    """Where the toolkit does not have it either, the source is at fault."""
    sentence = lacking and f"the emulated device has no {lacking}; use a CUDA device for this kernel"
    assert emulation_limits.unknown_name(f"k.cu:3:5: error: {error}\n", "void f() {}\n") == sentence


def test_a_function_of_a_library_stays_one_by_the_name_of_a_macro() -> None:
    """Which is no slip in the macro's name; the control is one in a name of the source's own."""
    source = "#define bnb_cublasCreate cublasCreate\nvoid solve() { bnb_cublasCreate(); }\n"
    assert "no cuBLAS, of which cublasCreate is called" in str(emulation_limits.unknown_name(UNDECLARED.format("cublasCreate"), source))
    assert emulation_limits.unknown_name(UNDECLARED.format("cublasCreat"), "void cublasCreate() {}\n") is None
    assert "{ __builtin_trap(); }" in translated(source.replace("solve", "compare") + SOLVE.format(body="*x = 1;"))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("mykernl", "__global__ void mykernel(int* x) {}\nvoid f() { mykernl(1); }\n"),
        ("cudaHelpr", "static void cudaHelper(int x) {}\nvoid f() { cudaHelpr(1); }\n"),
        ("__my_ad", "__device__ int __my_add(int a) { return a; }\n"),
    ],
)
def test_a_slip_in_ones_own_name_stays_an_error(name: str, source: str) -> None:
    """Whatever the name begins with."""
    assert emulation_limits.unknown_name(UNDECLARED.format(name), source) is None


def test_what_is_missing_from_this_machine_is_said() -> None:
    """Thrust and libcu++ come from the toolkit; CUB is the device's own."""
    for header in ("thrust/sort.h", "cuda/std/span", "cuda/functional"):
        sentence = emulation_limits.missing_header(header, in_toolkit=lambda _: False)
        assert f"takes {header} from the CUDA toolkit, and it is not installed here" in str(sentence)
    for header in ("cub/cub.cuh", "cuda/barrier", "curand_kernel.h", "cuda/own.cuh", "cublas_v2.h"):
        assert emulation_limits.missing_header(header, in_toolkit=lambda _: False) is None


HELPER = "void compare(float* x) {\n    cublasHandle_t handle;\n    cublasCreate(&handle);\n}\n"
SOLVE = 'extern "C" void solve(float* x) {{ {body} }}\n'


def translated(*sources: str, entry: str = "solve") -> str:
    return "".join(emulation.translate_all({f"{number}.cu": source for number, source in enumerate(sources)}, entry).values())


@pytest.mark.parametrize(
    "sources",
    [
        (HELPER + SOLVE.format(body="*x = 1;") + "int main() { compare(nullptr); return 0; }\n",),
        ("// Nobody calls this.\n" + HELPER, SOLVE.format(body="*x = 1;")),
        ("int main() { solve(nullptr);\n cublasCreate(&handle); }\n" + SOLVE.format(body="*x = 1;"),),
        (HELPER + "void f() { compare(nullptr); }\nstruct S { void g() { f(); } };\n", SOLVE.format(body="*x = 1;")),
        (HELPER + "void compare(float* x);\n" + SOLVE.format(body="*x = 1;"),),
        ("void compare(Handle* h);\nstruct Handle { Handle() { cublasCreate(&handle); } };\n" + SOLVE.format(body="*x = 1;"),),
        ("template <int N> int work() { return cublasCreate(0); }\ntemplate int work<1>();\n" + SOLVE.format(body="*x = 1;"),),
        ("void cublasCheck(int status) {}\n#define cublasCheck(x) (cublasCheck)(x)\n" + SOLVE.format(body="cublasCheck(0);"),),
    ],
)
def test_a_function_that_never_runs_may_call_a_library(sources: tuple[str, ...]) -> None:
    """A published file with its own `main` is taken as it is; lines stay. A function of the source's own is nobody else's."""
    text = translated(*sources)
    assert "cublasCreate" not in text and text.count("\n") >= "".join(sources).count("\n")


@pytest.mark.parametrize(
    ("sources", "entry"),
    [
        ((HELPER + SOLVE.format(body="compare(x);"),), "solve"),
        ((HELPER, "void f(float* x) { compare(x); }\n" + SOLVE.format(body="f(x);")), "solve"),
        ((HELPER + "auto* chosen = compare;\n" + SOLVE.format(body="chosen(x);"),), "solve"),
        (
            (
                HELPER.replace("void", "int", 1)
                + "int f(int x = compare(nullptr));\nint f(int x) { return 1; }\n"
                + SOLVE.format(body="f();"),
            ),
            "solve",
        ),
        (("struct S { S(int x) { cublasCreate(&handle); } };\nconst int y = 1;\nS s(y);\n" + SOLVE.format(body="*x = 1;"),), "solve"),
        ((HELPER + "#define RUN(x) compare(x)\n" + SOLVE.format(body="RUN(x);"),), "solve"),
        ((HELPER + "struct S { ~S() { compare(nullptr); } };\n" + SOLVE.format(body="*x = 1;"),), "solve"),
        ((HELPER.replace("void", 'extern "C" void', 1) + SOLVE.format(body="*x = 1;"),), "solve"),
        ((HELPER + 'extern "C" {\nvoid other(float* x) { compare(x); }\n}\n' + SOLVE.format(body="*x = 1;"),), "solve"),
        ((HELPER + SOLVE.format(body="*x = 1;"),), "elsewhere"),
        (("struct S { S() { cublasCreate(&handle); } } s;\n" + SOLVE.format(body="*x = 1;"),), "solve"),
        (("struct S { S() { cublasCreate(&handle); } };\nstruct T : S {} t;\n" + SOLVE.format(body="*x = 1;"),), "solve"),
        (("struct S { S() { cublasCreate(&handle); } };\n" + SOLVE.format(body="S s;"),), "solve"),
    ],
)
def test_a_call_that_may_be_reached_is_refused(sources: tuple[str, ...], entry: str) -> None:
    """By any name that leads to it; from everywhere, where the entry is not in the sources."""
    with pytest.raises(Unsupported, match="no cuBLAS, of which cublasCreate is called here"):
        translated(*sources, entry=entry)
