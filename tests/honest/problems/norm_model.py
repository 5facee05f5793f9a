import torch
import torch.nn as nn


class Model(nn.Module):
    """Layers that start with constants: batch normalisation as it is after training, a norm, a slope, and a gate that is closed."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.batch = nn.BatchNorm1d(out_features)
        self.layer = nn.LayerNorm(out_features)
        self.slope = nn.PReLU()
        self.gate = nn.Parameter(torch.zeros(out_features, 1))
        self.eval()

    def forward(self, x):
        y = self.slope(self.layer(self.batch(self.linear(x))))
        return y + y @ self.gate


def get_inputs():
    return [torch.randn(24, 40)]


def get_init_inputs():
    return [40, 32]
