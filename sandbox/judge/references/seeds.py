"""Random numbers of a problem's own code: the same from the same key, and as hard to guess as the key."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch

_MT_BEGIN, _MT_WORDS = 3, 624  # where the Mersenne twister's words lie in the state of torch's CPU generator, in units of 8 bytes


@contextmanager
def seeded(key: str, where: str = "cpu") -> Iterator[None]:
    """Seed torch's generators, Python's and numpy's from a key; they are as they were when the context is left.

    where: the device whose generator is seeded next to the CPU's. A seed would leave 32 bits of the key to torch's CPU generator, which
    can be searched; so its whole state is made from the key.
    """
    python, legacy = random.getstate(), numpy.random.get_state()
    devices = [torch.device(where).index or 0] if where.startswith("cuda") else []
    digest = hashlib.sha256(key.encode()).digest()
    words = numpy.random.Generator(numpy.random.Philox(int.from_bytes(digest, "little"))).integers(0, 2**32, _MT_WORDS, dtype=numpy.int64)
    with torch.random.fork_rng(devices=devices):
        try:
            torch.manual_seed(int.from_bytes(digest[:8], "little"))
            state = torch.get_rng_state()
            state.view(torch.int64)[_MT_BEGIN : _MT_BEGIN + _MT_WORDS] = torch.from_numpy(words)
            torch.set_rng_state(state)
            random.seed(digest)
            numpy.random.seed(list(words[:8]))
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(legacy)
