"""Choices of the device to grade on, and which of a host's GPUs they mean.  Pure.

"emulated"; "cuda": any GPU; "cuda:H200": one whose model has that in its name; "cuda:0": the first in PCI order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sandbox.protocol.devices import DeviceKind

EMULATED, CUDA = DeviceKind.EMULATED, DeviceKind.CUDA
_PREFIX = f"{CUDA}:"
ANY, OTHER = "any", "other"  # of what metrics count: submissions that name no device, or one that is not here
FORMS = "emulated, cuda, cuda:NAME (a part of the GPU's name) or cuda:INDEX (as nvidia-smi counts)"


def well_formed(choice: str) -> bool:
    """Return whether this could choose a device on some host."""
    return choice in (EMULATED, CUDA) or (choice.startswith(_PREFIX) and len(choice) > len(_PREFIX))


def offered(gpus: Iterable[tuple[int, str]], *, emulated: bool) -> tuple[str, ...]:
    """Return what may be chosen where these GPUs are, by index and name. emulated: the emulated device is there, too."""
    pairs = list(gpus)
    names = dict.fromkeys(name for _, name in pairs)
    return (
        *([EMULATED] if emulated else ()),
        *([CUDA] if pairs else ()),
        *(f"{_PREFIX}{index}" for index, _ in pairs),
        *(f"{_PREFIX}{name}" for name in names),
    )


def is_offered(choice: str, offers: Sequence[str]) -> bool:
    """Return whether something of what is offered fits."""
    return choice in offers or any(_names(choice, offer.removeprefix(_PREFIX)) for offer in offers if offer.startswith(_PREFIX))


def counted_as(choice: str, offers: Sequence[str]) -> str:
    """Which device metrics count a choice as: of a name, the first model of GPU that has it; an index is any GPU, for it names no model."""
    if not choice:
        return ANY
    part = choice.removeprefix(_PREFIX)
    if choice in (EMULATED, CUDA) or part.isdecimal():
        return CUDA if part.isdecimal() else choice
    return next((offer for offer in offers if offer.startswith(_PREFIX) and _names(choice, offer.removeprefix(_PREFIX))), OTHER)


def fits(choice: str, index: int, name: str) -> bool:
    """Return whether this GPU is meant."""
    return choice in (CUDA, f"{_PREFIX}{index}") or _names(choice, name)


def _names(choice: str, name: str) -> bool:
    part = choice.removeprefix(_PREFIX)
    return choice.startswith(_PREFIX) and bool(part) and not part.isdecimal() and not name.isdecimal() and part.lower() in name.lower()
