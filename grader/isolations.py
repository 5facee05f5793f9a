"""The isolations by name: what users read of each, and what it needs.  Imports no implementation."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sandbox.protocol.entry_points import EntryPointInvalid, entry_points, load_named

GROUP = "grader.isolations"
AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationInfo:
    """Description of an isolation.

    implementation: "module:Class", a `grader.isolation.Isolation` that is made of its settings. description: one line for reports. safe: it
    keeps hostile code in; `auto` and the checks of problems try these first, in the order of the registry. program, package: what it
    runs, and the Debian package that brings it. remedy: what to do where the program is there and it still does not work.
    """

    name: str
    implementation: str
    description: str
    safe: bool = True
    program: str = ""
    package: str = ""
    remedy: str = "see the reason"

    def load(self) -> Any:
        """Import the implementation."""
        module, _, name = self.implementation.partition(":")
        return getattr(importlib.import_module(module), name)


BUILT_IN = (
    IsolationInfo(
        name="docker",
        implementation="grader.isolation.docker:DockerIsolation",
        description="docker: a container of its own for each build and run, without network",
        program="dockerd",
        package="docker.io",
        remedy="start its engine (systemctl start docker), and be root or in the group docker",
    ),
    IsolationInfo(
        name="bubblewrap",
        implementation="grader.isolation.bubblewrap:BubblewrapIsolation",
        description="bubblewrap: a sandbox of its own for each build and run, without network",
        program="bwrap",
        package="bubblewrap",
        remedy="see the reason; as another user than root it needs unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone)",
    ),
    IsolationInfo(
        name="process",
        implementation="grader.isolation.process:ProcessIsolation",
        description="process: UNSAFE, resource limits only; for your own kernels ('grader-cli doctor' says what stronger ones need)",
        safe=False,
    ),
)


@lru_cache(maxsize=1)
def isolations() -> Mapping[str, IsolationInfo]:
    """All isolations by name, strongest first: the built-in ones, then those of installed packages; an unsafe one is last."""
    named = load_named(GROUP, IsolationInfo, BUILT_IN)
    if AUTO in named:
        raise EntryPointInvalid(entry_points(GROUP)[AUTO], f"is named {AUTO!r}, by which users ask for the strongest", "rename it")
    return dict(sorted(named.items(), key=lambda item: not item[1].safe))


def choices() -> tuple[str, ...]:
    """Return what an option `--sandbox` takes."""
    return (AUTO, *isolations())


def safe_isolations() -> list[str]:
    """Return the isolations that a problem's code may run in, strongest first."""
    return [isolation.name for isolation in isolations().values() if isolation.safe]


def description(name: str) -> str:
    """Return a line for people; the name itself where it is not known here."""
    info = isolations().get(name)
    return name if info is None else info.description
