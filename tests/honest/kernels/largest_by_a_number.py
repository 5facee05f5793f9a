# problem: largest_of_rows
# why: k is a number that Python gets, as the reference does
import torch


def solve(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    order = torch.argsort(x, dim=-1, descending=True, stable=True)[:, :k].contiguous()
    return x.gather(-1, order), order
