# problem: twice
import torch


def solve(x: torch.Tensor, result: torch.Tensor, n: int):
    torch.mul(x[:n], 2, out=result)
