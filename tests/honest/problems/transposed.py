import torch
import torch.nn as nn


class Model(nn.Module):
    """Twice a matrix, and one: of a matrix whose columns are contiguous, and of one whose rows have gaps behind them."""

    def forward(self, turned, cut):
        return turned * 2 + 1, cut * 2 + 1


def get_inputs():
    return [torch.randn(48, 80).t(), torch.randn(80, 64)[:, :48]]


def get_init_inputs():
    return []
