# problem: own_kernels_only
# why: Numba's simulator computes by NumPy, and the host asks NumPy for the number of blocks
import numpy as np
import torch
from numba import cuda

THREADS = 128


@cuda.jit
def added(alpha, x, y, out):
    at = cuda.grid(1)
    if at < out.shape[0]:
        out[at] = np.float32(alpha) * x[at] + y[at]


def solve(alpha, x, y):
    out = torch.empty_like(x)
    added[int(np.ceil(x.numel() / THREADS)), THREADS](float(alpha), cuda.as_cuda_array(x), cuda.as_cuda_array(y), cuda.as_cuda_array(out))
    return out
