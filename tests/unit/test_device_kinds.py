"""A kind of device is one entry of a table, and nothing else in the product asks which one it is."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.devices import implementation, open_device
from sandbox.protocol import box_modules
from sandbox.protocol.devices import DEVICES, DeviceKind, FaultKind, device_info, fault_of

ROOT = Path(__file__).resolve().parents[2]
FILES = [path for part in ("grader", "sandbox", "grader_extensions") for path in sorted((ROOT / part).rglob("*.py"))]
PRODUCT = [path for path in FILES if "tests" not in path.relative_to(ROOT).parts]
KIND_NAMES = {"device_kind", "kind", "KIND", "TORCH", "device", "choice"}


def comparisons_with_a_kind(text: str) -> Iterator[int]:
    """The lines that compare a device, or its kind, with the name of a kind."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        named = {getattr(side, "attr", getattr(side, "id", "")) for side in sides}
        constants = {side.value for side in sides if isinstance(side, ast.Constant)}
        members = {side.attr for side in sides if isinstance(side, ast.Attribute) and getattr(side.value, "id", "") == "DeviceKind"}
        if named & KIND_NAMES and (constants & set(DeviceKind) or members):
            yield node.lineno


def test_every_kind_of_device_has_an_implementation_and_a_compiler() -> None:
    """The modules exist, and what a device leaves out is its base's; the one that needs no GPU can be opened here."""
    assert set(DEVICES) == set(DeviceKind)
    for info in DEVICES.values():
        module, name = info.implementation.split(":")
        assert f"class {name}(Device):" in (ROOT / f"{module.replace('.', '/')}.py").read_text()
        compiler = importlib.import_module(info.compiler) if info.compiler else box_modules.emulated()
        assert callable(compiler.prepare)
        assert bool(info.toolkit_program) == bool(info.toolkit_variable)
    device = open_device("emulated")
    assert isinstance(device, implementation("emulated"))
    assert (device.KIND, device.TORCH, device.free_bytes()) == (DeviceKind.EMULATED, "cpu", None)


def test_an_unknown_kind_is_refused_with_those_that_exist() -> None:
    """By name, before anything is imported."""
    with pytest.raises(ValueError, match="there is no device 'tpu'; take one of: emulated, cuda"):
        device_info("tpu")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("CUDA_ERROR_ASSERT: n = 4097", ("CUDA_ERROR_ASSERT", FaultKind.ASSERT)),
        ("CUDA_ERROR_NOT_LISTED", ("CUDA_ERROR_NOT_LISTED", None)),
        ("it said CUDA_ERROR_ASSERT", ("", None)),
        ("", ("", None)),
    ],
)
def test_a_fault_is_the_name_that_a_message_begins_with(message: str, expected: tuple[str, FaultKind | None]) -> None:
    """The text behind the name may be untrusted."""
    assert fault_of(message) == expected


def test_nothing_in_the_product_compares_a_device_with_a_name() -> None:
    """Differences between devices are in the table or in the device's class. The control is a comparison that is found."""
    control = 'x = 1\nif job.device_kind == "cuda":\n    pass\nif KIND != DeviceKind.CUDA:\n    pass\n'
    assert list(comparisons_with_a_kind(control)) == [2, 4]
    comparisons = [f"{path.relative_to(ROOT)}:{line}" for path in PRODUCT for line in comparisons_with_a_kind(path.read_text("utf-8"))]
    assert comparisons == []
