"""Modules of other packages in boxes: named by the server, bound without their tests, and part of what an artifact is made of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from grader.config import Settings
from grader.errors import SettingsInvalid
from grader.isolation import toolchain
from grader.isolation.fingerprint import ToolchainScan
from grader.server import wiring
from sandbox.protocol import box_modules

MODULES = {"emulated": "brought.device.toolchain", "torch_headers": "brought.headers"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Package `brought`, whose modules a server names to its boxes."""
    root = tmp_path / "brought"
    for name in (
        "__init__.py",
        "headers.py",
        "server.py",
        "device/__init__.py",
        "device/toolchain.py",
        "device/cuda.h",
        "device/tests/t.py",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(box_modules.VARIABLE, ",".join(f"{name}={module}" for name, module in MODULES.items()))
    box_modules.box_modules.cache_clear()
    yield root
    box_modules.box_modules.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "brought"]:
        del sys.modules[name]


def seen(prefix: str) -> set[str]:
    return {bind.target.removeprefix(prefix) for bind in toolchain.library_binds() if bind.target.startswith(prefix)}


def test_a_box_is_told_the_modules_and_sees_their_packages_without_tests(package: Path) -> None:
    assert box_modules.variable() == {box_modules.VARIABLE: "emulated=brought.device.toolchain,torch_headers=brought.headers"}
    inside = seen("/grader/lib/brought/")
    assert {"device/__init__.py", "device/toolchain.py", "device/cuda.h", "headers.py", "__init__.py"} <= inside
    assert not {name for name in inside if "tests" in name}
    assert box_modules.box_module("torch_headers").__name__ == "brought.headers" and box_modules.box_module("numba_kernels") is None


def test_of_packages_around_a_module_a_box_sees_only_the_init(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(box_modules.VARIABLE, "emulated=brought.device.toolchain")
    box_modules.box_modules.cache_clear()
    assert {name for name in seen("/grader/lib/brought/") if "/" not in name} == {"__init__.py"}


def test_a_header_of_such_a_package_changes_what_an_artifact_is_made_of(package: Path) -> None:
    def digest() -> str:
        scan = ToolchainScan()
        for bind in toolchain.library_binds():
            scan.take_own(bind.source, bind.target)
        return scan.digest()

    before = digest()
    assert digest() == before
    (package / "device" / "cuda.h").write_text("// another\n")
    assert digest() != before


async def test_a_server_with_neither_a_gpu_nor_the_emulated_device_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box_modules, "has_emulated", lambda: False)
    settings = Settings(listen=f"unix:{tmp_path}/s", state_dir=tmp_path / "state", device="emulated", sandbox="process")
    with pytest.raises(SettingsInvalid, match="needs the package kernel-grader-extensions"):
        async with wiring.local(settings):
            pass
