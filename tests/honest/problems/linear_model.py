import torch
import torch.nn as nn


class Model(nn.Module):
    """A linear layer, a bias of its own and a hinge."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.shift = nn.Parameter(torch.randn(out_features))

    def forward(self, x):
        return torch.relu(self.linear(x) + self.shift)


def get_inputs():
    return [torch.randn(24, 40)]


def get_init_inputs():
    return [40, 32]
