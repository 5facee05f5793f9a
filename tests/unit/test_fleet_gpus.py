"""Which GPUs are ours, and what a choice of device means."""

from types import SimpleNamespace

import pytest

from grader import devices
from grader.dispatch.gpus import discover
from grader.errors import SettingsInvalid
from grader.server.wiring import chosen_gpus
from sandbox.protocol.box_modules import has_emulated
from tests import fakes


class NoDriver(Exception):
    """An error of the management library."""


def nvml_of(*gpus: tuple[int, str, str, int], driver: bool = True) -> SimpleNamespace:
    """The management library of a host with these GPUs: (bus, uuid, name, minor), in the library's order."""
    opened: list[None] = []

    def start() -> None:
        if not driver:
            raise NoDriver("Driver Not Loaded")
        opened.append(None)

    return SimpleNamespace(
        NVMLError=NoDriver,
        opened=opened,
        nvmlInit=start,
        nvmlShutdown=opened.pop,
        nvmlSystemGetDriverVersion=lambda: "580.95.05",
        nvmlDeviceGetCount=lambda: len(gpus),
        nvmlDeviceGetHandleByIndex=gpus.__getitem__,
        nvmlDeviceGetPciInfo=lambda gpu: SimpleNamespace(domain=0, bus=gpu[0], device=0),
        nvmlDeviceGetUUID=lambda gpu: gpu[1],
        nvmlDeviceGetName=lambda gpu: gpu[2],
        nvmlDeviceGetMinorNumber=lambda gpu: gpu[3],
        nvmlDeviceGetMemoryInfo=lambda gpu: SimpleNamespace(total=1 << 37),
    )


TWO = ((9, "GPU-bb22", "NVIDIA H100", 0), (5, "GPU-aa11", "NVIDIA H200", 3))


def gpu_rows(nvml: SimpleNamespace, **environment: str) -> list[tuple[int, str, int]]:
    return [(gpu.index, gpu.uuid, gpu.minor) for gpu in discover(environment, lambda: nvml)]


def test_gpus_are_counted_in_pci_order() -> None:
    nvml = nvml_of(*TWO)
    assert gpu_rows(nvml) == [(0, "GPU-aa11", 3), (1, "GPU-bb22", 0)] and not nvml.opened
    gpu = discover({}, lambda: nvml)[1]
    assert (gpu.name, gpu.driver, gpu.memory_bytes) == ("NVIDIA H100", "580.95.05", 1 << 37)


@pytest.mark.parametrize(
    ("named", "indices"),
    [("0", [0]), ("1,0", [0, 1]), ("GPU-bb22", [1]), ("GPU-b", [1]), ("GPU-", []), ("", []), ("-1", []), ("7,0", []), ("1,7,0", [1])],
)
def test_a_gpu_that_is_not_named_is_not_ours(named: str, indices: list[int]) -> None:
    """As CUDA reads its variable: by index or UUID, up to the first name that fits nothing."""
    assert [index for index, *_ in gpu_rows(nvml_of(*TWO), CUDA_VISIBLE_DEVICES=named)] == indices


def test_a_host_without_a_driver_or_a_package_has_no_gpu() -> None:

    def missing() -> SimpleNamespace:
        raise ModuleNotFoundError("No module named 'pynvml'")

    assert discover({}, missing) == () == discover({}, lambda: nvml_of(*TWO, driver=False))


OFFERS = devices.offered([(0, "NVIDIA H200"), (1, "NVIDIA H200"), (2, "NVIDIA H100 NVL")], emulated=True)


@pytest.mark.parametrize(
    ("choice", "indices"),
    [
        ("cuda", [0, 1, 2]), ("cuda:1", [1]), ("cuda:H200", [0, 1]), ("cuda:h100 nvl", [2]), ("cuda:NVIDIA", [0, 1, 2]),
        ("cuda:3", []), ("cuda:200", []), ("cuda:", []), ("cuda:B200", []), ("H200", []),
    ],
)  # fmt: skip
def test_a_choice_means_gpus_by_place_or_by_a_part_of_the_name(choice: str, indices: list[int]) -> None:
    names = ("NVIDIA H200", "NVIDIA H200", "NVIDIA H100 NVL")
    assert [index for index, name in enumerate(names) if devices.fits(choice, index, name)] == indices
    assert devices.is_offered(choice, OFFERS) == bool(indices)


def test_a_server_takes_the_gpus_that_its_setting_means() -> None:
    """All by default, none for the emulated device, and the host's own are named where there is no such."""
    here = (fakes.gpu(0), fakes.gpu(1, "NVIDIA H100"))

    def chosen(choice: str, why_not: str | None = None) -> list[int]:
        return [gpu.index for gpu in chosen_gpus(choice, lambda: here, lambda: why_not)]

    assert (chosen("auto"), chosen("cuda"), chosen("emulated"), chosen("cuda:h100"), chosen("cuda:0")) == ([0, 1], [0, 1], [], [1], [0])
    emulated = "emulated, " if has_emulated() else ""
    with pytest.raises(SettingsInvalid, match=f"take one of: auto, {emulated}cuda, cuda:0, cuda:1, cuda:NVIDIA H200, cuda:NVIDIA H100"):
        chosen("cuda:B200")
    assert chosen("auto", "torch is missing") == []
    with pytest.raises(SettingsInvalid, match="torch is missing"):
        chosen("cuda", "torch is missing")
    assert chosen_gpus("auto", tuple, lambda: "torch is missing") == ()
