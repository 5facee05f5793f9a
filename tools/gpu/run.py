"""What a section is given: the host, the choices of the command line, and a clock of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.protocol import wire
from tools.gpu.page import Section

EMULATED = "emulated"
FIRST_GPU = (0,)  # on a host with several, all figures are of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the command line says. device: "cuda", or "emulated" to prove the flow where there is no GPU."""

    device: str
    isolation: str
    measure_s: float | None  # of a workload, in sections that measure many; None: the section's own, in aa a server's
    repetitions: int
    aa_count: int
    lane_jobs: int
    soak_count: int
    naive_load: bool  # build the naive harness's kernel by cpp_extension
    seed: int
    kernels: tuple[str, ...] = ("",)  # parts of names: which of the examples, attacks and honest kernels
    share: tuple[int, int] = (1, 1)  # which part of how many, of attacks and honest kernels
    repeats: int = 3  # gradings of each honest kernel

    @property
    def emulated(self) -> bool:
        """Whether there is no GPU, so that only the flow is proven."""
        return self.device == EMULATED


@dataclass(slots=True, kw_only=True)
class Run:
    """One section under way. environment: what the judge said of the device, once there was one."""

    choices: Choices
    section: Section
    place: Path
    environment: wire.Environment | None = None
    on_progress: Callable[[], None] = lambda: None
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it has been under way."""
        return time.monotonic() - self.begun

    @property
    def time_is_up(self) -> bool:
        """Whether nothing more should be begun."""
        return self.seconds >= self.section.budget_s

    @property
    def left_s(self) -> float:
        """How much of the budget is left, at least a second."""
        return max(1.0, self.section.budget_s - self.seconds)

    def say(self, line: str) -> None:
        """A line of progress, at once."""
        say(f"[{self.section.name} {self.seconds:5.0f} s] {line}")
        self.section.seconds = self.seconds
        self.on_progress()

    def claim(self, text: str, holds: bool | None, detail: str = "") -> None:
        """Say how a claim came out; without a GPU no claim is made."""
        if self.choices.emulated:
            holds, detail = None, f"no GPU; {detail}".removesuffix("; ")
        self.section.claim(text, holds, detail)


def say(line: str) -> None:
    """Print to where progress goes."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
