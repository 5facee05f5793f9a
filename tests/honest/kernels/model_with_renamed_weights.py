# problem: norm_model
# why: has weights of other names, order and shape than the problem, and folds one layer into another while it is made
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.opening = nn.Parameter(torch.zeros(out_features))
        self.offset, self.scale = nn.Parameter(torch.zeros(1, out_features)), nn.Parameter(torch.ones(1, out_features))
        self.negative = nn.Parameter(torch.full((1,), 0.25))
        self.unused = nn.Parameter(torch.ones(3))
        self.first = nn.Sequential(nn.Linear(in_features, out_features), nn.BatchNorm1d(out_features))
        linear, batch = self.first
        factor = batch.weight / torch.sqrt(batch.running_var + batch.eps)
        self.weight = (linear.weight * factor[:, None]).detach()
        self.bias = ((linear.bias - batch.running_mean) * factor + batch.bias).detach()

    def forward(self, x):
        assert bool((self.unused == 1).all())
        y = x @ self.weight.to(x.device).t() + self.bias.to(x.device)
        y = y - y.mean(1, keepdim=True)
        y = y * torch.rsqrt(y.square().mean(1, keepdim=True) + 1e-5) * self.scale + self.offset
        y = torch.where(y > 0, y, y * self.negative)
        return y + (y @ self.opening)[:, None]
