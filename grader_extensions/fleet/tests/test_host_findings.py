"""Findings about GPUs, on a host that need not have one."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from grader.config import Settings
from grader.dispatch.gpus import Gpu
from grader.isolation import IsolationBroken
from grader_extensions.fleet import serve
from grader_extensions.fleet.serve import HostUnfit
from grader_extensions.operation import host_findings
from grader_extensions.operation.host_findings import HostFinding
from tests import fakes

NOBODYS_MINOR = 250
GPU = Gpu(index=0, uuid="GPU-1", name="NVIDIA H200", minor=NOBODYS_MINOR, memory_bytes=141 << 30, driver="580.159.04")
ISOLATION = HostFinding(kind="isolation", name="process", usable=True, detail="")


async def test_a_gpu_without_its_node_is_named_with_the_reason() -> None:
    """The name and the driver as the management library says, then what a box lacks."""
    (only,) = await host_findings.gpus([ISOLATION], lambda: (GPU,))
    assert (only.name, only.usable) == ("cuda:0", False) and only.remedy
    assert only.detail.startswith(f"NVIDIA H200, 141 GiB, driver 580.159.04: /dev/nvidia{NOBODYS_MINOR} is missing")


def test_a_loaded_driver_without_gpus_is_another_trouble() -> None:
    only = host_findings._no_gpu("580.1")
    assert "driver 580.1 is loaded" in only.detail and "CUDA_VISIBLE_DEVICES" in only.remedy


# -- what a worker asks of its host before it joins ---------------------------------------------------------------------------


@pytest.fixture
def host(monkeypatch):
    """A host with these findings, and these GPUs for a `--device` that asks for them."""

    def has(*findings: HostFinding, gpus=(), usable_gpus=0):
        async def of_kind(kind):
            return [finding for finding in findings if finding.kind == kind]

        async def examined(_, find):
            return [HostFinding(kind="device", name=f"cuda:{gpu.index}", usable=gpu.index < usable_gpus, detail="ill") for gpu in find()]

        monkeypatch.setattr(host_findings, "isolations", lambda: of_kind("isolation"))
        monkeypatch.setattr(host_findings, "compilers", lambda: of_kind("compiler"))
        monkeypatch.setattr(host_findings, "devices", lambda: [finding for finding in findings if finding.kind == "device"])
        monkeypatch.setattr(host_findings, "gpus", examined)
        monkeypatch.setattr(serve, "chosen_gpus", lambda device: () if device == "emulated" else gpus)

    return has


GXX = HostFinding(kind="compiler", name="g++", usable=True, detail="", required=True)
EMULATED = HostFinding(kind="device", name="emulated", usable=True, detail="")


async def test_a_host_that_has_all_may_join(host) -> None:
    """Also where nvcc is missing, which only GPUs need, and where one of two GPUs is ill: the other one grades."""
    nvcc = HostFinding(kind="compiler", name="nvcc", usable=False, detail="not found")
    host(GXX, nvcc, EMULATED, ISOLATION)
    await serve.examine(Settings(device="emulated"))
    host(GXX, EMULATED, ISOLATION, gpus=(GPU, replace(GPU, index=1)), usable_gpus=1)
    await serve.examine(Settings(device="cuda"))


@pytest.mark.parametrize(
    ("finding", "device", "reason"),
    [
        ((replace(GXX, usable=False, detail="not found", remedy="add it"), EMULATED, ISOLATION), "auto", r"g\+\+: not found; add it"),
        ((GXX, EMULATED, replace(ISOLATION, usable=False, detail="no namespaces")), "auto", "process: no namespaces"),
        ((GXX, replace(EMULATED, usable=False, detail="no torch"), ISOLATION), "emulated", "emulated: no torch"),
        ((GXX, EMULATED, ISOLATION), "cuda", "cuda:0: ill"),
    ],
)
async def test_a_host_that_lacks_something_may_not(host, finding, device, reason) -> None:
    """The refusal says what is missing and what to do. The control is the test above."""
    host(*finding, gpus=(GPU,) if device == "cuda" else ())
    with pytest.raises(HostUnfit, match=f"this host can't grade: .*{reason}"):
        await serve.examine(Settings(device=device))


def wiring(fault: str = "", error: Exception | None = None):

    @asynccontextmanager
    async def wired(settings):
        if error is not None:
            raise error
        async with fakes.wiring()(settings) as grading:
            yield replace(grading, proved=lambda: asyncio.sleep(0, fault))

    return wired


@pytest.mark.parametrize(
    ("graded_kernel", "detail"),
    [
        ({"fault": "No module named 'tree_sitter'"}, "No module named 'tree_sitter'"),
        ({"error": IsolationBroken("no engine answers")}, "no engine answers"),
        ({}, "built, run and judged, as a server does before it takes submissions"),
    ],
)
async def test_a_host_that_does_not_grade_the_graders_own_kernel_can_not_grade(graded_kernel, detail) -> None:
    """Whatever else works. The last is the control."""
    findings = [host_findings.HostFinding(kind=kind, name="x", usable=True, detail="") for kind in ("device", "isolation")]
    finding = await host_findings.own_kernel(wiring(**graded_kernel))
    assert (finding.detail, finding.usable, host_findings.can_grade([*findings, finding])) == (detail, not graded_kernel, not graded_kernel)
