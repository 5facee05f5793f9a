"""Discloses to a submitter what may be seen of workloads that are not public: one table for facts, events and reports.  Pure.

The declaration of a field says of which workloads it is shown (`sandbox.protocol.wire.Disclosure`); one that says nothing is omitted. The
size of a hidden workload must not get out: a submitter who knows it can write a kernel for it alone. A kernel can carry a size in any
number or text that it chooses (a message, an error, an exit code, a time), and a count of elements is one itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, TypeVar, get_args, get_type_hints

from grader.model import Event, Problem, Ranking, Report, Submission
from sandbox.protocol import wire
from sandbox.protocol.wire import Disclosure

T = TypeVar("T")
TOOL_FACTS = (wire.KernelProfile, wire.ArtifactFile)  # that no judge emits, and modes of packages do


class Exposure(IntEnum):
    """Kinds of workloads that a fact may be about. The columns of ROWS, in its order."""

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
_NEVER: Row = (_OMITTED, _OMITTED, _OMITTED, _OMITTED)  # decides the verdict; a submitter sees what was decided
ROWS: Mapping[Disclosure, Row] = {
    Disclosure.ALWAYS: _ALWAYS,
    Disclosure.NAME: (_SHOWN, _SHOWN, _RENAMED, _RENAMED),
    Disclosure.NAME_NOT_SECRET: (_SHOWN, _SHOWN, _RENAMED, _OMITTED),
    Disclosure.NOT_SECRET: (_SHOWN, _SHOWN, _SHOWN, _OMITTED),
    Disclosure.NOT_HIDDEN: (_SHOWN, _SHOWN, _OMITTED, _OMITTED),
    # Chosen by the kernel, so not even of a public workload once it may know a size.
    Disclosure.FIRST: (_SHOWN, _OMITTED, _OMITTED, _OMITTED),
    Disclosure.OUTPUT: (_SHOWN, _CUT, _CUT, _OMITTED),
    Disclosure.MOMENT: (_SHOWN, _SHOWN, _SHOWN, Treatment.ROUNDED),
}
# All of these is shown where the field says nothing else: of a build no workload was run, and a profile is of a public one, in boxes that
# no hidden one was run in. The fact of an event has rows of its own.
WHOLE = (wire.Build, wire.Environment, wire.Round, wire.KernelProfile, Event)


def _rows(kind: type) -> Mapping[str, Row]:
    hints = get_type_hints(kind, include_extras=True)
    disclosures = {field.name: wire.disclosure_of(hints[field.name]) for field in dataclasses.fields(kind)}
    default = _ALWAYS if kind in WHOLE else _NEVER
    return {name: ROWS[disclosure] if disclosure else default for name, disclosure in disclosures.items()}


# What is shown of each field of facts, events and reports, by what its declaration says.
TABLE: Mapping[type, Mapping[str, Row]] = {kind: _rows(kind) for kind in (*get_args(wire.Fact), Event, Report)}


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
