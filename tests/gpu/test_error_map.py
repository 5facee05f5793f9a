"""What the map of a wrong answer costs on the judge's device, and that it finds there what it finds on a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.dispatch.gpus import Gpu
from sandbox.protocol.wire import PatternKind
from tests.gpu.conftest import show_flow_only
from tests.gpu.report import Section
from tests.gpu.unboxed import run_program

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(900)]

COLUMNS = ("float32 output", "what is wrong", "comparison, ms", "map, ms", "map / comparison")
KINDS = {
    "last rows": PatternKind.REGION,
    "every 4th column": PatternKind.REGION,
    "scattered": PatternKind.SCATTERED,
    "everything": PatternKind.EVERYTHING,
}


@pytest.mark.parametrize(("side", "tiny_side"), [(4096, 515), (16384, 1027)])
def test_a_map_of_a_wrong_answer(device: str, maybe_gpu: Gpu | None, section: Section, tmp_path: Path, side: int, tiny_side: int) -> None:
    """Of 2^24 and of 2^28 elements. What is found is asserted; the times are for the page."""
    rows = side if maybe_gpu else tiny_side
    small = rows <= 4096
    plan = {"device": "cuda" if maybe_gpu else "cpu", "shape": [rows, rows], "runs": 5 if maybe_gpu else 2, "check_on_host": small}
    found = run_program("tests.gpu.error_map_cost", plan, tmp_path, maybe_gpu)
    table = section.table(*COLUMNS)
    for name, one in found.items():
        ratio = one["map_ms"] / one["compare_ms"]
        table.add(f"{rows} x {rows}", name, f"{one['compare_ms']:.1f}", f"{one['map_ms']:.1f}", f"{ratio:.2f}")
    assert {name: one["pattern"]["kind"] for name, one in found.items()} == KINDS
    assert all(one["same_as_on_host"] for one in found.values()) or not small
    show_flow_only(device)
