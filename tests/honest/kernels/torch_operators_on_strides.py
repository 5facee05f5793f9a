# problem: transposed
# why: asserts the strides that the problem's file gives its inputs, and returns what PyTorch makes of them, which lies as they do
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, turned, cut):
        assert turned.stride() == (1, 80) and cut.stride() == (64, 1)
        return turned * 2 + 1, cut * 2 + 1
