import torch
import torch.nn.functional as F


def reference(x, weight, bias):
    return F.max_pool2d(torch.relu(F.conv2d(x, weight, bias, padding=1)), kernel_size=2)
