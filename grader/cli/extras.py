"""Loads the parts of the command line that need an extra.

The base package is a client. Commands that run a server or check a problem in this process need packages of the extras `server` and
`judge`. Those packages may be missing, and they take most of a second to import. The modules that use them are imported here only,
by name, when a command needs them. The other modules of `grader/cli` import neither them nor the server.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from grader.cli.exits import UsageError

_SIGNS = {"server": "sqlalchemy", "judge": "torch", "parquet": "pyarrow"}  # a package of each extra
OTHER_SERVER = ", or pass --server HOST:PORT"


def load(module: str, *extras: str, remedy: str = "") -> ModuleType:
    """Import a module that needs these extras. Raises UsageError if one is not installed; remedy: what else the user can do."""
    missing = ",".join(extra for extra in extras if find_spec(_SIGNS[extra]) is None)
    if missing:
        raise UsageError(f"this command needs packages that are not installed: pip install '.[{missing}]' in a clone{remedy}")
    return import_module(module)


class CommandModule:
    """A module with commands that need extras. It is loaded when an attribute is used for the first time."""

    def __init__(self, name: str, *extras: str) -> None:
        self._name, self._extras = name, extras

    def __getattr__(self, attribute: str) -> Any:
        return getattr(load(self._name, *self._extras), attribute)
