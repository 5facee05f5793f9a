"""Puts objects of data together: dataclasses, named tuples, modules of torch and others.  Calls no class's __init__, unpickles nothing.

A field of a module says what it is: "parameter:weight", "buffer:data", "module:inner", "attribute:seq_len".
"""

from __future__ import annotations

import types
from collections import namedtuple
from collections.abc import Mapping
from typing import Any

PLAIN, NAMED_TUPLE, MODULE = "plain", "namedtuple", "module"
PARAMETER, BUFFER, SUBMODULE, ATTRIBUTE = "parameter", "buffer", "module", "attribute"


def make_object(kind: str, name: str, fields: Mapping[str, Any], of: type | None) -> Any:
    """An object of the class `of`; where that is None or does not fit, of one that has the same attributes."""
    if kind == MODULE:
        return _module(fields, of)
    if kind == NAMED_TUPLE:
        instance: Any = of if of is not None and issubclass(of, tuple) else namedtuple(name.rpartition(".")[2], fields)
        return instance._make(fields.values())
    if of is None:
        return types.SimpleNamespace(**fields)
    instance = object.__new__(of)
    for key, value in fields.items():
        object.__setattr__(instance, key, value)  # a frozen dataclass has a setter of its own
    return instance


def torch_class(name: str) -> type | None:
    """A class of torch.nn by its full name; None for any other name."""
    if not name.startswith("torch.nn."):
        return None
    import torch

    attribute: Any = torch
    for part in name.split(".")[1:]:
        attribute = getattr(attribute, part, None)
    return attribute if isinstance(attribute, type) else None


def _module(fields: Mapping[str, Any], of: type | None) -> Any:
    import torch

    kind = of if of is not None and issubclass(of, torch.nn.Module) else torch.nn.Module
    module = kind.__new__(kind)
    torch.nn.Module.__init__(module)
    for key, value in fields.items():
        group, _, name = key.partition(":")
        if group == PARAMETER:
            module.register_parameter(name, None if value is None else torch.nn.Parameter(value, requires_grad=False))
        elif group == BUFFER:
            module.register_buffer(name, value)
        elif group == SUBMODULE:
            module.add_module(name, value)
        else:
            module.__dict__[name] = value
    return module
