# expect: ACCEPTED
# Numba: a thread for each element.
import torch
from numba import cuda


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.shape[0]:
        c[i] = a[i] + b[i]


def run(a, b):
    c = torch.empty_like(a)
    add[(a.numel() + 255) // 256, 256](cuda.as_cuda_array(a), cuda.as_cuda_array(b), cuda.as_cuda_array(c))
    return c
