import torch.nn.functional as F


def reference(x, taps):
    return F.conv1d(x[None, None], taps[None, None], padding=15)[0, 0]
