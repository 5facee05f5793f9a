# expect: ACCEPTED
# Triton: the lecture's kernel (seed 003). A row per program, in one block that is wide enough for it.
import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    values = tl.load(x + row * cols + at, mask=inside)
    tl.store(y + row * cols + at, values * values, mask=inside)


def solve(x):
    y = torch.empty_like(x)
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    warps = 16 if block >= 4096 else 8 if block >= 2048 else 4
    square_kernel[(rows,)](x, y, cols, BLOCK=block, num_warps=warps)
    return y
