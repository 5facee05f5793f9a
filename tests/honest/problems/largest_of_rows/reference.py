import torch


def reference(x, k):
    values, places = torch.sort(x, dim=-1, descending=True, stable=True)  # of equal numbers the first counts first
    return values[:, :k].contiguous(), places[:, :k].contiguous()
