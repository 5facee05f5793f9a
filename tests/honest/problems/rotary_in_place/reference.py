import torch


def reference(query, cosine, sine):
    first, second = query.unbind(2)
    cosine, sine = cosine[:, None], sine[:, None]
    return torch.stack((first * cosine - second * sine, second * cosine + first * sine), 2)
