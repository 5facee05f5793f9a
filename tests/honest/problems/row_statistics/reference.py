import torch


def reference(x):
    variance, mean = torch.var_mean(x, dim=1, unbiased=False)
    return mean, variance, x.argmax(dim=1)
