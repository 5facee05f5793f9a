import torch.nn.functional as F


def reference(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias, eps=1e-5)
