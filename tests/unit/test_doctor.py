"""What `grader-cli doctor` says of GPUs, on a host that need not have one."""

from grader.cli import doctor
from grader.dispatch.gpus import Gpu

NOBODYS_MINOR = 250
GPU = Gpu(index=0, uuid="GPU-1", name="NVIDIA H200", minor=NOBODYS_MINOR, memory_bytes=141 << 30, driver="580.159.04")
ISOLATION = doctor.HostFinding(kind="isolation", name="process", usable=True, detail="")


async def test_a_host_without_a_gpu_is_told_what_to_do() -> None:
    """One finding, not none: whoever looks for a GPU finds the word."""
    (only,) = await doctor.gpus([ISOLATION], lambda: ())
    assert (only.kind, only.name, only.usable) == ("device", "cuda", False)
    assert only.remedy


async def test_a_gpu_without_its_node_is_named_with_the_reason() -> None:
    """The name and the driver as the management library says, then what a box lacks."""
    (only,) = await doctor.gpus([ISOLATION], lambda: (GPU,))
    assert (only.name, only.usable) == ("cuda:0", False)
    assert only.detail.startswith("NVIDIA H200, 141 GiB, driver 580.159.04: ")
    assert f"/dev/nvidia{NOBODYS_MINOR} is missing" in only.detail
    assert only.remedy


def test_a_loaded_driver_without_gpus_is_another_trouble() -> None:
    """The module is there, its management library is not, or hides them."""
    only = doctor._no_gpu("580.1")
    assert "driver 580.1 is loaded" in only.detail and "CUDA_VISIBLE_DEVICES" in only.remedy
