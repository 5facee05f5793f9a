# expect: WRONG_ANSWER UNWRITTEN_OUTPUT
# Triton: the lecture's "optimization" (seed 003): a block of 1024 whatever the width. It is fast because it leaves all further columns out.
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
    block = 1024
    square_kernel[(rows,)](x, y, cols, BLOCK=block, num_warps=4)
    return y
