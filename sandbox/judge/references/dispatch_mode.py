"""A dispatch mode whose first use does not import torch's compiler."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base of modes that look at operations and are never compiled."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls) -> None:
        """Leave the subclass as it is. torch's own wraps its dispatch in `_disable_dynamo`, which imports the compiler, for two seconds."""
