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
        made: Any = of if of is not None and issubclass(of, tuple) else namedtuple(name.rpartition(".")[2], fields)
        return made._make(fields.values())
    if of is None:
        return types.SimpleNamespace(**fields)
    made = object.__new__(of)
    for key, value in fields.items():
        object.__setattr__(made, key, value)  # a frozen dataclass has a setter of its own
    return made


def torch_class(name: str) -> type | None:
    """A class of torch.nn by its full name; None for any other name."""
    if not name.startswith("torch.nn."):
        return None
    import torch

    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def _module(fields: Mapping[str, Any], of: type | None) -> Any:
    import torch

    kind = of if of is not None and issubclass(of, torch.nn.Module) else torch.nn.Module
    made = kind.__new__(kind)
    torch.nn.Module.__init__(made)
    for key, value in fields.items():
        what, _, name = key.partition(":")
        if what == PARAMETER:
            made.register_parameter(name, None if value is None else torch.nn.Parameter(value, requires_grad=False))
        elif what == BUFFER:
            made.register_buffer(name, value)
        elif what == SUBMODULE:
            made.add_module(name, value)
        else:
            made.__dict__[name] = value
    return made
