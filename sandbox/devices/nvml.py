"""Reads what NVML says of the GPU that a judge has: what it is, its clocks and temperature, who is on it.  Reads only, never sets.

What a device or a driver does not tell is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pynvml

# nvml.h, nvmlClocksEventReason*
REASONS = {
    0x001: "GpuIdle",
    0x002: "ApplicationsClocksSetting",
    0x004: "SwPowerCap",
    0x008: "HwSlowdown",
    0x010: "SyncBoost",
    0x020: "SwThermalSlowdown",
    0x040: "HwThermalSlowdown",
    0x080: "HwPowerBrakeSlowdown",
    0x100: "DisplayClockSetting",
}


class GpuWatch:
    """A GPU, by its UUID."""

    def __init__(self, uuid: str) -> None:
        pynvml.nvmlInit()
        self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def identity(self) -> dict[str, str]:
        """Name, uuid, and versions of what drives it."""
        return _answers(
            name=lambda: pynvml.nvmlDeviceGetName(self._gpu),
            uuid=lambda: pynvml.nvmlDeviceGetUUID(self._gpu),
            driver=pynvml.nvmlSystemGetDriverVersion,
            cuda_driver=_cuda_driver,
            vbios=lambda: pynvml.nvmlDeviceGetVbiosVersion(self._gpu),
            memory_bytes=lambda: pynvml.nvmlDeviceGetMemoryInfo(self._gpu).total,
        )

    def conditions(self, *names: str) -> dict[str, str]:
        """How it is now: clocks in MHz, temperature in C, power in W, why it is slowed, memory errors; of names only those."""
        gpu = self._gpu
        return _answers(
            *names,
            sm_clock_mhz=lambda: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
            sm_clock_max_mhz=lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM),
            memory_clock_mhz=lambda: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
            memory_clock_max_mhz=lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
            temperature_c=lambda: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
            power_w=lambda: f"{pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000:.0f}",
            power_limit_w=lambda: f"{pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000:.0f}",
            performance_state=lambda: f"P{pynvml.nvmlDeviceGetPerformanceState(gpu)}",
            throttle_reasons=lambda: ",".join(reasons(self._reason_bits())),
            utilization_percent=lambda: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
            persistence=lambda: "on" if pynvml.nvmlDeviceGetPersistenceMode(gpu) else "off",
            ecc=lambda: "on" if pynvml.nvmlDeviceGetEccMode(gpu)[0] else "off",
            ecc_uncorrected=lambda: pynvml.nvmlDeviceGetTotalEccErrors(
                gpu, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
            ),
            mig=lambda: "on" if pynvml.nvmlDeviceGetMigMode(gpu)[0] else "off",
        )

    def compute_pids(self) -> tuple[int, ...]:
        """Whose contexts are on it; of the pid namespace that the driver sees."""
        return tuple(sorted(int(process.pid) for process in self._processes()))

    def untold_bytes(self) -> int:
        """Return the memory that is used and belongs to no process; 0 where NVML does not say what each process has."""
        owned = [process.usedGpuMemory for process in self._processes()]
        if not owned or any(used is None for used in owned):
            return 0
        return max(0, int(pynvml.nvmlDeviceGetMemoryInfo(self._gpu).used) - sum(map(int, owned)))

    def _processes(self) -> list[Any]:
        with suppress(pynvml.NVMLError):
            return list(pynvml.nvmlDeviceGetComputeRunningProcesses(self._gpu))
        return []

    def _reason_bits(self) -> int:
        try:
            return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._gpu))
        except (AttributeError, pynvml.NVMLError):  # a package or a driver that knows the old name only
            return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._gpu))


def reasons(bits: int) -> tuple[str, ...]:
    """The names of what slows a device; being idle slows nothing."""
    return tuple(name for bit, name in REASONS.items() if bits & bit and name != "GpuIdle")


def _cuda_driver() -> str:
    version = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    return f"{version // 1000}.{version % 1000 // 10}"


def _answers(*names: str, **questions: Callable[[], object]) -> dict[str, str]:
    answers: dict[str, str] = {}
    for name in names or questions:
        with suppress(pynvml.NVMLError):
            answers[name] = str(questions[name]())
    return answers
