# expect: ACCEPTED
# With a plain 0.0, which Numba takes for a double: as right, but every product is added in double precision, which many GPUs do slowly.
import torch
from numba import cuda


@cuda.jit
def matmul(a, b, c, n):
    column, row = cuda.grid(2)
    if row < n and column < n:
        total = 0.0
        for k in range(n):
            total += a[row, k] * b[k, column]
        c[row, column] = total


def solution(a, b):
    n = a.shape[0]
    c = torch.empty_like(a)
    blocks = (n + 15) // 16
    matmul[(blocks, blocks), (16, 16)](a, b, c, n)
    return c
