# problem: adam_step
# why: returns one output of four, and leaves the others where its inputs were
import torch
import triton
import triton.language as tl


@triton.jit
def step(parameter, gradient, mean, square, moved, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    slope = tl.load(gradient + at, mask=inside)
    new_mean = 0.9 * tl.load(mean + at, mask=inside) + 0.1 * slope
    new_square = 0.99 * tl.load(square + at, mask=inside, other=1.0) + 0.01 * slope * slope
    distance = 0.5 * new_mean / (tl.sqrt(new_square) + 1e-6)
    tl.store(parameter + at, tl.load(parameter + at, mask=inside) - distance, mask=inside)
    tl.store(mean + at, new_mean, mask=inside)
    tl.store(square + at, new_square, mask=inside)
    tl.store(moved + at, distance, mask=inside)


def solve(parameter, gradient, mean, square):
    moved = torch.empty_like(parameter)
    n = parameter.numel()
    if n:
        step[(triton.cdiv(n, 256),)](parameter, gradient, mean, square, moved, n, BLOCK=256)
    return moved
