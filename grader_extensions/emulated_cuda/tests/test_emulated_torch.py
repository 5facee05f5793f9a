"""PyTorch on the emulated device: what `torch.cuda` and `torch.accelerator` answer without a GPU."""

import subprocess
import sys

import pytest

# Each is an expression that is true.
USES = """
torch.cuda.Stream().device == torch.device("cuda", 0)
torch.cuda.Stream.priority_range() == (0, 0)
isinstance(torch.cuda.current_stream(), torch.cuda.Stream) and isinstance(torch.Stream(device="cuda"), torch.Stream)
isinstance(torch.cuda.StreamContext(torch.cuda.Stream()).__enter__(), torch.cuda.StreamContext)
torch.cuda.current_stream().record_event(torch.Event(device="cuda")).query()
torch.cuda.set_stream(torch.cuda.Stream()) is None
torch.cuda.get_stream_from_external(0) is torch.cuda.default_stream()
torch.cuda.is_current_stream_capturing() is False
torch.cuda.FloatTensor([1.0]).is_cuda and torch.cuda.HalfTensor(3).dtype == torch.float16
torch.zeros(3, device=0).is_cuda and torch.zeros(3).to(0).is_cuda and torch.zeros(3).to(0, torch.float16).dtype == torch.float16
torch.tensor([1.0], device=torch.cuda.current_device()).device == torch.device(0)
torch.zeros(2, 3).sum(0).shape == (3,) and torch.zeros(2, 3).to(torch.int32).dtype == torch.int32
torch.accelerator.synchronize() is None and torch.accelerator.current_accelerator() == torch.device("cuda")
torch.accelerator.is_available() and torch.accelerator.device_count() == 1 and torch.accelerator.current_device_index() == 0
torch.accelerator.current_stream() is torch.cuda.current_stream()
torch.cuda.default_generators[0] is torch.default_generator
torch.cuda.initial_seed() == torch.initial_seed()
torch.cuda.memory_summary() == "" and torch.cuda.memory_snapshot() == [] and torch.cuda.memory_stats() == {}
torch.cuda.memory.memory_allocated() == torch.cuda.max_memory_allocated() == torch.cuda.memory_reserved(0) == 0
torch.cuda.memory.mem_get_info() == torch.cuda.mem_get_info(0)
torch.cuda.set_per_process_memory_fraction(0.9) is None and torch.cuda.reset_peak_memory_stats() is None
torch.cuda.memory._record_memory_history() is None
torch.cuda.get_allocator_backend() == "" and torch.cuda.list_gpu_processes() == ""
torch.cuda.utilization() == torch.cuda.temperature() == torch.cuda.clock_rate() == 0
torch.cuda.can_device_access_peer(0, 0) is False
torch.cuda.get_sync_debug_mode() == 0 and torch.cuda.set_sync_debug_mode(0) is None
torch.cuda.cudart().cudaProfilerStart() == 0 and torch.cuda.profiler.start() is None
torch.cuda._sleep(100) is None and torch.cuda.check_error(0) is None
torch.cuda.is_bf16_supported() and torch.cuda.is_tf32_supported()
torch.cuda.tunable.is_enabled() is False
torch.cuda.device(0).__enter__() is not None and torch.cuda.device_of(torch.zeros(1)).__enter__() is not None
torch.cuda.nvtx.range("a")(lambda: 5)() == 5
torch.random.fork_rng(devices=[0]).__enter__() is None
torch.manual_seed(3) is torch.default_generator and torch.cuda.manual_seed_all(3) is None
""".strip().splitlines()
EVALUATE = """
import sys, torch
from grader_extensions.emulated_cuda import emulated_torch
emulated_torch.install("")
for use in sys.stdin:
    try:
        print("yes" if eval(use) else "no")
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """Return whether each use is true, or what it raised; from a process of their own, as torch is changed."""
    outcome = subprocess.run(
        [sys.executable, "-c", EVALUATE], input="\n".join(USES), capture_output=True, text=True, check=True, timeout=120
    )
    return dict(zip(USES, outcome.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("use", USES)
def test_a_use_of_torch_cuda(use: str, answers: dict[str, str]) -> None:
    assert answers[use] == "yes"
