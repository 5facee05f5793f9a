"""Which of a GPU's memory is filled before a call that is verified; the driver and torch's allocator are fakes."""

from typing import Any

import pytest

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    cuda = pytest.importorskip("sandbox.devices.cuda", reason="cuda-bindings is not installed")


def _segment(address: int, *blocks: tuple[str, int], pool: int = 0, expandable: bool = False) -> dict[str, Any]:
    shown = [{"state": state, "size": size} for state, size in blocks]
    return {"address": address, "segment_pool_id": (0, pool), "is_expandable": expandable, "blocks": shown}


SEGMENTS = [
    _segment(0x1000, ("active_allocated", 512), ("inactive", 1536)),
    _segment(0x4000, ("inactive", 2048)),
    _segment(0x8000, ("active_pending_free", 1024), ("inactive", 64)),
    _segment(0xC000, ("inactive", 4096), pool=1),
    _segment(0xF000, ("inactive", 4096), expandable=True),
]


def test_all_that_the_allocator_has_free_is_filled_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what is in use, or still read by another stream; not a graph's own memory. It waits, so that no stream overtakes it."""
    filled: list[tuple[int, int, int]] = []
    waits: list[int] = []
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: SEGMENTS)
    monkeypatch.setattr(cuda.driver, "cuMemsetD8", lambda address, value, size: (filled.append((address, value, size)), (0,))[1])
    monkeypatch.setattr(cuda.driver, "cuCtxSynchronize", lambda: (waits.append(len(filled)), (0,))[1])
    cuda._poison_free_blocks()
    assert filled == [(0x1000 + 512, 0xFF, 1536), (0x4000, 0xFF, 2048), (0x8000 + 1024, 0xFF, 64)]
    assert waits == [3]
