"""The tensors of a nest without its text: taken out at every call of a reference, so without delay."""

from __future__ import annotations

import torch


def tensors_of(value: object) -> list[torch.Tensor]:
    """The tensors of a nest, in the order in which `nest.flatten` meets them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for one in value for tensor in tensors_of(one)] if isinstance(value, (list, tuple)) else []
