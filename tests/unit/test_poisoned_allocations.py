"""What a torch kernel allocates itself is filled while it is verified, and that costs next to nothing."""

import sys

from sandbox.launch.loop import _poison_allocations
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch


def test_fresh_memory_is_filled_and_no_compiler_is_imported():
    """Torch's own switch imports its compiler first, which takes seconds of the time that the judge is patient for."""
    before = set(sys.modules)
    try:
        _poison_allocations(True)
        assert torch.empty(64).isnan().all()
        assert torch.empty(64, dtype=torch.int32).eq(torch.iinfo(torch.int32).max).all()
    finally:
        _poison_allocations(False)
    assert not torch.are_deterministic_algorithms_enabled()
    assert not [name for name in set(sys.modules) - before if name.startswith("torch._inductor")]
