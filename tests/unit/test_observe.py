"""A launch under observation in every thread: kernels, PyTorch's operators and NumPy's functions."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import run
from types import SimpleNamespace

import pytest

from sandbox.judge.library_use import UNTOLD, from_run, own_share
from sandbox.protocol.gate import MESSAGE_LIMIT_BYTES
from sandbox.runner.observe import CUT, kernel_name, numpy_calls, observe, observe_amounts
from tests.collection import AFTER_COLLECTION
from tests.unit.fat_objects import fat_object

if AFTER_COLLECTION:
    import numpy as np
    import torch
    from torch._C import _autograd, _profiler
    from torch.autograd import DeviceType  # type: ignore[attr-defined]

    CUDA = _profiler.ProfilerActivity.CUDA


ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, {}, std::array<char*, 1ul> >(int, {}, std::array<char*, 1ul>)"
COPY = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda"
    "(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}>"
    "(at::TensorIteratorBase&, ...)::{lambda(int)#1}>"
)
# With ProfilerActivity.CUDA torch's profiler has the runtime's and the driver's calls, too, and its own work.
ON_HOST = ("cudaLaunchKernel", "cuLaunchKernelEx", "cudaDeviceSynchronize", "Activity Buffer Request", "Lazy Function Loading")
ON_DEVICE = ("Memcpy DtoD (Device -> Device)", "Memset (Device)", "Context Sync", "add(float const*, float*)")


@pytest.mark.parametrize(
    ("profiler_name", "name"),
    [
        ("add(float const*, float*)", "add"),
        ("void tiled<32, float>(float*)", "tiled"),
        ("cudapy::submission::add[abi:v1][abi:cw51cXTL](Array<float, 1, C, mutable, aligned>)", "cudapy::submission::add"),
        ("a lambda {of no known form}", "a lambda {of no known form}"),
        ("void mine::inner::f<g<int> >(h<2>)", "mine::inner::f"),
        ("(anonymous namespace)::hidden_away(float*)", "hidden_away"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>(float*)", "at::native::cunn_SoftMaxForward"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32", "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32"),
        (ELEMENTWISE.replace("{}", "at::native::AddFunctor<float>"), "at::native::vectorized_elementwise_kernel"),
        (ELEMENTWISE.replace("{}", "at::native::FillFunctor<float>"), ""),
        (COPY, ""),
    ],
)
def test_a_kernel_has_the_name_of_its_source(profiler_name: str, name: str) -> None:
    """Without template and arguments; what only copies or fills has none, as the operators that call it are harmless."""
    assert kernel_name(profiler_name) == name


class Event:
    """Something that torch's profiler sees."""

    def __init__(self, name: str, *, on_gpu: bool, annotation: bool = False, duration_ns: int = 0) -> None:
        self.duration_ns = lambda: duration_ns
        self.name, self.is_user_annotation = (lambda: name), (lambda: annotation)
        self.device_type = lambda: DeviceType.CUDA if on_gpu else DeviceType.CPU


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Return the events that torch's profiler sees on a GPU, next to those that it sees here."""
    events: list[Event] = []
    stop = _autograd._disable_profiler
    start, prepare = _autograd._enable_profiler, _autograd._prepare_profiler
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(_autograd, "_prepare_profiler", lambda config, activities: prepare(config, activities - {CUDA}))
    monkeypatch.setattr(_autograd, "_enable_profiler", lambda config, activities: start(config, activities - {CUDA}))
    monkeypatch.setattr(_autograd, "_disable_profiler", lambda: SimpleNamespace(events=lambda: [*stop().events(), *events]))
    return events


def test_only_kernels_are_told_of_what_the_profiler_sees(launched: list[Event]) -> None:
    """A kernel of one's own was refused for cudaDeviceSynchronize, which is no kernel and in no artifact. Operators and kernels are of one
    launch: a second one, on the same inputs, could return the first one's result."""
    launched += [Event(name, on_gpu=False) for name in ON_HOST]
    launched += [Event(name, on_gpu=True) for name in ON_DEVICE]
    launched.append(Event("a range that the kernel's host code names", on_gpu=True, annotation=True))
    launches: list[torch.Tensor] = []
    observation = observe(lambda: launches.append(torch.empty(3)), kernels=True)
    assert observation == "operator empty\nkernel add" and len(launches) == 1
    assert from_run(observation, fat_object("_Z3addPKfPf")) == () and from_run(observation, b"nothing") == ("the kernel add",)


def test_who_launches_more_than_there_is_room_for_is_not_acquitted(launched: list[Event]) -> None:
    """Its own kernels with long names would push another's out."""
    launched += [Event(f"{'my' * 50}_{index}", on_gpu=True) for index in range(60)]
    launched.append(Event("sgemm", on_gpu=True))
    observation = observe(lambda: None, kernels=True)
    assert len(observation.encode()) <= MESSAGE_LIMIT_BYTES and observation.splitlines()[0] == CUT
    artifact = fat_object(*(event.name() for event in launched[:-1]))
    assert from_run(observation, artifact) == (UNTOLD,)
    del launched[3:-1]
    assert from_run(observe(lambda: None, kernels=True), artifact) == ("the kernel sgemm",)


def test_each_kernel_is_told_with_its_time(launched: list[Event]) -> None:
    """The longest first; copies by a kernel count, and those of the driver do not. A decoy next to a library's product is little."""
    times = {"decoy(float*)": 2_000, "sm90_xmma_gemm_f32": 390_000, COPY: 8_000, "Memcpy DtoD (Device -> Device)": 10**9}
    launched += [Event(name, on_gpu=True, duration_ns=duration_ns // 2) for name, duration_ns in times.items() for _ in range(2)]
    observation = observe_amounts(lambda: None, True, tuple)
    assert observation.splitlines() == ["390000 kernel sm90_xmma_gemm_f32", "8000 kernel ", "2000 kernel decoy"]
    assert own_share(observation, fat_object("_Z5decoyPf")) == 0.005 and own_share(observation, b"nothing") == 0.0
    launched[:] = [Event(f"{'library' * 50}_{index}", on_gpu=True, duration_ns=1) for index in range(60)]
    launched.append(Event("mine", on_gpu=True, duration_ns=9_999))
    observation = observe_amounts(lambda: None, True, tuple)
    assert len(observation.encode()) <= MESSAGE_LIMIT_BYTES and own_share(observation, fat_object("_Z4minev")) > 0.99


Call = Callable[[Callable[[], object]], None]


@pytest.fixture
def in_old_thread() -> Iterator[Call]:
    """Call a function in a thread that was started before anything is observed."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        yield lambda function: pool.submit(function).result(timeout=300)


def in_new_thread(function: Callable[[], object]) -> None:
    worker = threading.Thread(target=function)
    worker.start()
    worker.join()


def by_a_dispatch_mode_alone(launch: Callable[[], object]) -> list[str]:
    """Return the operators of the runner's own thread, as it saw them before."""
    from torch.utils._python_dispatch import TorchDispatchMode

    called: list[str] = []

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            called.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    with Watch():  # type: ignore[no-untyped-call]
        launch()
    return called


def test_operators_of_every_thread_are_seen(in_old_thread: Call) -> None:
    """Of one started before, and of one that the launch starts. Control: a dispatch mode of the runner's thread sees neither."""
    x = torch.ones(100)

    def launch() -> None:
        in_old_thread(lambda: torch.mul(x, x))
        in_new_thread(lambda: torch.dot(x, x))

    assert {"operator mul", "operator dot"} <= set(observe(launch, kernels=False).splitlines())
    assert by_a_dispatch_mode_alone(launch) == []


CPP = """
#include <thread>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
extern "C" void solve(float* x, long n) {
    std::thread([=] { at::from_blob(x, {n}).mul_(2); }).join();
}
"""


@pytest.mark.slow
def test_operators_of_a_thread_of_cpp_are_seen(tmp_path: Path) -> None:
    """A thread that Python knows nothing of. Control: a dispatch mode does not see it."""
    package = Path(torch.__file__).parent
    (tmp_path / "kernel.cpp").write_text(CPP)
    includes = [f"-I{package / 'include'}", f"-I{package / 'include/torch/csrc/api/include'}"]
    command = ["g++", "-shared", "-fPIC", "-std=c++20", *includes, str(tmp_path / "kernel.cpp"), "-o", str(tmp_path / "kernel.so")]
    run([*command, f"-L{package / 'lib'}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{package / 'lib'}"], check=True)
    solve = ctypes.CDLL(str(tmp_path / "kernel.so")).solve
    x = torch.ones(100)

    def launch() -> None:
        solve(ctypes.c_void_p(x.data_ptr()), ctypes.c_long(100))

    assert "operator mul_" in observe(launch, kernels=False).splitlines()
    assert by_a_dispatch_mode_alone(launch) == []


def test_operators_of_memory_and_shape_are_harmless_in_every_thread() -> None:
    """The profiler sees more of them than a dispatch mode does."""
    x = torch.ones(100, 3)

    def move() -> None:
        x.t().contiguous().to(torch.float64).reshape(-1).view(3, -1)[1:].clone()
        torch.zeros(3).copy_(torch.tensor([1.0, 2.0, 3.0]))
        for way in (x.flatten, x.tolist, x.half, x.numpy, x[0, 0].item):
            way()
        x[:, 0] = 2

    assert from_run(observe(lambda: in_new_thread(move), kernels=False), b"") == ()


WAYS = {
    "multiply": lambda a: a * 2,
    "add": lambda a: np.add(a, a, out=a),
    "matmul": lambda a: a @ a,
    "ndarray.dot": lambda a: a.dot(a),
    "ndarray.sum": lambda a: a.sum(),
    "einsum": lambda a: np.einsum("i,i", a, a),
    "ufunc.reduce": lambda a: np.add.reduce(a, axis=0),
    "c_einsum": lambda a: np._core.multiarray.c_einsum("i,i", a, a),
    "dot": lambda a: np.dot._implementation(a, a),  # what it dispatches to
    "maximum": lambda a: list(map(np.maximum, [a], [a])),
}


@pytest.mark.parametrize("name", WAYS)
def test_what_numpy_computes_is_seen_in_every_thread(name: str, in_old_thread: Call) -> None:
    """Functions, operators of arrays, methods. Control: a dispatch mode sees none of it."""
    a = np.ones(100, np.float32)
    for call in (in_old_thread, in_new_thread):

        def launch(call: Call = call) -> None:
            call(lambda: WAYS[name](a))

        assert f"library numpy.{name}" in observe(launch, kernels=False).splitlines()
        assert f"numpy.{name}" in from_run(observe(launch, kernels=False), b"")
        assert by_a_dispatch_mode_alone(launch) == []


def test_numpy_is_as_before_after_a_launch() -> None:
    """Its errors come through while it is watched, and nothing is noted later."""

    def fail() -> None:
        for wrong in (lambda: np.add(np.ones(9), np.ones(10)), lambda: np.ones(9).dot(np.ones(10))):
            with pytest.raises(ValueError, match=r"aligned|broadcast"):
                wrong()

    calls: dict[str, None] = {}
    with numpy_calls(calls):
        fail()
    assert set(calls) == {"library numpy.add", "library numpy.ndarray.dot"}
    calls.clear()
    fail()
    assert calls == {}


def test_numpy_on_shapes_and_single_numbers_is_no_library() -> None:

    def launch() -> None:
        assert np.prod((20, 30, 40)) / np.sqrt(64.0) + np.float32(2) * 3 + np.array([4, 5]).max() + np.ceil(7 / 2) > 0
        np.zeros(100).reshape(10, 10).T.copy()[1:].astype(np.float32)

    assert observe(launch, kernels=False) == ""


def test_numpy_inside_an_interpreter_of_kernels_is_no_library() -> None:
    """Triton's and Numba's stand for a GPU. Control: the same function of another module is seen."""
    for module, lines in (("triton.runtime.interpreter", []), ("numba.cuda.simulator.kernel", []), ("submission", ["library numpy.add"])):
        scope: dict[str, object] = {"__name__": module, "np": np}
        exec("def launch():\n    return np.add(np.ones(100), 1)", scope)
        assert observe(scope["launch"], kernels=False).splitlines() == lines  # type: ignore[arg-type]
