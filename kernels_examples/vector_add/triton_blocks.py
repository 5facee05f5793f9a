# expect: ACCEPTED
# Triton: a block of elements per program, the last one masked.
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


def solve(a, b):
    assert a.is_cuda and b.is_cuda
    c = torch.empty_like(a)
    n = a.numel()
    add_kernel[(triton.cdiv(n, 4096),)](a, b, c, n, BLOCK=4096)
    return c
