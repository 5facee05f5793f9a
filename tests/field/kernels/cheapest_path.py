# problem: cheapest_path
import torch
from numba import cuda


@cuda.jit
def walk(cost, total, start):
    """A block with a thread for every row, which goes from one diagonal to the next."""
    row = cuda.threadIdx.x
    for diagonal in range(cost.shape[0] + cost.shape[1] - 1):
        column = diagonal - row
        if 0 <= column < cost.shape[1]:
            above = total[row - 1, column] if row > 0 else start[0]
            left_cost = total[row, column - 1] if column > 0 else start[0]
            total[row, column] = cost[row, column] + (min(above, left_cost) if diagonal > 0 else 0)
        cuda.syncthreads()


def solution(cost):
    total = torch.empty_like(cost)
    walk[1, cost.shape[0]](cost, total, torch.cuda.FloatTensor([float("inf")]))
    return total
