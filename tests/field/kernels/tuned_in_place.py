# problem: scale_rows
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["m", "n"])
@triton.jit
def scale(y, s, m, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = y + row * n + columns
    tl.store(at, tl.load(at, mask=columns < n) * tl.load(s + row), mask=columns < n)


def solution(x, s):
    y = x.clone()
    m, n = x.shape
    scale[lambda meta: (m, triton.cdiv(n, meta["BLOCK"]))](y, s, m, n)
    return y
