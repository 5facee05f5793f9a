# problem: scale_add
# why: Triton's autotuner runs every configuration in the first call of a size, and remembers the fastest
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 4096})], key=["n"])
@triton.jit
def scale_add(alpha, x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, alpha * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def solve(alpha, x, y):
    out = torch.empty_like(x)
    scale_add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](alpha, x, y, out, x.numel())
    return out
