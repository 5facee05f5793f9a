# problem: silu
import torch
from numba import cuda, float32


@cuda.jit
def silu(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] / (float32(1.0) + cuda.libdevice.fast_expf(-x[i]))


def solution(x):
    y = torch.empty_like(x)
    silu[(x.numel() + 255) // 256, 256](x.reshape(-1), y.reshape(-1))
    return y
