"""Modules of other packages in boxes: named by the server, bound without their tests, and part of what an artifact is made of."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from grader.config import Settings
from grader.errors import SettingsInvalid
from grader.isolation import BoxSpec, Purpose, launch, probe, toolchain
from grader.isolation.fingerprint import ToolchainScan, take_host
from grader.server import wiring
from sandbox.protocol import box_modules, entry_points
from sandbox.protocol.entry_points import EntryPointInvalid
from sandbox.protocol.toolkit import CUTLASS_VARIABLE

MODULES = {"emulated": "brought.device.toolchain", "torch_headers": "brought.headers"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Package `brought`, whose modules a server names to its boxes."""
    root, inner = tmp_path / "brought", ("__init__.py", "toolchain.py", "cuda.h", "tests/t.py")
    for name in ("__init__.py", "headers.py", "server.py", *(f"device/{name}" for name in inner)):
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


def visible_files(tmp_path: Path) -> set[str]:
    """Files of package `brought` that a box sees."""
    inside = toolchain.host_toolchain(tmp_path / "etc")
    binds = [bind for bind in inside.library if "/brought" in bind.target]
    files = ((bind, path) for bind in binds for path in (bind.source, *bind.source.rglob("*")))
    paths = {f"{bind.target}/{path.relative_to(bind.source)}".rstrip("/.") for bind, path in files}
    return {path.partition("/brought/")[2] for path in paths if not path.startswith(inside.hidden)}


def test_a_box_is_told_the_modules_and_sees_their_packages_without_tests(package: Path, tmp_path: Path) -> None:
    assert box_modules.variable() == {box_modules.VARIABLE: "emulated=brought.device.toolchain,torch_headers=brought.headers"}
    inside = visible_files(tmp_path)
    assert {"device/__init__.py", "device/toolchain.py", "device/cuda.h", "headers.py", "__init__.py"} <= inside
    assert "device/tests/t.py" not in inside and (package / "device" / "tests" / "t.py").exists()
    assert box_modules.box_module("torch_headers").__name__ == "brought.headers" and box_modules.box_module("numba_kernels") is None


def test_of_packages_around_a_module_a_box_sees_only_the_init(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(box_modules.VARIABLE, "emulated=brought.device.toolchain")
    box_modules.box_modules.cache_clear()
    assert {name for name in visible_files(tmp_path) if "/" not in name} == {"__init__.py", "device"}


def test_a_header_or_another_module_changes_what_an_artifact_is_made_of(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToolchainScan, "take_tree", lambda *arguments, **named: None)

    def digest() -> str:
        box_modules.box_modules.cache_clear()
        scan = ToolchainScan()
        take_host(scan)
        return scan.digest()

    before = digest()
    (package / "device" / "tests" / "t.py").write_text("# tests are no part of it\n")
    assert digest() == before
    monkeypatch.setenv(box_modules.VARIABLE, "emulated=brought.device.toolchain,headers=brought.headers")
    renamed = digest()
    (package / "device" / "cuda.h").write_text("// another\n")
    assert len({before, renamed, digest()}) == 3


@pytest.mark.parametrize(
    "points", [[("a=b", "brought.headers")], [("a", "headers")], [("a", "brought.headers:x")], [("a", "b.c"), ("a", "b.d")]]
)
def test_an_entry_point_that_is_no_module_in_a_package_is_named(points: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [EntryPoint(name=name, value=value, group=box_modules.GROUP) for name, value in points]
    monkeypatch.delenv(box_modules.VARIABLE, raising=False)
    monkeypatch.setattr(entry_points, "scan", lambda: EntryPoints(installed))
    with pytest.raises(EntryPointInvalid, match=rf"{box_modules.GROUP}: .* of an installed package .*; .*"):
        box_modules.box_modules.__wrapped__()


async def test_a_server_without_a_device_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With neither a GPU nor the emulated device."""
    monkeypatch.setattr(box_modules, "has_emulated", lambda: False)
    settings = Settings(listen=f"unix:{tmp_path}/s", state_dir=tmp_path / "state", device="emulated", sandbox="process")
    with pytest.raises(SettingsInvalid, match="needs the package kernel-grader-extensions"):
        async with wiring.local(settings):
            pass


def test_a_box_sees_cutlass_where_its_variable_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its headers alone, which are a part of what an artifact is made of; without the variable nothing of it."""
    header, repository = tmp_path / "cutlass/include/cute/tensor.hpp", tmp_path / "cutlass/.git"
    for directory in (header.parent, repository):
        directory.mkdir(parents=True)
    header.write_text("one")
    spec = BoxSpec(box_id="b", purpose=Purpose.BUILD, argv=("{python}",), limits=probe.LIMITS, slot=0)

    def state() -> tuple[str | None, list[str], str]:
        scan = ToolchainScan()
        take_host(scan)
        targets = [bind.target for bind in toolchain.host_toolchain(tmp_path / "etc").binds]
        return launch.environment(spec, "/usr/bin").get(CUTLASS_VARIABLE), targets, scan.digest()

    monkeypatch.delenv(CUTLASS_VARIABLE, raising=False)
    assert state()[0] is None and str(header.parents[1]) not in state()[1]
    monkeypatch.setenv(CUTLASS_VARIABLE, str(tmp_path / "cutlass"))
    variable, targets, digest = state()
    assert variable == str(tmp_path / "cutlass")
    assert str(header.parents[1]) in targets and str(tmp_path / "cutlass") not in targets
    header.write_text("another")
    assert state()[2] != digest
