"""How many lanes of each kind there should be, for what waits and runs.  Pure: no clock, no network, no Ray."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader import devices
from grader.errors import SettingsInvalid
from grader.model import DeviceDemand

LANE_LIMIT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRange:
    """Between how many lanes of a kind there may be. kind: as in `LaneCount`."""

    kind: str
    minimum: int
    maximum: int

    @classmethod
    def parsed(cls, text: str) -> LaneRange:
        """Read KIND=MIN:MAX; SettingsInvalid."""
        kind, _, counts = text.partition("=")
        minimum, colon, maximum = counts.partition(":")
        if not kind or not colon or not minimum.isdecimal() or not maximum.isdecimal():
            raise SettingsInvalid("lanes", f"{text!r} is not KIND=MIN:MAX, such as H200=1:8 or emulated=0:4")
        if not int(minimum) <= int(maximum) <= LANE_LIMIT or not int(maximum):
            raise SettingsInvalid("lanes", f"{text!r}: write MIN:MAX with 0 <= MIN <= MAX, and MAX from 1 to {LANE_LIMIT}")
        return cls(kind=kind, minimum=int(minimum), maximum=int(maximum))

    def fits(self, device: str) -> bool:
        """Whether lanes of this kind grade submissions that metrics count under this device."""
        if device in (devices.ANY, devices.OTHER):
            return True
        if devices.EMULATED in (self.kind, device):
            return self.kind == device
        return device == devices.CUDA or self.kind.lower() in device.removeprefix(f"{devices.CUDA}:").lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDemand:
    """What lanes of a kind are needed for. waiting: submissions in the queue that they could grade."""

    lanes: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTarget:
    """How many lanes of a kind there should be now. quiet_since_s: since when there have been more than are needed; None: there are not."""

    count: int
    quiet_since_s: float | None = None


def demand_of_kinds(ranges: Sequence[LaneRange], demands: Iterable[DeviceDemand]) -> dict[str, KindDemand]:
    """Share what waits and runs out among the kinds of lanes; device_kind is as metrics count it.

    Submissions that several kinds can grade come last, and go to the kinds in their order, to each as far as its maximum.
    """
    lanes, waiting = {one.kind: 0 for one in ranges}, {one.kind: 0 for one in ranges}
    fitting = [(demand, [one for one in ranges if one.fits(demand.device_kind)]) for demand in demands]
    for demand, kinds in sorted(fitting, key=lambda pair: len(pair[1])):
        left = demand.queued_count + demand.running_count
        for one in kinds:
            taken = min(left, max(0, one.maximum - lanes[one.kind]))
            lanes[one.kind] += taken
            waiting[one.kind] += demand.queued_count
            left -= taken
    return {kind: KindDemand(lanes=lanes[kind], waiting=waiting[kind]) for kind in lanes}


def lane_target(
    lane_range: LaneRange, count: int, demand: KindDemand, before: LaneTarget | None, now_s: float, quiet_s: float
) -> LaneTarget:
    """The next target where there are `count` lanes: up at once, down by one after quiet_s in which nothing waited and fewer were enough.

    Lanes above the maximum, which somebody else has placed, go in the same way.
    """
    needed = min(max(demand.lanes, lane_range.minimum), lane_range.maximum)
    if needed >= count:
        return LaneTarget(count=needed)
    if demand.waiting:
        return LaneTarget(count=count)
    since_s = now_s if before is None or before.quiet_since_s is None else before.quiet_since_s
    if now_s - since_s < quiet_s:
        return LaneTarget(count=count, quiet_since_s=since_s)
    return LaneTarget(count=count - 1, quiet_since_s=now_s)
