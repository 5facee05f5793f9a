# problem: own_kernels_only
# why: fills its output by torch before Triton adds to it
import torch
import triton
import triton.language as tl


@triton.jit
def added(alpha, x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(out + at, mask=inside) + alpha * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, value, mask=inside)


def solve(alpha, x, y):
    out = torch.zeros_like(x)
    added[(triton.cdiv(x.numel(), 1024),)](alpha, x, y, out, x.numel(), BLOCK=1024)
    return out
