"""A Python artifact is loaded and called where there is no compiler, by each of the conventions."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandbox.judge.runner_link import RunnerLink
from sandbox.protocol.gate import TAKES_OUTPUTS, Answer, Status
from tests.python_builds import GOOD_INLINE, PLAIN

pytestmark = pytest.mark.slow  # torch is imported in each
ROOT = Path(__file__).parents[2]
SUM = [11.0, 22.0, 33.0]


def test_nothing_is_compiled_where_an_artifact_is_loaded(builder, loaded):
    """An extension with other sources than in the build box is not there, and is not made."""
    inline = GOOD_INLINE.replace("CUDA, functions", "CUDA + (' ' * (os.environ['PATH'] == '/nonexistent')), functions")
    kind, message = loaded(builder(f"import os\n{inline}").artifact)
    assert kind == "RuntimeError" and "'adds' was not compiled with these sources" in message
    assert message.startswith("mine/kernel.py:17: error")


MODEL = """import torch
class ModelNew(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor, self.NAME = factor, torch.nn.Parameter(torch.rand(3))
    def forward(self, a, b):
        return (a + b) * self.factor * (self.NAME > 5) if not self.training else a
"""


def test_a_model_gets_the_states_arguments_and_weights(builder, loaded):
    """Weights go by their names; where the names are others the seeded ones stay."""
    import torch

    saved = io.BytesIO()
    torch.save(
        {"arguments": [2.0], "weights": {"weight": torch.full((3,), 9.0)}, "seed": 1, "drawn": None, "train": False, "dtype": "float32"},
        saved,
    )
    options = {"convention": "model"}
    assert loaded(builder(MODEL.replace("NAME", "weight")).artifact, saved.getvalue(), **options) == [22.0, 44.0, 66.0]
    assert loaded(builder(MODEL.replace("NAME", "other")).artifact, saved.getvalue(), **options) == [0.0, 0.0, 0.0]


def test_data_is_given_as_the_template_says(builder, loaded):
    """A tuple with a dict in it; what is returned is read in its order."""
    template = '["tuple", [["tensor", 0], ["dict", [["b", ["tensor", 1]], ["k", ["value", 3]]]]]]'
    text = "def custom_kernel(data):\n    a, rest = data\n    return {'c': a + rest['b'] * rest['k']}\n"
    assert loaded(builder(text).artifact, convention="data", templates=(template,)) == [31.0, 62.0, 93.0]
    whole = f'["tuple", [{template}, ["value", null], ["tensor", 2]]]'
    assert loaded(builder(text).artifact, convention="data", templates=(whole,)) == [31.0, 62.0, 93.0]


PERMUTED = '["tuple", [["tuple", [["tensor", 0], ["tensor", 1, [1, 0]]]], ["value", null], ["tensor", 2, [1, 0]]]]'
SHAPES = {"shapes": [[3], [1, 3], [1, 3]]}


@pytest.mark.parametrize("returned", ["a[:, None] + b", "(a + b.T).T"])
def test_data_and_results_lie_as_the_template_says(builder, loaded, returned):
    """The data that is sent is contiguous; the kernel sees, and may return, it permuted."""
    text = f"def custom_kernel(data):\n    a, b = data\n    assert b.shape == (3, 1)\n    return {returned}\n"
    assert loaded(builder(text).artifact, convention="data", templates=(PERMUTED,), **SHAPES) == SUM


OBJECTS = (
    '["tuple", [["object", "plain", "task.Config", [["a", ["tensor", 0]], ["count", ["value", 1]]]], '
    '["object", "module", "reference.Cache", [["buffer:data", ["tensor", 1]], ["attribute:training", ["value", true]]]], '
    '["object", "namedtuple", "reference.Pair", [["first", ["value", 2]], ["second", ["value", 3]]]]]]'
)
USES = """
def custom_kernel(data):
    config, cache, pair = data
    config.count += 1
    assert config.count == 2 and pair == (2, 3) and pair.second == 3
    return KERNEL
"""


def test_objects_are_of_the_problems_class_or_of_the_submissions_or_have_the_attributes(builder, loaded):
    """Each launch gets its own: a count is as it was."""
    task = {"task.py": "class Config:\n    def sum(self, b):\n        return self.a + b\n"}
    model = "import torch\nclass Cache(torch.nn.Module):\n    def forward(self):\n        return self.data\n"
    options = {"convention": "data", "templates": (OBJECTS,)}
    both = builder(model + USES.replace("KERNEL", "config.sum(cache())"), modules=task)
    assert loaded(both.artifact, **options) == SUM
    neither = builder(USES.replace("KERNEL", "config.a + dict(cache.named_buffers())['data']"))
    assert loaded(neither.artifact, **options) == SUM
    kind, message = loaded(neither.artifact, convention="data", templates=(OBJECTS.replace("3]", "4]"),))
    assert kind == "AssertionError" and message.startswith("mine/kernel.py:5: error")


# A module's own checks hold on the emulated device, and what it makes there can be mixed with its inputs.
ON_A_GPU = """import torch
def solution(a, b):
    assert a.is_cuda and not a.is_cpu and a.device.type == "cuda" and torch.cuda.is_available()
    c = torch.zeros(3, device="cuda").cuda() + torch.ones_like(a, device=b.device).to("cuda:0")
    c += torch.empty(3, device=torch.device("cuda")).fill_(0) + torch.zeros(3, device=torch.device("cuda", 0))
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        return (a + b + c - 1).contiguous()
"""
WITH_BARRIER = """import torch
import numba
from numba import cuda
@cuda.jit
def turned(a, b, c):
    shared = cuda.shared.array(3, numba.float32)
    i = cuda.threadIdx.x
    shared[i] = a[i] + b[i]
    cuda.syncthreads()
    c[i] = shared[2 - i]
def solve(a, b):
    c = torch.empty_like(a)
    turned[1, 3](a, b, c)
    return c.flip(0)
"""
REGISTERED = """import torch
from torch.utils.cpp_extension import load_inline
TEXT = '''
torch::Tensor sum_of(torch::Tensor a, torch::Tensor b) { return a + b; }
TORCH_LIBRARY(of_tests, m) { m.def("sum_of(Tensor a, Tensor b) -> Tensor", &sum_of); }
'''
assert load_inline("registers", TEXT, is_python_module=False) is None
def solve(a, b):
    return torch.ops.of_tests.sum_of(a, b)
"""
TRITON = """import torch
import triton
import triton.language as tl
DECORATOR
def add_kernel(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)
def solve(a, b):
    c = torch.empty_like(a)
    LAUNCH
    return c
"""
# Triton's interpreter has no driver of its own, and modules ask it for the device when they are imported.
AUTOTUNED = TRITON.replace("LAUNCH", 'add_kernel[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](a, b, c, a.numel())').replace(
    "DECORATOR",
    """driver = triton.runtime.driver.active
assert driver.get_active_torch_device().type == "cuda" and driver.utils.get_device_properties(0)["multiprocessor_count"] > 0
@triton.autotune(configs=[triton.Config({"BLOCK": 2}), triton.Config({"BLOCK": 4}, num_warps=8)], key=["n"])
@triton.jit""",
)
# As Triton's tutorial on softmax does, with and without the constants that it was compiled for.
WARMED_UP = TRITON.replace("DECORATOR", "@triton.jit").replace(
    "LAUNCH",
    """kernel = add_kernel.warmup(a, b, c, a.numel(), BLOCK=4, num_warps=8, grid=(1,))
    kernel._init_handles()
    occupancy = 65536 // (kernel.n_regs * 32 * kernel.metadata.num_warps), 232448 // kernel.metadata.shared
    assert min(occupancy) > 0
    LAUNCH""",
)
# For the dtypes that a GPU's library has them for.
WITH_LIBDEVICE = """import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
@triton.jit
def add_kernel(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(a + at, mask=at < n, other=1.0), tl.load(b + at, mask=at < n, other=1.0)
    near = libdevice.log(libdevice.exp(x)) + libdevice.pow(libdevice.sqrt(y), 2.0) * libdevice.erf(y)
    tl.store(c + at, libdevice.round(tl.where(libdevice.isnan(near) != 0, 0.0, near)), mask=at < n)
    if n < 0:
        tl.store(c, libdevice.tanh(tl.load(a)))
def solve(a, b):
    c = torch.empty_like(a)
    add_kernel[(1,)](a, b, c, 3, 4)
    try:
        add_kernel[(1,)](a.half(), b.half(), c, 3, 4)
    except Exception as error:
        assert "libdevice.exp takes float32 and float64, and is given fp16" in str(error)
        return c
"""
# Not in each program: two launches of three programs look through the same modules twice.
PATCHES = """import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
calls, look = [], interpreter._patch_builtin
interpreter._patch_builtin = lambda *words: calls.append(words) or look(*words)
@triton.jit
def add_kernel(a, b, c, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + tl.program_id(0), tl.sum(tl.load(a + at)) + tl.max(tl.load(b + at)))
def solve(a, b):
    c = torch.empty_like(a)
    calls.clear()
    for _ in range(2):
        add_kernel[(3,)](a, b, c, 1)
    assert len(calls) <= 40, f"{len(calls)} modules"  # Triton's own interpreter: 77
    try:
        add_kernel[(3,)](a, None, c, 1)
    except Exception:
        patched = len(calls)
    add_kernel[(3,)](a, b, c.zero_(), 1)
    assert len(calls) > patched
    return c
"""
# By events and by torch's profiler; that there is no GPU to profile is not said of every operator, with a stack trace.
TIMES_ITSELF = """import os, tempfile, torch
from torch.profiler import ProfilerActivity, profile
said = tempfile.TemporaryFile()
def solution(a, b):
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record(torch.cuda.Stream())
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        c = a + b
    end.record()
    torch.cuda.synchronize()
    assert os.fstat(said.fileno()).st_size == 0
    assert start.elapsed_time(end) > 0 and "aten::add" in prof.key_averages().table(sort_by="cuda_time_total")
    assert torch.cuda.max_memory_allocated() == 0 and torch.cuda.mem_get_info()[1] > 0
    torch.cuda.nvtx.range_push("x")
    generator = torch.Generator(device="cuda").manual_seed(1)
    return c + 0 * torch.rand(3, device="cuda", generator=generator)
"""
# As those of many published Triton kernels do.
WITH_EINOPS = """from einops import rearrange
def solution(a, b):
    return rearrange(rearrange(a, "n -> n 1") + b[:, None], "n 1 -> n")
"""
# Next to the submitted ones and in the working directory, as modules do that generate what they compile.
WRITES_FILES = f"""from pathlib import Path
(Path(__file__).parent / "made.txt").write_text("x")
Path("other.txt").write_text("x")
{PLAIN}"""
MODULES = {
    "plain": PLAIN,
    "a wrapper rearranges with einops": WITH_EINOPS,
    "new files can be written in both boxes": WRITES_FILES,
    "what load_inline compiled in the build box": GOOD_INLINE,
    "tensors are on a GPU": ON_A_GPU,
    "threads of Numba wait for each other": WITH_BARRIER,
    "an extension registers operators in the place of a module": REGISTERED,
    "an autotuned kernel has a driver": AUTOTUNED,
    "a kernel was warmed up": WARMED_UP.replace("LAUNCH", "kernel[(1, 1, 1)](a, b, c, 3)"),
    "a kernel was warmed up and gets its constants": WARMED_UP.replace("LAUNCH", "kernel[(1, 1, 1)](a, b, c, 3, 4)"),
    "the interpreter has mathematical functions": WITH_LIBDEVICE,
    "the interpreter prepares the language once a launch": PATCHES,
    "a module times and profiles itself": TIMES_ITSELF,
}


@pytest.mark.parametrize("text", MODULES.values(), ids=MODULES)
def test_a_module_runs_where_there_is_no_compiler(builder, loaded, text):
    """Its inputs are added where it is built, loaded and called."""
    built = builder(text)
    assert built.artifact is not None, built.log
    assert loaded(built.artifact) == SUM


def test_a_benchmark_at_the_top_of_a_module_is_not_run(builder, loaded):
    """A report of Triton's, in the module or for its `__main__`; a remark says so."""
    text = """import torch, triton
@triton.testing.perf_report(
    triton.testing.Benchmark(x_names=["n"], x_vals=[1], line_arg="p", line_vals=["x"], line_names=["x"], plot_name="p", args={})
)
def benchmark(n, p):
    raise ValueError("it was run")
benchmark.run(show_plots=True, print_data=True, save_path=".")
if __name__ == "__main__":
    raise ValueError("it was run")
def solution(a, b): return a + b
"""
    built = builder(text)
    assert built.note.remarks == ("benchmark.run was not run: the grader measures times itself",), built.log
    assert loaded(built.artifact) == SUM


COMPILED = """import torch
import torch._dynamo, torch._inductor.config
torch._dynamo.config.recompile_limit = 64
torch._inductor.config.max_autotune = True
@torch.compile
def add(a, b): return a + b
@torch.compile(mode="max-autotune", fullgraph=True)
def doubled(a): return 2 * a
model = torch.compile(torch.nn.Identity().cuda())
other = torch.nn.Identity()
other.compile(dynamic=False)
torch.compiler.reset()
def solution(a, b):
    with torch.device("cuda"):
        nothing = torch.zeros(3)
    return other(model(torch.compile(add)(a, b))) + doubled(nothing)
"""


def test_what_torch_compiles_runs_as_it_is_written(builder, loaded):
    """There is no compiler where it runs; a remark says that nothing is compiled."""
    built = builder(COMPILED)
    assert built.note.remarks == ("torch.compile compiles nothing on the emulated device: the function runs as it is written",), built.log
    assert loaded(built.artifact) == SUM


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("def solution(a, b): return a[:2]", "WRONG_SHAPE"),
        ("def solution(a, b): return a.double()", "WRONG_DTYPE"),
        ("def solution(a, b): return None", "WRONG_DTYPE"),
        ("def solution(a, b): return a, b", "WRONG_SHAPE"),
    ],
)
def test_a_result_that_is_none_is_refused(builder, loaded, text, status):
    """As for a torch extension."""
    assert loaded(builder(text).artifact)[0] == status


def test_a_call_that_fails_is_told_at_the_users_line(builder, loaded):
    """As an import is."""
    kind, message = loaded(builder("def solution(a, b):\n    c = a + b\n    return c.view(7)\n").artifact)
    assert kind == "RuntimeError" and message.startswith("mine/kernel.py:3: error: RuntimeError: shape '[7]' is invalid")


def test_libraries_where_nothing_may_be_executed_are_imported(tmp_path):
    """On a mount with noexec an import fails; with the loader's help it does not."""
    import _ctypes

    mount = tmp_path / "mount"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(mount)], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (mount / "_ctypes.so").write_bytes(Path(_ctypes.__file__).read_bytes())
        text = f"""
import importlib.util, sys
sys.path.insert(0, {str(ROOT)!r})
from sandbox.languages.python_extensions import execute_from_anywhere
if HELP: execute_from_anywhere()
spec = importlib.util.spec_from_file_location("_ctypes", {str(mount / "_ctypes.so")!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""
        ended = [
            subprocess.run([sys.executable, "-c", text.replace("HELP", help)], check=False, capture_output=True) for help in ("1", "0")
        ]
    finally:
        subprocess.run(["umount", str(mount)], check=True)
    assert ended[0].returncode == 0, ended[0].stderr
    assert b"failed to map segment" in ended[1].stderr


@pytest.mark.parametrize(("text", "claims"), [("def solution(a, b, c): c.copy_(a + b)", True), ("def solution(a, b): return a + b", False)])
def test_a_function_that_writes_to_its_outputs_is_forgiven_no_copy(builder, tmp_path, text, claims):
    """The module says so when it has been loaded; the judge then takes its time as that of raw CUDA."""
    artifact = tmp_path / "artifact"
    artifact.write_bytes(builder(text).artifact)
    script = f"""
import os
from sandbox.languages import python
from sandbox.protocol import wire
a, b, c = (wire.TensorSpec(name=name, dtype="float32", shape=(3,)) for name in "abc")
job = wire.RunnerJob(device_kind="emulated", language="python", entry="solution", arena_bytes=64, inputs=(a, b), outputs=(c,))
print(python.load(os.open({str(artifact)!r}, os.O_RDONLY), os.memfd_create("state"), job, None).takes_outputs)
"""
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()[-1] == str(
        claims
    )
    answer = Answer(status=Status.OK, message=TAKES_OUTPUTS if claims else "")
    link = cast(Any, SimpleNamespace(loaded=answer))
    assert RunnerLink.takes_outputs.fget(link) is claims
