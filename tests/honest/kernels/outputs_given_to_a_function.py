# problem: row_statistics
# why: the function returns nothing: it is given its outputs, before its input, and the number of rows behind it
import torch


def solve(place: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, x: torch.Tensor, rows: int) -> None:
    assert len(x) == rows
    place.copy_(x.argmax(1))
    mean.copy_(x.mean(1))
    variance.copy_(x.var(1, correction=0))
