"""Makes a submitted model class of what the judge sends with it: arguments, weights and a seed (`wire.Convention.MODEL`).

Weights are matched by name, so that a class may create them in any order. Where it has other parameters than the problem's, it keeps
what the same seed gives it, and constants are drawn as the problem's were (`sandbox/launch/constant_weights.py`).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from sandbox.launch.constant_weights import Constant, ConstantWeights


def make(entry: Callable[..., Any], state: bytes, where: str) -> Any:
    """An instance on the device that torch calls where. Whatever its code raises goes through."""
    import torch

    held = torch.load(io.BytesIO(state), weights_only=True)
    torch.manual_seed(held["seed"])
    arguments, drawn = held["arguments"], held["drawn"]
    made = _weights(drawn).make(lambda: entry(*arguments)) if drawn else entry(*arguments)
    if not isinstance(made, torch.nn.Module):
        return made
    weights, own = held["weights"] or {}, made.state_dict()
    alike = {name: value for name, value in weights.items() if name in own and own[name].shape == value.shape}
    if all(name in alike for name, _ in made.named_parameters()):
        made.load_state_dict(alike, strict=False)  # buffers that only one of them has are its own affair
    made.to(where, getattr(torch, held["dtype"]))
    if not held["train"]:
        made.eval()
    return made


def _weights(drawn: dict[str, Any]) -> ConstantWeights:
    return ConstantWeights(seed=drawn["seed"], only=frozenset(Constant(*one) for one in drawn["constants"]))
