"""How a box gets one GPU: what is found on the host, and what each isolation makes of it."""

import shutil
import tomllib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from grader.isolation import BoxSpec, GpuAccess, Limits, Purpose, gpu, launch, probe
from grader.isolation.bubblewrap import BubblewrapIsolation
from grader.isolation.gpu import DriverMissing
from grader.isolation.launch import cores_for_boxes
from grader.isolation.process import ProcessIsolation
from grader.isolation.settings import BoxSettings, Protections
from grader.isolation.toolchain import Toolchain
from tests.requirements import absent

VERSION = "580.159.04"
KERNEL = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build  (builder@host)  Tue Jan 1 2026\nGCC: 13\n"
OLDER_KERNEL = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {VERSION}  Tue Jan 1 2026\n"
LIBRARIES = ("libnvidia-ptxjitcompiler.so.1", f"libnvidia-gpucomp.so.{VERSION}", "libnvidia-nvvm.so.4")
NODES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
TOOLCHAIN = Toolchain(python="/usr/bin/python3", path="/usr/bin", binds=(), hidden=())


def install(directory: Path, version: str = VERSION) -> None:
    """Put the driver's libraries into a directory, as its installer does; the management library too."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"libcuda.so.{version}").touch()
    (directory / "libcuda.so.1").symlink_to(f"libcuda.so.{version}")
    for name in (*LIBRARIES, "libnvidia-ml.so.1", "libGLX_nvidia.so.0", "libstdc++.so.6"):
        (directory / name).touch()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with two GPUs whose driver lies in a directory of its own."""
    for name in NODES:
        node = tmp_path / "host" / "dev" / name
        node.parent.mkdir(parents=True, exist_ok=True)
        node.touch()
        node.chmod(0o666)
    version = tmp_path / "host" / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text(KERNEL)
    install(tmp_path / "host" / "usr/local/nvidia/lib64")
    return tmp_path / "host"


@pytest.fixture
def access(tmp_path: Path) -> GpuAccess:
    """The second GPU, whose minor is not its index."""
    return GpuAccess(index=1, uuid="GPU-1234", name="NVIDIA H200", minor=0, triton_dir=tmp_path / "triton")


def driver_files(host: Path, minor: int = 0, library_path: str = "", loader_cache: str = "") -> gpu.DriverFiles:
    return gpu.find_driver(minor, root=host, library_path=library_path, loader_cache=loader_cache)


def run_spec(access: GpuAccess | None) -> BoxSpec:
    return BoxSpec(box_id="b", purpose=Purpose.RUN, argv=("{python}",), limits=probe.LIMITS, slot=0, gpu=access)


# -- what is found -------------------------------------------------------------------------------------------------------


def test_only_what_computes_is_taken_from_the_drivers_directory(host: Path) -> None:
    """The management library can see and set what a box must not; others lie there by chance."""
    names = {path.name for path in driver_files(host).libraries}
    assert names == {"libcuda.so.1", f"libcuda.so.{VERSION}", *LIBRARIES}


def test_the_library_that_fits_the_kernel_module_wins(host: Path) -> None:
    install(host / "opt/old", "570.10")
    here = driver_files(host, library_path="/opt/old:/nowhere")
    assert here.directory == host / "usr/local/nvidia/lib64"


def test_the_kernel_module_says_its_version_in_two_ways(host: Path) -> None:
    for text in (KERNEL, OLDER_KERNEL):
        (host / "proc/driver/nvidia/version").write_text(text)
        assert gpu.kernel_version(host) == VERSION


def test_a_libcuda_that_is_no_link_is_known_by_its_neighbour(host: Path) -> None:
    directory = host / "usr/local/nvidia/lib64"
    (directory / "libcuda.so.1").unlink()
    (directory / "libcuda.so.1").touch()
    assert driver_files(host).directory == directory


@pytest.mark.parametrize(("how", "place"), [("path", "/opt/driver"), ("cache", "/usr/lib/elsewhere"), ("known", "/usr/lib64")])
def test_the_libraries_are_found_wherever_the_loader_would(host: Path, how: str, place: str) -> None:
    """LD_LIBRARY_PATH, the loader's cache, and the usual places; the 32-bit ones are not for us."""
    (host / "usr/local/nvidia/lib64").rename(host / "moved")
    install(host / place.lstrip("/"))
    install(host / "usr/lib/i386")
    listing = f"\tlibcuda.so.1 (libc6) => /usr/lib/i386/libcuda.so.1\n\tlibcuda.so.1 (libc6,x86-64) => {place}/libcuda.so.1\n"
    here = driver_files(host, library_path=place if how == "path" else "", loader_cache=listing if how == "cache" else "")
    assert here.directory == host / place.lstrip("/")


LIB64 = "usr/local/nvidia/lib64"


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (lambda host: (host / "dev/nvidia-uvm").unlink(), "/dev/nvidia-uvm is missing.*nvidia-modprobe -u -c=0"),
        (lambda host: (host / "dev/nvidia0").unlink(), "/dev/nvidia0 is missing.*install the NVIDIA driver"),
        (lambda host: (host / "dev/nvidia0").chmod(0o660), "chmod 0666 /dev/nvidia0"),  # a box has a uid of its own
        (lambda host: (host / LIB64).rename(host / "moved"), "install the driver's libraries"),
        (
            lambda host: (host / "proc/driver/nvidia/version").write_text(KERNEL.replace(VERSION, "590.1")),
            rf"module is 590\.1, but .* has {VERSION}.*restart",
        ),
    ],
    ids=["no module", "no driver", "only root may open it", "no libraries", "libraries of another version"],
)
def test_what_is_wrong_with_the_driver_comes_with_what_to_do(host: Path, spoil: Callable[[Path], object], remedy: str) -> None:
    """No box can load a module by itself, and the nodes alone are no driver."""
    spoil(host)
    with pytest.raises(DriverMissing, match=remedy):
        driver_files(host)


# -- what a box is granted -----------------------------------------------------------------------------------------------


def test_a_build_box_gets_no_gpu(access: GpuAccess) -> None:
    with pytest.raises(ValueError, match="build box gets no GPU"):
        replace(run_spec(access), purpose=Purpose.BUILD)


def test_a_container_gets_exactly_one_gpu_and_the_drivers_files(host: Path, access: GpuAccess) -> None:
    """Never the right to make nodes, and no other node; the files one by one, to read. Both names of libcuda lead to the same."""
    config = docker_config(run_spec(access), gpu.plain(access, driver_files(host, minor=1)))
    assert config["Devices"] == [
        {"PathOnHost": f"{host}/dev/{name}", "PathInContainer": f"/dev/{name}", "CgroupPermissions": "rw"}
        for name in ("nvidia1", "nvidiactl", "nvidia-uvm")
    ]
    binds = config["Binds"]
    assert f"{host}/usr/local/nvidia/lib64/libcuda.so.{VERSION}:/grader/driver/libcuda.so.1:ro" in binds
    assert f"{access.triton_dir}:/grader/triton:ro" in binds
    assert not [bind for bind in binds if "nvidia-ml" in bind or bind.split(":")[1] == "/grader/driver"]


def docker_config(spec: BoxSpec, grant: gpu.Grant = gpu.NOTHING, **changes: bool) -> dict[str, Any]:
    """Return the host configuration that the engine gets."""
    root = launch.ContainerRoot(toolchain=TOOLCHAIN, image="", seccomp_text="{}")
    settings = BoxSettings(state_id="t", runtime_dir=Path("/runtime"), **changes)
    return dict(launch.container(spec, root, settings, Path("/link"), Protections(), grant)["HostConfig"])


def test_a_container_without_a_gpu_gives_way_where_the_host_has_one(host: Path, access: GpuAccess) -> None:
    """To the one beside the GPU, and not on other hosts."""
    beside = docker_config(run_spec(access), gpu.plain(access, driver_files(host)), yields_cores=True)
    assert docker_config(run_spec(None), yields_cores=True)["CpuShares"] == launch.YIELDING_SHARES
    assert "CpuShares" not in beside and "CpuShares" not in docker_config(run_spec(None))


def test_a_gpu_box_is_told_of_its_one_gpu(host: Path, access: GpuAccess) -> None:
    """The GPU is the first that can be seen, whatever its index on the host; a hook that is left over stays quiet."""
    inside = launch.environment(run_spec(access), "/usr/bin", grant=gpu.plain(access, driver_files(host)))
    expected = {
        "CUDA_VISIBLE_DEVICES": "0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_CACHE_DISABLE": "1",
        "TRITON_CACHE_DIR": "/grader/triton",
        "TRITON_LIBCUDA_PATH": "/grader/driver",
        "LD_LIBRARY_PATH": "/grader/driver",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "USER": "job",
    }
    assert expected.items() <= inside.items()
    emulated = launch.environment(run_spec(None), "/usr/bin")
    assert not [name for name in emulated if name.startswith(("CUDA_V", "TRITON", "LD_"))]
    assert emulated["OMP_WAIT_POLICY"] == "PASSIVE" and "OMP_WAIT_POLICY" not in inside  # as in the judge, with which it is compared


# -- boxes of the host ---------------------------------------------------------------------------------------------------


def bubblewrap_argv(tmp_path: Path, spec: BoxSpec, driver: gpu.DriverFiles | None) -> list[str]:
    isolation = BubblewrapIsolation(BoxSettings(state_id="t", runtime_dir=tmp_path / "runtime"))
    isolation._program = "/bin/echo"
    with ExitStack() as stack:
        argv = list(isolation._launch(spec, tmp_path, driver, stack, limited=True).argv(8, 9, None))
    return argv[: argv.index("--")]


def test_bubblewrap_puts_the_nodes_over_its_own_dev(host: Path, access: GpuAccess, tmp_path: Path) -> None:
    """After it is made and before it is closed; exactly the three."""
    argv = bubblewrap_argv(tmp_path, run_spec(access), driver_files(host))
    at = [number for number, word in enumerate(argv) if word == "--dev-bind"]
    assert [argv[number + 2] for number in at] == ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"]
    dev_place = next(number for number, word in enumerate(argv) if argv[number : number + 2] == ["--dev", "/dev"])
    closed = next(number for number, word in enumerate(argv) if argv[number : number + 2] == ["--remount-ro", "/dev"])
    assert dev_place < min(at) and max(at) < closed


def test_bubblewrap_shows_sys_to_a_gpu_box_only(host: Path, access: GpuAccess, tmp_path: Path) -> None:
    """The driver does not start without; what containers do not see of it is covered."""
    with_gpu = bubblewrap_argv(tmp_path, run_spec(access), driver_files(host))
    without = bubblewrap_argv(tmp_path, run_spec(None), None)
    assert "/sys" in with_gpu and "--dev-bind" not in without
    assert not [word for word in without if word.startswith("/sys")]
    if Path("/sys/fs").is_dir():
        assert with_gpu.index("/sys") < with_gpu.index("/sys/fs")


def test_a_plain_process_is_told_of_its_gpu_by_name(host: Path, access: GpuAccess) -> None:
    """All GPUs of the host are there, so an index would not do. In a common directory the loader looks anyway, but after the libraries that
    Python came with."""
    inside = dict(gpu.shared(access, driver_files(host)).environment)
    assert inside["CUDA_VISIBLE_DEVICES"] == "GPU-1234"
    assert inside["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert inside["LD_LIBRARY_PATH"] == inside["TRITON_LIBCUDA_PATH"] == f"{host}/usr/local/nvidia/lib64"
    assert inside["TRITON_CACHE_DIR"] == str(access.triton_dir)
    common = gpu.DriverFiles(nodes=(), directory=Path("/usr/lib/x86_64-linux-gnu"), libraries=())
    inside = dict(gpu.shared(access, common).environment)
    assert "LD_LIBRARY_PATH" not in inside and inside["TRITON_LIBCUDA_PATH"] == "/usr/lib/x86_64-linux-gnu"


async def test_a_box_without_its_driver_is_our_fault(host: Path, access: GpuAccess, tmp_path: Path) -> None:
    """The error says what to do, before anything is started."""
    (host / "dev/nvidia-uvm").unlink()
    settings = BoxSettings(state_id="t", runtime_dir=tmp_path / "runtime")
    missing = partial(gpu.find_driver, root=host, library_path="", loader_cache="")
    for kind in (ProcessIsolation, BubblewrapIsolation):
        if kind is BubblewrapIsolation and shutil.which("bwrap") is None:
            absent("bubblewrap", "bwrap is not installed")
        with pytest.raises(DriverMissing, match="nvidia-uvm"):
            async with kind(settings, find_driver=missing).start(run_spec(access)):
                pass


def test_the_limits_of_a_gpu_run_leave_room_for_the_driver() -> None:
    """The driver has a thread for each core, and torch's libraries alone are hundreds of files."""
    text = (Path(__file__).parents[2] / "sandbox" / "profiles" / "limits.toml").read_text()
    limits = Limits(**tomllib.loads(text)["run_cuda"])
    assert limits.process_count >= 512 and limits.open_file_count >= 4096
    assert limits.memory_bytes >= 8 << 30


def test_a_fourth_of_a_large_host_is_kept_for_the_judges() -> None:
    """A small one keeps nothing back: taking one core of two from the kernel would cost more than it protects."""
    assert cores_for_boxes(range(16)) == tuple(range(4, 16))
    assert cores_for_boxes({3, 5, 7, 9, 11, 13, 15, 17}) == (7, 9, 11, 13, 15, 17)
    assert cores_for_boxes({1, 0}) == (0, 1)
