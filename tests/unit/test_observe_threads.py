"""A launch is observed in every thread: PyTorch's operators and NumPy's functions, each with what was seen before as its control."""

import ctypes
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import run

import pytest

from sandbox.judge.library_use import from_run
from sandbox.runner.observe import numpy_calls, observe
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import numpy as np
    import torch

Call = Callable[[Callable[[], object]], None]


@pytest.fixture
def in_old_thread() -> Iterator[Call]:
    """Calls a function in a thread that was started before anything is observed."""
    asked: queue.Queue[Callable[[], object] | None] = queue.Queue()
    done: queue.Queue[None] = queue.Queue()

    def work() -> None:
        while (function := asked.get()) is not None:
            function()
            done.put(None)

    worker = threading.Thread(target=work)
    worker.start()

    def call(function: Callable[[], object]) -> None:
        asked.put(function)
        done.get(timeout=300)

    yield call
    asked.put(None)
    worker.join()


def in_new_thread(function: Callable[[], object]) -> None:
    """Call it in a thread that is started for it."""
    worker = threading.Thread(target=function)
    worker.start()
    worker.join()


def by_a_dispatch_mode_alone(launch: Callable[[], object]) -> list[str]:
    """What the runner saw before: the operators of its own thread."""
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
#include <ATen/ATen.h>
extern "C" void solve(float* x, long n) {
    std::thread([=] { at::from_blob(x, {n}).mul_(2); }).join();
}
"""


@pytest.mark.slow
def test_operators_of_a_thread_of_cpp_are_seen(tmp_path: Path) -> None:
    """One that Python knows nothing of. Control: a dispatch mode does not see it."""
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
    """What the profiler sees more of than a dispatch mode is made of them."""
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

    found: dict[str, None] = {}
    with numpy_calls(found):
        fail()
    assert set(found) == {"library numpy.add", "library numpy.ndarray.dot"}
    found.clear()
    fail()
    assert found == {}


def test_numpy_on_shapes_and_single_numbers_is_no_library() -> None:
    """Nor is moving values as they are."""

    def launch() -> None:
        assert np.prod((20, 30, 40)) / np.sqrt(64.0) + np.float32(2) * 3 + np.array([4, 5]).max() + np.ceil(7 / 2) > 0
        np.zeros(100).reshape(10, 10).T.copy()[1:].astype(np.float32)

    assert observe(launch, kernels=False) == ""


def test_numpy_inside_an_interpreter_of_kernels_is_no_library() -> None:
    """Triton's and Numba's stand for a GPU. Control: the same function of another module is seen."""
    for module, told in (("triton.runtime.interpreter", []), ("numba.cuda.simulator.kernel", []), ("submission", ["library numpy.add"])):
        scope: dict[str, object] = {"__name__": module, "np": np}
        exec("def launch():\n    return np.add(np.ones(100), 1)", scope)
        assert observe(scope["launch"], kernels=False).splitlines() == told  # type: ignore[arg-type]


