"""Discloses to a submitter what may be seen of workloads that are not public: one table for facts, events and reports.  Pure.

The size of a hidden workload must not get out: a submitter who knows it can write a kernel for it alone. A kernel can carry a size in any
number or text that it chooses (a message, an error, an exit code, a time), and a count of elements is one itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, TypeVar

from grader.model import Event, Problem, Ranking, Report, Submission
from sandbox.protocol import wire

T = TypeVar("T")
TOOL_FACTS = (wire.KernelProfile, wire.ArtifactFile)  # that no judge emits, and modes of packages do


class Exposure(IntEnum):
    """Kinds of workloads that a fact may be about. The columns of TABLE, in its order."""

    PUBLIC = 0  # a workload that is shown
    LATER = 1  # the same, in a process of a ranked run after another one met a hidden workload and may have left its size for this one
    HIDDEN = 2  # a hidden workload
    SECRET = 3  # a hidden workload of a competition: only how it ended


class Treatment(StrEnum):
    """Treatment of a field."""

    SHOWN = "shown"
    RENAMED = "renamed"  # hidden-1, hidden-2 and so on
    ROUNDED = "rounded"  # to when the attempt began
    CUT = "cut"  # what came after the first hidden workload is left out
    OMITTED = "omitted"


_SHOWN, _RENAMED, _CUT, _OMITTED = Treatment.SHOWN, Treatment.RENAMED, Treatment.CUT, Treatment.OMITTED
Row = tuple[Treatment, Treatment, Treatment, Treatment]
_ALWAYS: Row = (_SHOWN, _SHOWN, _SHOWN, _SHOWN)
_NAME: Row = (_SHOWN, _SHOWN, _RENAMED, _RENAMED)
_NOT_SECRET: Row = (_SHOWN, _SHOWN, _SHOWN, _OMITTED)
_NOT_HIDDEN: Row = (_SHOWN, _SHOWN, _OMITTED, _OMITTED)
_FIRST: Row = (_SHOWN, _OMITTED, _OMITTED, _OMITTED)  # chosen by the kernel, so not even of a public workload once it may know a size
_NEVER: Row = (_OMITTED, _OMITTED, _OMITTED, _OMITTED)  # decides the verdict; a submitter sees what was decided

TABLE: Mapping[type, Mapping[str, Row]] = {
    wire.Trial: {
        "workload_id": _NAME,
        **dict.fromkeys(("phase", "outcome", "hidden"), _ALWAYS),
        **dict.fromkeys(("index", "run_count"), _NOT_SECRET),
        **dict.fromkeys(("key", "element_count", "mismatched_count", "unwritten_count", "nonfinite_count"), _NOT_HIDDEN),
        **dict.fromkeys(("message", "max_absolute_error", "max_relative_error", "budget_ratio", "duration_ns"), _FIRST),
        **dict.fromkeys(("wrong_elements", "symptom", "cuda_error", "wrong_pattern"), _FIRST),
    },
    wire.Measurement: {  # of a secret workload there is none at all: it is nothing but times
        "workload_id": (_SHOWN, _SHOWN, _RENAMED, _OMITTED),
        **dict.fromkeys(("clock", "certified", "bound_ns", "hidden", "reported_confirmed", "baselines", "speedups"), _NOT_SECRET),
        **dict.fromkeys(("reported_baselines", "conditions"), _NOT_SECRET),
        **dict.fromkeys(("reported", "floor_ns", "physical_floor_ns", "moved_bytes", "flops"), _NOT_HIDDEN),
        # How many turns the budget had time for would tell how long one took.
        **dict.fromkeys(("turn_count", "half_width", "end"), _NOT_HIDDEN),
        **dict.fromkeys(("disturbed", "baseline_slowed", "shortest_ns"), _NEVER),  # flags of the report
    },
    wire.Progress: {"stage": _ALWAYS, "workload_id": _NAME, "hidden_at_ns": _NEVER},
    wire.Round: dict.fromkeys(("index", "count"), _ALWAYS),
    wire.Build: dict.fromkeys((field.name for field in dataclasses.fields(wire.Build)), _ALWAYS),  # before any workload is run
    wire.Environment: dict.fromkeys((field.name for field in dataclasses.fields(wire.Environment)), _ALWAYS),
    wire.Load: {"outcome": _ALWAYS, "message": _FIRST},
    wire.RunEnd: {
        **dict.fromkeys(("cause", "wall_ns"), _NEVER),
        **dict.fromkeys(("exit_code", "signal"), _NEVER),
        "output": (_SHOWN, _CUT, _CUT, _OMITTED),
    },
    wire.Evidence: dict.fromkeys(("policy", "imported", "seen", "hints"), _NEVER),
    # Of modes of packages, as far as `disclosed` lets them pass. The files are their owner's: `ListArtifacts`.
    wire.KernelProfile: dict.fromkeys((field.name for field in dataclasses.fields(wire.KernelProfile)), _ALWAYS),
    wire.ArtifactFile: dict.fromkeys((field.name for field in dataclasses.fields(wire.ArtifactFile)), _NEVER),
    wire.Violation: dict.fromkeys(("kind", "detail"), _NEVER),
    wire.Plan: dict.fromkeys(("trials", "measured", "rule", "sweep"), _NEVER),  # the rule is a field of the report
    wire.AttemptTimeline: {"spans": _NEVER},  # a field of the report
    wire.Restart: dict.fromkeys(("job_id", "cause"), _NEVER),  # between a judge and its server
    wire.Finished: {"job_id": _NEVER},
    wire.Broken: dict.fromkeys((field.name for field in dataclasses.fields(wire.Broken)), _NEVER),
    wire.Health: dict.fromkeys((field.name for field in dataclasses.fields(wire.Health)), _NEVER),
    Event: {
        **dict.fromkeys(("sequence", "attempt", "state", "fact"), _ALWAYS),  # the fact by its own rows
        "event_time": (_SHOWN, _SHOWN, _SHOWN, Treatment.ROUNDED),
    },
    Report: {
        **dict.fromkeys(("verdict", "reason", "summary", "speedups", "build", "environment"), _ALWAYS),
        **dict.fromkeys(("trials", "measurements", "flags", "libraries", "process_count", "score"), _ALWAYS),  # those two by their own rows
        **dict.fromkeys(("rule", "profile", "cached_from", "exit_code", "signal"), _ALWAYS),
        "output": (_SHOWN, _CUT, _CUT, _OMITTED),
        "timeline": _NOT_SECRET,  # else it would say how long a secret workload took
    },
}


def treatment(kind: type, name: str, exposure: Exposure) -> Treatment:
    """Return the treatment of a field."""
    return TABLE[kind][name][exposure]


@functools.cache
def omitted(kind: type, exposure: Exposure) -> frozenset[str]:
    """Return the names of the fields that are omitted."""
    return frozenset(name for name, row in TABLE[kind].items() if row[exposure] is Treatment.OMITTED)


def redact(fact: T, exposure: Exposure) -> T:
    """Return the fact with every field that is omitted at its default, or empty."""
    kind: type = type(fact)
    return _without(fact, omitted(kind, exposure))


def disclosed(fact: wire.Fact, row: Mapping[type, Collection[str]]) -> wire.Fact | None:
    """Return what passes of a fact of a mode: of a kind that no judge emits the fields of the mode's row; None where it has none."""
    kind: type = type(fact)
    if kind not in TOOL_FACTS:
        return fact
    return _without(fact, {field.name for field in dataclasses.fields(fact)} - {*row[kind]}) if kind in row else None


def _without(fact: T, names: Collection[str]) -> T:
    changes = {
        field.name: _empty(field, getattr(fact, field.name))
        for field in dataclasses.fields(fact)  # type: ignore[arg-type]
        if field.name in names
    }
    return dataclasses.replace(fact, **changes) if changes else fact  # type: ignore[type-var]


def _empty(of: dataclasses.Field[Any], value: object) -> object:
    if of.default is not dataclasses.MISSING:
        return of.default
    if of.default_factory is not dataclasses.MISSING:
        return of.default_factory()
    return type(value)() if isinstance(value, (int, str, tuple)) else value


@dataclass(frozen=True, slots=True)
class Redactor:
    """Applies the table to one submission's facts: the names that hidden workloads have among submitters, whether they are secret, the
    dtype whose peak the kernels are held to, and what a score is. swept: the problem of a sweep, which has no hidden workload."""

    hidden: Mapping[str, str]
    dtype: str = ""
    secret: bool = False
    ranking: Ranking = field(default_factory=Ranking)
    swept: Problem | None = None

    @classmethod
    def for_problem(cls, problem: Problem) -> Redactor:
        """Make the redactor of a problem: hidden workloads are hidden-1, hidden-2 and so on, in its order."""
        ids = [workload.workload_id for workload in problem.spec.workloads if workload.hidden]
        dtype = problem.spec.inputs[0].dtype if problem.spec.inputs else ""  # of some formats only the judge knows
        names = {workload_id: f"hidden-{number}" for number, workload_id in enumerate(ids, 1)}
        swept = problem if problem.swept_axis and not ids else None
        return cls(names, dtype, bool(problem.competition_id), problem.ranking, swept)

    def merged_with(self, earlier: Redactor) -> Redactor:
        """This one, and what an earlier one hides."""
        return dataclasses.replace(self, hidden={**earlier.hidden, **self.hidden}, secret=self.secret or earlier.secret)

    def name(self, workload_id: str, hidden: bool = False) -> str:
        """The id to show."""
        return self.hidden.get(workload_id, "hidden" if hidden else workload_id)

    def exposure(self, fact: wire.Trial | wire.Measurement) -> Exposure:
        """Which column of the table applies. A fact of a public workload that is marked hidden is of a later process."""
        if self.secret and (fact.hidden or fact.workload_id in self.hidden):
            return Exposure.SECRET
        return Exposure.HIDDEN if fact.hidden else Exposure.PUBLIC

    @property
    def report_exposure(self) -> Exposure:
        """Which column applies to the report as a whole. A competition has public runs outside of it for prints."""
        return Exposure.SECRET if self.secret else Exposure.PUBLIC

    def event_time(self, event: Event, submission: Submission) -> datetime:
        """When it happened; rounded where it is secret, for two such times would say how long a secret workload took."""
        exposure = Exposure.SECRET if self.keeps_secret(event) else Exposure.PUBLIC
        if treatment(Event, "event_time", exposure) is Treatment.ROUNDED:
            return min(event.event_time, submission.start_time or event.event_time)
        return event.event_time

    def keeps_secret(self, event: Event) -> bool:
        """Return whether it is of a workload of which only the outcome is shown."""
        match event.fact:
            case wire.Trial() | wire.Measurement() | wire.Progress() as fact:
                return self.secret and fact.workload_id in self.hidden
        return False

    def omits(self, fact: wire.Trial | wire.Measurement) -> bool:
        """Return whether the whole fact is left out: a measurement is nothing but times, as is how often a kernel was timed."""
        return self.exposure(fact) is Exposure.SECRET and (
            isinstance(fact, wire.Measurement) or (fact.phase is wire.TrialPhase.CERTIFY and fact.outcome is wire.TrialOutcome.PASSED)
        )
