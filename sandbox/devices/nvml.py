"""Reads what NVML says of the GPU that a judge has: what it is, its clocks and temperature, who is on it.  Reads only, never sets.

What a device or a driver does not tell is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

T = TypeVar("T")

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
        facts = {
            "name": _answer_or_none(lambda: _text(pynvml.nvmlDeviceGetName(self._gpu))),
            "uuid": _answer_or_none(lambda: _text(pynvml.nvmlDeviceGetUUID(self._gpu))),
            "driver": _answer_or_none(lambda: _text(pynvml.nvmlSystemGetDriverVersion())),
            "cuda_driver": _answer_or_none(_cuda_driver),
            "vbios": _answer_or_none(lambda: _text(pynvml.nvmlDeviceGetVbiosVersion(self._gpu))),
            "memory_bytes": _answer_or_none(lambda: str(pynvml.nvmlDeviceGetMemoryInfo(self._gpu).total)),
        }
        return {key: value for key, value in facts.items() if value is not None}

    def conditions(self) -> dict[str, str]:
        """How it is now: clocks in MHz, temperature in C, power in W, why it is slowed, memory errors."""
        ask = self._asked
        conditions = {
            "sm_clock_mhz": ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
            "sm_clock_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
            "memory_clock_mhz": ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
            "memory_clock_max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_MEM),
            "temperature_c": ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
            "power_w": _answer_or_none(lambda: f"{pynvml.nvmlDeviceGetPowerUsage(self._gpu) / 1000:.0f}"),
            "power_limit_w": _answer_or_none(lambda: f"{pynvml.nvmlDeviceGetEnforcedPowerLimit(self._gpu) / 1000:.0f}"),
            "performance_state": _answer_or_none(lambda: f"P{pynvml.nvmlDeviceGetPerformanceState(self._gpu)}"),
            "throttle_reasons": _answer_or_none(lambda: ",".join(reasons(self._reason_bits()))),
            "utilization_percent": _answer_or_none(lambda: str(pynvml.nvmlDeviceGetUtilizationRates(self._gpu).gpu)),
            "persistence": _answer_or_none(lambda: "on" if pynvml.nvmlDeviceGetPersistenceMode(self._gpu) else "off"),
            "ecc": _answer_or_none(lambda: "on" if pynvml.nvmlDeviceGetEccMode(self._gpu)[0] else "off"),
            "ecc_uncorrected": _answer_or_none(self._uncorrected),
            "mig": _answer_or_none(lambda: "on" if pynvml.nvmlDeviceGetMigMode(self._gpu)[0] else "off"),
        }
        return {key: value for key, value in conditions.items() if value is not None}

    def used_bytes(self) -> int:
        """Of its memory, by all processes and the driver itself."""
        return int(pynvml.nvmlDeviceGetMemoryInfo(self._gpu).used)

    def compute_pids(self) -> tuple[int, ...]:
        """Whose contexts are on it; of the pid namespace that the driver sees."""
        return tuple(sorted(int(process.pid) for process in self._processes()))

    def untold_bytes(self) -> int:
        """Return the memory that is used and belongs to no process; 0 where NVML does not say what each process has."""
        owned = [process.usedGpuMemory for process in self._processes()]
        return 0 if not owned or any(used is None for used in owned) else max(0, self.used_bytes() - sum(map(int, owned)))

    def _processes(self) -> list[Any]:
        return _answer_or_none(lambda: list(pynvml.nvmlDeviceGetComputeRunningProcesses(self._gpu))) or []

    def _reason_bits(self) -> int:
        try:
            return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._gpu))
        except (AttributeError, pynvml.NVMLError):  # a package or a driver that knows the old name only
            return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._gpu))

    def _uncorrected(self) -> str:
        kind, counter = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        return str(pynvml.nvmlDeviceGetTotalEccErrors(self._gpu, kind, counter))

    def _asked(self, question: Callable[..., object], *words: object) -> str | None:
        return _answer_or_none(lambda: str(question(self._gpu, *words)))


def reasons(bits: int) -> tuple[str, ...]:
    """The names of what slows a device; being idle slows nothing."""
    return tuple(name for bit, name in REASONS.items() if bits & bit and name != "GpuIdle")


def _cuda_driver() -> str:
    version = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    return f"{version // 1000}.{version % 1000 // 10}"


def _answer_or_none(question: Callable[[], T]) -> T | None:
    try:
        return question()
    except pynvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
