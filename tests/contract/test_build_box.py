"""The builder finds in every kind of box what it needs, for every device."""

import shutil
from dataclasses import replace

import pytest

from grader.isolation import BoxSpec, Purpose
from grader.isolation.pickup import pick_up
from sandbox.protocol import elf, wire
from sandbox.protocol.wire import BoxCause
from tests import fakes

BUILDER = (
    "import sys, runpy; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('sandbox.builder.build', run_name='__main__', alter_sys=True)"
)
LIMITS = replace(
    fakes.LIMITS, cpu_s=120.0, memory_bytes=2 << 30, process_count=64, file_bytes=64 << 20, tmp_bytes=256 << 20, open_file_count=256
)
KERNEL = """
__global__ void copy(const float* a, float* b) { b[threadIdx.x] = a[threadIdx.x]; }
extern "C" void solve(const float* a, float* b, long n, cudaStream_t stream) { copy<<<1, n, 0, stream>>>(a, b); }
"""
NEEDS_NVCC = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")


@pytest.mark.slow
@pytest.mark.parametrize("device_kind", ["emulated", pytest.param("cuda", marks=NEEDS_NVCC)])
async def test_a_kernel_is_built_in_a_box_for_either_device(isolation, place, slot, device_kind):
    """The box's PATH, its TMPDIR and its limits let both compilers work; the artifact has the entry."""
    src, out = place / "src", place / "out"
    (src / "files").mkdir(parents=True)
    out.mkdir(mode=0o777)
    out.chmod(0o777)
    (src / "files/kernel.cu").write_text(KERNEL)
    job = wire.BuildJob(language="cuda", entry="solve", device_kind=device_kind, sources=("kernel.cu",))
    (src / "job.json").write_bytes(wire.encode(job))
    spec = BoxSpec(
        box_id=f"build{device_kind}",
        purpose=Purpose.BUILD,
        argv=("{python}", "-I", "-c", BUILDER, "{lib}", "{src}", "{out}"),
        limits=LIMITS,
        slot=slot,
        src_dir=src,
        out_dir=out,
    )
    async with isolation.start(spec) as box:
        end = await box.wait()
    assert (end.cause, end.exit_code) == (BoxCause.EXITED, 0), end.output.decode()
    artifact = pick_up(out, "artifact", limit_bytes=LIMITS.file_bytes)
    assert isinstance(artifact, bytes) and "solve" in elf.exported_names(artifact)
