"""One launch under observation: what the runner tells of it."""

from types import SimpleNamespace

import pytest

from sandbox.judge.library_use import UNTOLD, from_run
from sandbox.protocol.gate import MESSAGE_LIMIT_BYTES
from sandbox.runner.observe import CUT, kernel_name, observe
from tests.collection import AFTER_COLLECTION
from tests.unit.fat_objects import fat_object

if AFTER_COLLECTION:
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
    ("told", "name"),
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
def test_a_kernel_has_the_name_of_its_source(told: str, name: str) -> None:
    """Without template and arguments; what only copies or fills has none, as the operators that call it are harmless."""
    assert kernel_name(told) == name


class Event:
    """Something that torch's profiler sees."""

    def __init__(self, name: str, *, on_gpu: bool, annotation: bool = False) -> None:
        self.name, self.is_user_annotation = (lambda: name), (lambda: annotation)
        self.device_type = lambda: DeviceType.CUDA if on_gpu else DeviceType.CPU


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """What torch's profiler will have seen on a GPU, next to what it sees here."""
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
    """A kernel of one's own was refused for cudaDeviceSynchronize, which is no kernel and in no artifact."""
    launched += [Event(name, on_gpu=False) for name in ON_HOST]
    launched += [Event(name, on_gpu=True) for name in ON_DEVICE]
    launched.append(Event("a range that the kernel's host code names", on_gpu=True, annotation=True))
    told = observe(lambda: torch.empty(3), kernels=True)
    assert told == "operator empty\nkernel add"
    assert from_run(told, fat_object("_Z3addPKfPf")) == () and from_run(told, b"nothing") == ("the kernel add",)


def test_who_launches_more_than_there_is_room_for_is_not_acquitted(launched: list[Event]) -> None:
    """Its own kernels with long names would push another's out."""
    launched += [Event(f"{'my' * 50}_{index}", on_gpu=True) for index in range(60)]
    launched.append(Event("sgemm", on_gpu=True))
    told = observe(lambda: None, kernels=True)
    assert len(told.encode()) <= MESSAGE_LIMIT_BYTES and told.splitlines()[0] == CUT
    own = fat_object(*(one.name() for one in launched[:-1]))
    assert from_run(told, own) == (UNTOLD,)
    del launched[3:-1]
    assert from_run(observe(lambda: None, kernels=True), own) == ("the kernel sgemm",)


def test_operators_and_kernels_are_of_one_launch(launched: list[Event]) -> None:
    """A second launch, on the same inputs, could return the first one's result."""
    launched.append(Event("add(float*)", on_gpu=True))
    launches: list[None] = []
    assert observe(lambda: launches.append(None), kernels=True) == "kernel add" and len(launches) == 1
