"""Entry points of installed packages: how grader finds the parts that they bring, on both sides of a box."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from typing import Any


class EntryPointInvalid(Exception):
    """An entry point that can't be used. The message names the package, the value and what to do."""

    def __init__(self, point: EntryPoint, fault: str, remedy: str) -> None:
        self.package, self.value, self.remedy = _package(point), point.value, remedy
        super().__init__(f"{point.group}: {self.value!r} of {self.package} {fault}; {remedy}")


@lru_cache(maxsize=1)
def scan() -> EntryPoints:
    """Read the entry points of the packages that bring parts, once: each look takes milliseconds."""
    installed = metadata.entry_points()
    groups = (group for group in installed.groups if group.startswith("grader."))
    return EntryPoints(point for group in groups for point in installed.select(group=group))


def entry_points(group: str) -> dict[str, EntryPoint]:
    """Return those of a group by name, in the order of their names. EntryPointInvalid where two packages use a name."""
    by_name = dict[str, EntryPoint]()
    for point in sorted(scan().select(group=group), key=lambda point: (point.name, point.value)):
        if (first := by_name.setdefault(point.name, point)) is not point:
            fault = f"is named {point.name!r}, and so is {first.value!r} of {_package(first)}"
            raise EntryPointInvalid(point, fault, "uninstall one of the two, or rename its entry point")
    return by_name


def package_names() -> set[str]:
    """Return the names of the top packages that bring parts."""
    return {point.module.partition(".")[0] for point in scan()}


def load(point: EntryPoint, kind: Any = object) -> Any:
    """Import what an entry point names. EntryPointInvalid where that fails, or where it is not of this kind."""
    try:
        part = point.load()
    except Exception as error:
        fault = f"can't be imported ({type(error).__name__}: {error})"
        raise EntryPointInvalid(point, fault, "install it again, or uninstall it") from error
    if not isinstance(part, kind):
        raise EntryPointInvalid(point, f"is not a {kind.__name__}", "docs/extending.md says what it has to be")
    return part


def load_named(group: str, kind: Any, built_in: Iterable[Any]) -> Mapping[str, Any]:
    """Return the parts of a group that say their name, after the built-in ones. EntryPointInvalid as above, or for a name that is taken."""
    by_name = {_name(part): part for part in built_in}
    for name, point in entry_points(group).items():
        if by_name.setdefault(name, part := load(point, kind)) is not part:
            raise EntryPointInvalid(point, f"is named {name!r}, as one of grader itself is", "rename its entry point")
        if _name(part) != name:
            raise EntryPointInvalid(point, f"has the name {_name(part)!r}, and its entry point {name!r}", "let both have the same")
    return by_name


def _name(part: Any) -> str:
    return str(part.NAME if isinstance(part, ModuleType) else part.name)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an installed package"
