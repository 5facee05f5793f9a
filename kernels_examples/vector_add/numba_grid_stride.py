# expect: ACCEPTED
# Numba: a grid of fixed size whose threads stride over the vector; they take tensors as they are.
import torch
from numba import cuda


@cuda.jit
def add(a, b, c):
    for i in range(cuda.grid(1), c.shape[0], cuda.gridsize(1)):
        c[i] = a[i] + b[i]


def run(a, b):
    c = torch.empty_like(a)
    add[264, 256](a, b, c)
    return c
