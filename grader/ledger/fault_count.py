"""How many attempts without a verdict fail a submission (ADR 0004).  Pure.

Three failures of ours do, or eight lost leases. A server that is killed loses all of its leases, so a lost one says less of its submission
than a failure; but a submission that kills its server each time is failed too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import assert_never

FAILURE_LIMIT, LOSS_LIMIT = 3, 8
_RADIX = LOSS_LIMIT + 1


class Fault(Enum):
    """Why an attempt had no verdict, where that is counted."""

    FAILURE = auto()
    LOST_LEASE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCount:
    """How often each happened to a submission. Its row has both in one column: a second one would be a migration."""

    failures: int
    losses: int

    @classmethod
    def of(cls, column: int) -> FaultCount:
        """From the column."""
        failures, losses = divmod(column, _RADIX)
        return cls(failures=failures, losses=losses)

    @property
    def column(self) -> int:
        """For the column."""
        return self.failures * _RADIX + self.losses

    @property
    def exhausted(self) -> bool:
        """Whether the submission is given up."""
        return self.failures >= FAILURE_LIMIT or self.losses >= LOSS_LIMIT

    def plus(self, fault: Fault | None) -> FaultCount:
        """With one more; None counts nothing."""
        match fault:
            case None:
                return self
            case Fault.FAILURE:
                return replace(self, failures=self.failures + 1)
            case Fault.LOST_LEASE:
                return replace(self, losses=self.losses + 1)
            case _:
                assert_never(fault)
