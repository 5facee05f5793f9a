"""Translation for the emulated device: what it changes, leaves alone and refuses."""

import subprocess
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import gcc
from grader_extensions.emulated_cuda.emulation import MACRO_DEFINITIONS, Unsupported, translate
from grader_extensions.emulated_cuda.gcc import Emulated
from sandbox.compilers.headers import Headers


def body(source: str, path: str = "kernel.cu") -> str:
    return translate(source, path).split(f'#line 1 "{path}"\n', 1)[1]


def test_the_output_starts_with_the_runtime_and_the_users_name() -> None:
    """nvcc includes the runtime by itself, and says who it is; headers and host files do without."""
    assert translate("int x;\n", "a/kernel.cu") == f'#include <cuda_runtime.h>\n{MACRO_DEFINITIONS}#line 1 "a/kernel.cu"\nint x;\n'
    assert translate("int x;\n", "main.cpp") == '#line 1 "main.cpp"\nint x;\n'


def test_the_compilers_macros_are_those_of_cuda_sources_alone() -> None:
    """Each by a name of the same length: torch's headers, which are not translated, may not take g++ for nvcc."""
    assert body("#ifdef __CUDACC__\n#if __NVCC__ && __CUDACC_VER_MAJOR__ > 9\n", "a.cuh") == (
        "#ifdef EMU_CUDACC\n#if EMU_NVCC && EMU_CUDACC_VER_MAJOR > 9\n"
    )
    assert "EMU_CUDACC" in translate("", "kernel.cu") and "EMU_CUDACC" not in translate("", "main.cpp")
    assert body("int __CUDACC__x, x__NVCC__;\n") == "int __CUDACC__x, x__NVCC__;\n"


def test_a_launch_keeps_its_lines_and_its_arguments() -> None:
    """Text is inserted around what the user wrote, never moved."""
    source = "void f() {\n  k<16>\n    <<<grid,\n       dim3(2, 3)>>>\n    (a,\n     b);\n}\n"
    assert body(source) == (
        "void f() {\n  ::emu::emu_kernel(EMU_NAME(k<16>), [&](const auto&... emu_args) { k<16>\n    (emu_args...); }).emu_on(grid,\n"
        "       dim3(2, 3))\n    (a,\n     b);\n}\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        "k<<<1, 2>>>(a);",
        "ns::k<T><<<n, (a + b) >> 1>>>();",
        "(*pointer)<<<1, 2, 0, stream>>>(x);",
        "if (n) k<<<1, {32}>>>(x);",
        'AT_DISPATCH_FLOATING_TYPES(t.scalar_type(), "f", ([&] { k<scalar_t><<<1, 2>>>(t.data_ptr<scalar_t>()); }));',
    ],
)
def test_every_form_of_launch_is_rewritten(source: str) -> None:
    """No `<<<` is left for g++."""
    translated = body(f"void f() {{ {source} }}\n")
    assert "<<<" not in translated and ">>>" not in translated and translated.count("::emu::emu_kernel(") == 1


def test_a_launch_in_a_macro_is_rewritten() -> None:
    translated = body("#define LAUNCH(name, n, ...) \\\n  do { name##_kernel<<<n, 256>>>(__VA_ARGS__); } while (0)\n")
    assert "<<<" not in translated
    assert "EMU_NAME(name##_kernel)" in translated
    assert translated.count("\n") == 2


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        ("TORCH_LIBRARY_IMPL(mine, CUDA, m) {}", "TORCH_LIBRARY_IMPL(mine, CPU, m) {}"),
        ("TORCH_LIBRARY_IMPL(mine, CPU, m) {}", "TORCH_LIBRARY_IMPL(mine, CUDA, m) {}"),
        ("STABLE_TORCH_LIBRARY_IMPL(mine, CUDA, m) {}", "STABLE_TORCH_LIBRARY_IMPL(mine, CPU, m) {}"),
        ("TORCH_LIBRARY_IMPL(mine, AutogradCUDA, m) {}", "TORCH_LIBRARY_IMPL(mine, AutogradCPU, m) {}"),
        ("auto f = torch::dispatch(c10::DispatchKey::CUDA, &g);", "auto f = torch::dispatch(c10::DispatchKey::CPU, &g);"),
    ],
)
def test_operators_for_a_gpu_are_registered_for_the_cpu(source: str, translated: str) -> None:
    """And those for the CPU out of their way: a file with both has one for each."""
    assert body(source) == translated


def test_dynamic_shared_memory_outside_functions_keeps_the_line_numbers() -> None:
    """The name becomes a macro; the next line is still the user's."""
    translated = body("\nextern __shared__ float4 pool[];\nint next;\n")
    assert '#define pool (::emu::emu_dynamic_shared<float4[]>())\n#line 2 "kernel.cu"\n\nint next;' in translated


def test_static_shared_memory_outside_functions_is_refused() -> None:
    """Such memory has no place of its own to be made in."""
    with pytest.raises(Unsupported, match=r"^kernel.cu:2: the emulated device has no shared variables outside functions"):
        translate("\n__shared__ float pool[4];\n", "kernel.cu")


def test_kernels_say_who_they_are_first() -> None:
    """Every `__global__` body, in macros too; not a declaration."""
    source = "__global__ void a(int x);\n__global__ void __launch_bounds__(64) a(int x) {x = 1; }\n#define K(n) __global__ void n() { }\n"
    assert body(source).count("{ EMU_KERNEL_ENTRY ") == 2


@pytest.mark.parametrize("path", ["kernel.cu", "binding.cpp", "checks.h"])
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("bool f(T x) { return x.is_cuda() && x.device().is_cuda(); }", "bool f(T x) { return x.is_cpu() && x.device().is_cpu(); }"),
        ("bool f(T x) { return x.type().is_cuda(); }", "bool f(T x) { return x.device().is_cpu(); }"),
        ("bool f(T* x) { return !x->is_cpu(); }", "bool f(T* x) { return !x->is_cuda(); }"),
        ("auto f(T x) { return x.cuda(); }", "auto f(T x) { return x.cpu(); }"),
        ("auto o = torch::TensorOptions().device(torch::kCUDA, 0);", "auto o = torch::TensorOptions().device(torch::kCPU, 0);"),
        ("auto d = c10::DeviceType::CUDA;", "auto d = c10::DeviceType::CPU;"),
        ('auto d = torch::Device("cuda:0");', 'auto d = torch::Device("cpu");'),
        ('auto s = "cuda kernels";', 'auto s = "cuda kernels";'),
        ('#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be")', '#define CHECK_CUDA(x) TORCH_CHECK(x.is_cpu(), #x " must be")'),
        ("at::cuda::getCurrentCUDAStream();", "at::cuda::getCurrentCUDAStream();"),
    ],
)
def test_a_tensor_of_the_emulated_device_is_a_cuda_tensor(path: str, source: str, expected: str) -> None:
    """In every kind of file, and in macros."""
    assert body(source + "\n", path) == expected + "\n"


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("#include <cstdio>\n#include <cuda_fp4.h>\n", 2, "no fp4 types"),
        ('__device__ void f() {\n  asm volatile("wgmma.fence.sync.aligned;");\n}\n', 2, "wgmma"),
        ('#define FENCE() \\\n  asm volatile("wgmma.fence.sync.aligned;")\n', 2, "wgmma"),
        ("__global__ void k() {\n\n  cudaDeviceSynchronize();\n}\n", 3, "no kernels launched by kernels"),
        ("#include <cublas_v2.h>\nvoid f() { cublasCreate(&h); }\n", 2, "no cuBLAS, of which cublasCreate"),
    ],
)
def test_what_is_not_covered_is_refused_with_its_line(source: str, line: int, words: str) -> None:
    """The sentence for people is at the place of the feature. test_emulation_page has every source of unsupported.toml refused."""
    with pytest.raises(Unsupported) as caught:
        translate(source, "dir/kernel.cu")
    assert (caught.value.path, caught.value.line) == ("dir/kernel.cu", line)
    assert words in caught.value.sentence
    assert str(caught.value).startswith(f"dir/kernel.cu:{line}: ")


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ('const char* s = "k<<<1, 2>>>(x) __shared__ is_cuda()"; // k<<<1, 2>>>(x.is_cuda())\n/* asm("bar"); wmma */\n', "kernel.cu"),
        ('void f() { asm volatile("" ::: "memory"); }\n', "kernel.cu"),
        ('#if 0\nvoid f() { asm volatile("bar.sync 0;"); }\n#endif\n', "kernel.cu"),
        ("// <mma.h>\n", "kernel.cu"),
        ('void f() { asm("nop"); }\n', "main.cpp"),
        ("TORCH_LIBRARY(CUDA, m) {}\n", "kernel.cu"),
        ("int CPU = f(CUDA, m);\n", "kernel.cu"),
    ],
    ids=["text and comments", "a fence", "code switched off", "a comment", "assembly of the host", "a library", "other names"],
)
def test_what_only_looks_like_device_code_is_left_alone(source: str, path: str) -> None:
    assert body(source, path) == source


VOLATILE = "__device__ volatile int f;\n"


@pytest.mark.parametrize(
    ("loop", "translated"),
    [
        ("while (f == 0);", "while (::emu::emu_turn(), f == 0);"),
        ("do {} while (!f);", "do {} while (::emu::emu_turn(), !f);"),
        ("for (;;) if (f) break;", "for (;::emu::emu_turn();) if (f) break;"),
        ("for (; f == 0;);", "for (;::emu::emu_turn(),  f == 0;);"),
        ("while (int i = f) {}", "while (int i = f) {}"),
        ("while (auto* p = g()) {}", "while (auto* p = g()) {}"),
        ("while (i = f) {}", "while (::emu::emu_turn(), i = f) {}"),
        ("for (int i = 0; f == 0; ++i) g();", "for (int i = 0;::emu::emu_turn(),  f == 0; ++i) g();"),
        ("for (int i = 0;; ++i) if (f) break;", "for (int i = 0;::emu::emu_turn(); ++i) if (f) break;"),
        ("for (int v = f; v == 0; v = f) {}", "for (int v = f;::emu::emu_turn(),  v == 0; v = f) {}"),
        ("for (int i = 0; i < 4; ++i) g();", "for (int i = 0; i < 4; ++i) g();"),
        ("for (int v : values) g(v);", "for (int v : values) g(v);"),
        ("again: if (!f) goto again; else g();", "again: if (!f) while (::emu::emu_turn()) goto again; else g();"),
    ],
)
def test_a_loop_that_may_wait_for_a_volatile_lets_other_threads_run(loop: str, translated: str) -> None:
    """In device code of a source with a volatile; asm is none."""
    kernel = "__global__ void k() { " + loop + " }\n"
    assert translated in body(VOLATILE + kernel)
    assert "emu_turn" not in body(kernel)
    assert "emu_turn" not in body('__device__ void g() { asm volatile("" ::: "memory"); }\n' + kernel)
    assert "emu_turn" not in body(VOLATILE + kernel.replace("__global__ ", ""))


def test_what_cannot_be_parsed_is_left_to_the_compiler() -> None:
    """A syntax error is g++'s to report."""
    assert "float x = ;" in body("__global__ void k() {\n float x = ;\n}\n")


KERNEL = "__global__ void k(float* x) {{\n{body}\n}}\n"


@pytest.mark.parametrize(
    "body",
    [
        "#if __CUDA_ARCH__ >= 600\n    x[0] = 1;\n#endif",
        "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 600\n    x[0] = 1;\n#endif",
        "#ifdef __CUDA_ARCH__\n    for (int i = 0; i < 3; ++i) x[i] += 1;\n#endif",
        "    int i = threadIdx.x;\n#if __CUDA_ARCH__ > 700\n    if (i < 3) { x[i]++; }\n#endif",
    ],
)
def test_work_for_some_architectures_only_is_refused_and_not_left_out(body: str) -> None:
    """Such work was a wrong answer that had written nothing."""
    with pytest.raises(Unsupported, match="has no __CUDA_ARCH__") as caught:
        translate(KERNEL.format(body=body), "k.cu")
    assert caught.value.line == 2 + body.split("#if")[0].count("\n")


@pytest.mark.parametrize(
    "source",
    [
        KERNEL.format(body="#if __CUDA_ARCH__ >= 600\n    x[0] = 1;\n#else\n    x[0] = 2;\n#endif"),
        KERNEL.format(body="#if __CUDA_ARCH__ < 600\n    x[0] = 1;\n#endif"),
        KERNEL.format(body="#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600\n    x[0] = 1;\n#endif"),
        KERNEL.format(body="#ifndef __CUDA_ARCH__\n    x[0] = 1;\n#endif"),
        KERNEL.format(body="#if __CUDA_ARCH__ >= 800\n    prefetch(x);\n#endif\n    x[0] = 1;"),
        KERNEL.format(body="#if FAST\n    x[0] = 1;\n#endif"),
        "#if __CUDA_ARCH__ >= 600\n#define FAST 1\n#endif\n",
        "__host__ __device__ int f() {\n#ifdef __CUDA_ARCH__\n    return 1;\n#endif\n    return 2;\n}\n",
    ],
)
def test_what_asks_for_the_architecture_otherwise_is_built(source: str) -> None:
    """With an answer for those that have none, outside of device code, or for a call that may be a hint."""
    translate(source, "k.cu")


WGMMA = '    asm volatile("wgmma.fence.sync.aligned;");'


@pytest.mark.parametrize(
    "condition",
    [
        "#ifdef __CUDA_ARCH__",
        "#if __CUDA_ARCH__",
        "#if __CUDA_ARCH__ >= 900",
        "#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900)",
        "#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && __CUDA_ARCH__ > 890",
        "#if FAST\n    x[0] = 2;\n#elif __CUDA_ARCH__ >= 900",
    ],
)
def test_what_another_branch_does_instead_is_not_refused(condition: str) -> None:
    """No architecture is defined, so the branch is never compiled; it stays as it was written."""
    body = f"{condition}\n{WGMMA}\n#else\n    x[0] = 1;\n#endif"
    text = translate(KERNEL.format(body=body), "k.cu")
    assert WGMMA in text
    preprocessed = subprocess.run(["g++", "-E", "-x", "c++", "-"], input=text.split("\n", 1)[1], capture_output=True, text=True, check=True)
    assert "wgmma" not in preprocessed.stdout and "x[0] = 1;" in preprocessed.stdout


@pytest.mark.parametrize(
    "source",
    [
        KERNEL.format(body=f"#if __CUDA_ARCH__ >= 900\n{WGMMA}\n#endif"),
        KERNEL.format(body=f"#if __CUDA_ARCH__ >= 900\n{WGMMA}\n#else\n    __trap();\n#endif"),
        *(
            KERNEL.format(body=f"#if {condition}\n{WGMMA}\n#else\n    x[0] = 1;\n#endif")
            for condition in (
                *("__CUDA_ARCH__ >= 0", "__CUDA_ARCH__ < 900", "__CUDA_ARCH__ != 900", "900 >= __CUDA_ARCH__"),
                *("__CUDA_ARCH__ >= 900 || FAST", "!defined(__CUDA_ARCH__)", "__CUDA_ARCH__ ? 0 : 1", "__CUDA_ARCH__ == 00"),
            )
        ),
        KERNEL.format(body=f"#ifndef __CUDA_ARCH__\n{WGMMA}\n#else\n    x[0] = 1;\n#endif"),
        KERNEL.format(body=f"#if __CUDA_ARCH__ >= 900\n    x[0] = 1;\n#else\n{WGMMA}\n#endif"),
        "#define __CUDA_ARCH__ 900\n" + KERNEL.format(body=f"#if __CUDA_ARCH__ >= 900\n{WGMMA}\n#else\n    x[0] = 1;\n#endif"),
    ],
)
def test_what_may_be_compiled_is_refused_in_every_branch(source: str) -> None:
    """Also where nothing else is done instead: its absence would be a wrong answer, or a trap, that nobody understands."""
    with pytest.raises(Unsupported, match="has no warpgroup instructions"):
        translate(source, "k.cu")


def test_a_kernels_cluster_is_what_the_device_is_told_when_it_asks() -> None:
    """The sizes stand in the kernel's first statement; a file without clusters pays nothing."""
    text = translate("__global__ void __cluster_dims__(W, 2) k(int* x) { *x = 1; }\n", "k.cu")
    assert "{ EMU_CLUSTER_ENTRY(W, 2)  *x = 1; }" in text and "any_cluster = true" in text
    assert "any_cluster" not in translate("__global__ void k(int* x) { *x = 1; }\n", "k.cu")


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


def sanitized(body: str, head: str = "__device__ void k()") -> str:
    """The code of a function with this body, as it is compiled for the sanitizer."""
    return translate(f"{head} {{ {body} }}", "k.cu", sanitize=True).splitlines()[-1]


@pytest.mark.parametrize(("body", "marked"), MARKED)
def test_a_variable_without_an_initialiser_is_marked(body: str, marked: str) -> None:
    assert marked in sanitized(body)


@pytest.mark.parametrize("body", UNMARKED)
def test_other_variables_are_left_alone(body: str) -> None:
    """Variables with a value, or another life than that of one thread, stay as they are."""
    assert "EMU_LOCAL" not in sanitized(body)


@pytest.mark.parametrize(("head", "marked"), [("__global__ void k()", True), ("void k()", False), ("__device__ constexpr int k()", False)])
def test_only_device_code_is_marked(head: str, marked: bool) -> None:
    """Nothing of the host's, nor what the compiler evaluates; and nothing at all without the sanitizer."""
    assert ("EMU_LOCAL" in sanitized("float x; x = 1;", head)) is marked
    assert "EMU_LOCAL" not in translate(f"{head} {{ float x; }}", "k.cu")


def test_a_source_that_does_not_compile_with_the_marks_is_compiled_without(tmp_path: Path) -> None:
    with_marks = Emulated(files=tmp_path, translated=tmp_path, sources={"k.cu": ""}, ready=tmp_path, sanitize=True, has_additions=True)
    without = with_marks.fallback()
    assert without is not None and without.fallback() is None

    def flags(compiler: Emulated) -> tuple[str, ...]:
        (step,) = compiler.compile("k.cu", 0, Headers(include_dirs=(), defines=()), tmp_path)
        return step.command

    assert gcc.WITHOUT_ADDITIONS not in flags(with_marks)
    assert isinstance(without, Emulated) and gcc.WITHOUT_ADDITIONS in flags(without)


def test_a_slip_before_a_launch_is_left_to_the_compiler() -> None:
    """Where a parenthesis is missing, the host's function seems to be a part of the kernel. The control: a kernel that launches one."""
    kernel, launch = "__global__ void k(float* x) {{ for (int j = 0; j < 4; j++{} x[j] = 1; {} }}\n", "k<<<1, 1>>>(x);"
    host = f"void launch(float* x) {{ {launch} }}\n"
    assert "j++ x[j]" in translate(kernel.format("", "") + host, "kernel.cu")
    with pytest.raises(Unsupported, match="launched by kernels"):
        translate(kernel.format(")", launch) + host, "kernel.cu")
