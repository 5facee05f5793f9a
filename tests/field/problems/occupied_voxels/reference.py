import torch


def reference(index, voxels):
    return torch.bincount(index[index >= 0], minlength=voxels).int()
