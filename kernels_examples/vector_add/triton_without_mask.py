# expect: WRONG_ANSWER
# The last block is left out where it is not full, so nothing asks for a mask: fine at powers of two, wrong at every other length.
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a, b, c, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at) + tl.load(b + at))


def solve(a, b):
    c = torch.empty_like(a)
    add_kernel[(a.numel() // 1024,)](a, b, c, BLOCK=1024)
    return c
