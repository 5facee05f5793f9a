"""The kinds of device: what server, judge, builder and runner have to know of each.  Data; opens and builds nothing.

A kind is one entry of DEVICES, one module that opens it (`sandbox/devices`) and one that compiles for it. Kinds are not plug-ins: the
judge trusts their code with memory, clock and random numbers. Compilers run in boxes: the emulated device's is a box module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum


class DeviceKind(StrEnum):
    """The name of a kind, as users write it."""

    EMULATED = "emulated"
    CUDA = "cuda"


class FaultKind(Enum):
    """Why a device stopped a kernel."""

    OUT_OF_MEMORY = "out_of_memory"
    ILLEGAL_ADDRESS = "illegal_address"
    MISALIGNED_ADDRESS = "misaligned_address"
    INVALID_ADDRESS_SPACE = "invalid_address_space"
    INVALID_PC = "invalid_pc"
    ASSERT = "assert"
    STACK_OVERFLOW = "stack_overflow"
    TIMEOUT = "timeout"
    LAUNCH_FAILED = "launch_failed"


# What slows a GPU, as NVML names it. A power cap alone is how these devices are run.
THROTTLE_REASONS = frozenset({"HwSlowdown", "HwThermalSlowdown", "SwThermalSlowdown", "HwPowerBrake", "HwPowerBrakeSlowdown"})


def throttled(conditions: Mapping[str, str]) -> bool:
    """Return whether heat or its power supply slow a device, by its conditions (`Device.conditions`)."""
    reasons = conditions.get("throttle_reasons", "").split(",")
    return not THROTTLE_REASONS.isdisjoint(reason.strip() for reason in reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A kind of device.

    implementation: the module and class of its `sandbox.devices.Device`. compiler: the module whose `prepare` plans its compilers' steps;
    "": that of `box_modules.emulated()`. toolkit_program: has to be on the builder's PATH to compile for it; toolkit_variable: names the
    toolkit's directory, which has it in bin. torch_device: PyTorch's name for where its tensors lie. needs_gpu_access: a lane is one GPU,
    which run boxes get together with the driver; build boxes have none. emulates_cuda: CUDA runs on the CPU. Such a device brings its own
    CUDA headers, the interpreters of Triton and Numba, and a PyTorch whose tensors claim to lie on a GPU. runtime: linked into a kernel
    without PyTorch; shared_runtime: into a PyTorch extension, which uses the runtime that PyTorch loaded. torch_defines: what
    `torch.utils.cpp_extension` defines for its compiler. faults: the driver's names for what stops a kernel; fault_pattern: matches any of
    its names.
    """

    implementation: str
    torch_device: str
    compiler: str = ""
    needs_gpu_access: bool = False
    emulates_cuda: bool = False
    toolkit_program: str = ""
    toolkit_variable: str = ""
    runtime: tuple[str, ...] = ()
    shared_runtime: tuple[str, ...] = ()
    torch_defines: tuple[str, ...] = ()
    faults: Mapping[str, FaultKind] = field(default_factory=dict)
    fault_pattern: re.Pattern[str] | None = None


DEVICES: Mapping[DeviceKind, DeviceInfo] = {
    DeviceKind.EMULATED: DeviceInfo(implementation="sandbox.devices.emulated:EmulatedDevice", torch_device="cpu", emulates_cuda=True),
    DeviceKind.CUDA: DeviceInfo(
        implementation="sandbox.devices.cuda:CudaDevice",
        compiler="sandbox.compilers.nvcc",
        torch_device="cuda",
        needs_gpu_access=True,
        toolkit_program="nvcc",
        toolkit_variable="CUDA_HOME",
        runtime=("-lcudart_static", "-lrt", "-ldl"),
        shared_runtime=("-lcudart",),
        torch_defines=(
            "__CUDA_NO_HALF_OPERATORS__",
            "__CUDA_NO_HALF_CONVERSIONS__",
            "__CUDA_NO_BFLOAT16_CONVERSIONS__",
            "__CUDA_NO_HALF2_OPERATORS__",
        ),
        faults={
            "CUDA_ERROR_OUT_OF_MEMORY": FaultKind.OUT_OF_MEMORY,
            "CUDA_ERROR_ILLEGAL_ADDRESS": FaultKind.ILLEGAL_ADDRESS,
            "CUDA_ERROR_MISALIGNED_ADDRESS": FaultKind.MISALIGNED_ADDRESS,
            "CUDA_ERROR_INVALID_ADDRESS_SPACE": FaultKind.INVALID_ADDRESS_SPACE,
            "CUDA_ERROR_INVALID_PC": FaultKind.INVALID_PC,
            "CUDA_ERROR_ASSERT": FaultKind.ASSERT,
            "CUDA_ERROR_HARDWARE_STACK_ERROR": FaultKind.STACK_OVERFLOW,
            "CUDA_ERROR_LAUNCH_TIMEOUT": FaultKind.TIMEOUT,
            "CUDA_ERROR_LAUNCH_FAILED": FaultKind.LAUNCH_FAILED,
        },
        fault_pattern=re.compile(r"CUDA_ERROR_[A-Z0-9_]{1,64}"),
    ),
}


def device_info(kind: str) -> DeviceInfo:
    """Return a kind of device; ValueError where there is none of that name."""
    try:
        return DEVICES[DeviceKind(kind)]
    except ValueError:
        raise ValueError(f"there is no device {kind!r}; take one of: {', '.join(DeviceKind)}") from None


def fault_of(message: str) -> tuple[str, FaultKind | None]:
    """The driver's name for what stopped a kernel, where a message begins with it, and what that is; ("", None) where it does not. The rest
    of the message may be untrusted text. A name that no device lists has no kind."""
    for info in DEVICES.values():
        if info.fault_pattern is not None and (match := info.fault_pattern.match(message)):
            return match.group(), info.faults.get(match.group())
    return "", None
