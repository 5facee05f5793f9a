# expect: ACCEPTED
# The least that is a submission in Python: torch's own addition.
import torch


def solution(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b
