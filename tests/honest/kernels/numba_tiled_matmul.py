# problem: matmul
# why: Numba's own tutorial: 256 threads of a block share tiles, with barriers in a loop, and its edges are guarded
import torch
from numba import cuda, float32

TILE = 16


@cuda.jit
def tiled(a, b, c):
    a_tile = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        at = tile * TILE
        a_tile[tx, ty] = a[x, at + ty] if x < a.shape[0] and at + ty < a.shape[1] else float32(0.0)
        right[tx, ty] = b[at + tx, y] if at + tx < b.shape[0] and y < b.shape[1] else float32(0.0)
        cuda.syncthreads()
        for k in range(TILE):
            total += a_tile[tx, k] * right[k, ty]
        cuda.syncthreads()
    if x < c.shape[0] and y < c.shape[1]:
        c[x, y] = total


def solve(a, b):
    c = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    tiled[(-(-c.shape[0] // TILE), -(-c.shape[1] // TILE)), (TILE, TILE)](a, b, c)
    return c
