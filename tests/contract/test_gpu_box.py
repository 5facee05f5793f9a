"""Boxes with a GPU, of every isolation, on a host that has none: harmless devices under the driver's names."""

import os
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from grader.isolation import BoxSpec, GpuAccess, Purpose, gpu, probe
from grader.isolation.select import make
from sandbox.protocol.wire import BoxCause

MEMORY_DEVICE = 1
MINORS = {"nvidia0": 7, "nvidia1": 5, "nvidiactl": 3, "nvidia-uvm": 5}  # full, zero, null, zero
VERSION = "580.1"

LOOK = """
import os
def tried(path, flags):
    try:
        return os.read(os.open(path, flags), 4)
    except OSError as error:
        return error.strerror
print(sorted(name for name in os.listdir("/dev") if name.startswith("nvidia")))
print(tried("/dev/nvidia0", os.O_RDWR), tried("/dev/nvidia-uvm", os.O_RDWR), tried("/dev/nvidiactl", os.O_RDWR))
print(open("/grader/driver/libcuda.so.1").read(), sorted(os.listdir("/grader/driver")), os.listdir("/grader/triton"))
print(tried("/grader/driver/libcuda.so.1", os.O_RDWR), tried("/grader/triton/new", os.O_RDWR | os.O_CREAT))
try:
    os.mknod("/tmp/n", 0o20666, os.makedev(1, 5))
except OSError as error:
    print(error.strerror)
print(os.path.isdir("/sys/devices/system/cpu"), os.path.isdir("/sys/fs/cgroup/memory"), os.access("/sys/kernel", os.W_OK))
"""


@pytest.fixture
def host(place):
    """Make a tree with nodes of the kernel's own memory devices, and libraries that are text."""
    for name, minor in MINORS.items():
        node = place / "dev" / name
        node.parent.mkdir(exist_ok=True)
        try:
            os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(MEMORY_DEVICE, minor))
        except PermissionError:
            pytest.skip("nodes can be made by root only")
        node.chmod(0o666)
    libraries = place / "usr/local/nvidia/lib64"
    libraries.mkdir(parents=True)
    (libraries / f"libcuda.so.{VERSION}").write_text("cuda")
    (libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{VERSION}")
    (libraries / "libnvidia-ml.so.1").write_text("management")
    (place / "triton").mkdir()
    (place / "triton" / "cuda_utils.so").write_text("")
    return place


@pytest.fixture
async def gpu_isolation(isolation_name, settings, host):
    """Return the isolation, looking for the driver in that tree."""
    instance = make(isolation_name, settings, find_driver=partial(gpu.find_driver, root=host, library_path="", loader_cache=""))
    yield instance
    await instance.sweep()
    await instance.close()


def access_to(host):
    return GpuAccess(index=0, uuid="GPU-1", name="none", minor=0, triton_dir=host / "triton")


async def lines_of(gpu_isolation, slot, host, code, **changes):
    """Return the lines that a box with the GPU prints, once it has ended well."""
    spec = BoxSpec(
        box_id=f"g{os.getpid()}",
        purpose=Purpose.RUN,
        argv=("{python}", "-I", "-S", "-c", code),
        limits=probe.LIMITS,
        slot=slot,
        gpu=access_to(host),
    )
    async with gpu_isolation.start(replace(spec, **changes)) as box:
        ended = await box.wait()
    assert ended.cause is BoxCause.EXITED and ended.exit_code == 0, ended
    return ended.output.decode().splitlines()


async def test_a_box_opens_its_one_gpu_and_sees_no_other(gpu_isolation, slot, host):
    """The nodes work, the driver's files and Triton's are there to be read only, and no node can be made. A box without a GPU has none."""
    if not gpu_isolation.SAFE:
        pytest.skip("a plain process sees the host's own /dev")
    lines = await lines_of(gpu_isolation, slot, host, LOOK)
    assert lines[0] == "['nvidia-uvm', 'nvidia0', 'nvidiactl']"
    assert lines[1] == r"b'\x00\x00\x00\x00' b'\x00\x00\x00\x00' b''"
    assert lines[2] == f"cuda ['libcuda.so.1', 'libcuda.so.{VERSION}'] ['cuda_utils.so']"
    assert set(lines[3].replace("Read-only file system", "denied").replace("Permission denied", "denied").split()) == {"denied"}
    assert lines[4] == "Operation not permitted"
    assert lines[5].split()[0] == "True" and lines[5].split()[2] == "False"
    code = "import os; print([n for n in os.listdir('/dev') if n.startswith('nvidia')], os.environ.get('CUDA_VISIBLE_DEVICES'))"
    assert await lines_of(gpu_isolation, slot, host, code, gpu=None) == ["[] None"]


async def test_a_box_is_told_where_its_gpu_is(gpu_isolation, slot, host):
    """By the same variables in every isolation."""
    code = "import os; print(*(os.environ[n] for n in ('CUDA_DEVICE_ORDER', 'CUDA_VISIBLE_DEVICES', 'TRITON_LIBCUDA_PATH')))"
    where = ("0", "/grader/driver") if gpu_isolation.SAFE else ("GPU-1", str(Path(host, "usr/local/nvidia/lib64")))
    assert await lines_of(gpu_isolation, slot, host, code) == [" ".join(("PCI_BUS_ID", *where))]


async def test_the_trial_of_a_gpu_says_what_does_not_work(gpu_isolation, host):
    """Here libcuda is text, so it ends at the loader."""
    failure = await probe.failure(gpu_isolation, access_to(host))
    assert failure is not None and "a box with this GPU ended" in failure and "libcuda.so.1" in failure
