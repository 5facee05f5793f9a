# expect: ACCEPTED
# Numba with a typed accumulator: numpy's float32 keeps products and sums in single precision.
import numpy as np
import torch
from numba import cuda


@cuda.jit
def matmul(a, b, c, n):
    column, row = cuda.grid(2)
    if row < n and column < n:
        total = np.float32(0.0)
        for k in range(n):
            total += a[row, k] * b[k, column]
        c[row, column] = total


def solution(a, b):
    n = a.shape[0]
    c = torch.empty_like(a)
    blocks = (n + 15) // 16
    matmul[(blocks, blocks), (16, 16)](a, b, c, n)
    return c
