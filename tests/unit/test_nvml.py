"""Readings of NVML are passed on; missing ones are left out, and nothing is set."""

from types import SimpleNamespace

import pynvml
import pytest

from sandbox.devices import nvml

ANSWERS = {
    "nvmlInit": None,
    "nvmlDeviceGetName": "NVIDIA H200",
    "nvmlDeviceGetUUID": "GPU-1",
    "nvmlSystemGetDriverVersion": "580.159.04",
    "nvmlSystemGetCudaDriverVersion_v2": 13000,
    "nvmlDeviceGetVbiosVersion": "96.00",
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150, used=50),
    "nvmlDeviceGetClockInfo": 1980,
    "nvmlDeviceGetMaxClockInfo": 1981,
    "nvmlDeviceGetTemperature": 41,
    "nvmlDeviceGetPowerUsage": 123456,
    "nvmlDeviceGetEnforcedPowerLimit": 700000,
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetCurrentClocksEventReasons": 0x5,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0x8,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=3),
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetEccMode": [1, 0],
    "nvmlDeviceGetTotalEccErrors": 0,
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=7, usedGpuMemory=30), SimpleNamespace(pid=3, usedGpuMemory=5)],
}
NOT_SUPPORTED = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that gives these answers; every other call of NVML is an error of the test."""
    answers = dict(ANSWERS)

    def answer(name):
        def call(*_):
            if isinstance(answers[name], Exception):
                raise answers[name]
            return answers[name]

        return call

    for name in [name for name in dir(pynvml) if name.startswith(("nvmlDevice", "nvmlSystem", "nvmlInit"))]:
        monkeypatch.setattr(pynvml, name, answer(name))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: f"handle of {uuid}")
    return answers


def test_a_gpu_says_what_it_is(gpu):
    assert nvml.GpuWatch("GPU-1").identity() == {
        "name": "NVIDIA H200",
        "uuid": "GPU-1",
        "driver": "580.159.04",
        "cuda_driver": "13.0",
        "vbios": "96.00",
        "memory_bytes": "150",
    }


def test_a_gpu_says_how_it_is(gpu):
    """That it is idle slows nothing, and is no reason."""
    state = nvml.GpuWatch("GPU-1").conditions()
    assert (state["sm_clock_mhz"], state["sm_clock_max_mhz"], state["temperature_c"]) == ("1980", "1981", "41")
    assert (state["power_w"], state["power_limit_w"], state["performance_state"]) == ("123", "700", "P0")
    assert (state["throttle_reasons"], state["ecc"], state["ecc_uncorrected"], state["mig"]) == ("SwPowerCap", "on", "0", "off")
    assert (state["utilization_percent"], state["persistence"]) == ("97", "on")


def test_a_gpu_is_asked_for_what_is_named_and_nothing_else(gpu, monkeypatch):
    """Between turns it is why it is slowed: each question is a call of the driver."""
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", lambda _: pytest.fail("asked for its power"))
    assert nvml.GpuWatch("GPU-1").conditions("throttle_reasons") == {"throttle_reasons": "SwPowerCap"}


def test_a_gpu_without_any_answer_is_no_error(gpu):
    watch = nvml.GpuWatch("GPU-1")
    gpu.update(dict.fromkeys(ANSWERS, NOT_SUPPORTED))
    assert (watch.identity(), watch.conditions(), watch.compute_pids()) == ({}, {}, ())


def test_who_is_on_it_and_what_is_nobody_s(gpu):
    """Where one process's share is not reported, nothing is known of what is left."""
    watch = nvml.GpuWatch("GPU-1")
    assert (watch.compute_pids(), watch.untold_bytes()) == ((3, 7), 15)
    gpu["nvmlDeviceGetComputeRunningProcesses"] = [SimpleNamespace(pid=7, usedGpuMemory=None)]
    assert watch.untold_bytes() == 0
