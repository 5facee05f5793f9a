"""The page of measurements: sections with tables and claims, written as markdown and as plain data.  Pure: no clock, no files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_NUMBER = re.compile(r"[-+<>]?\d[\d.,]*( ?(%|us|ms|s|MiB|GiB))?|-?")
OUTPUT_LIMIT = 4000  # characters of a failure's text that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence that was looked into. holds None: it could not be, and detail says why; this fails no run."""

    text: str
    holds: bool | None
    detail: str = ""

    @property
    def word(self) -> str:
        """How it came out."""
        return {True: "holds", False: "**FAILS**", None: "not shown"}[self.holds]


@dataclass(slots=True, kw_only=True)
class Table:
    """Rows under headings; rows may be added while it is made."""

    headings: Sequence[str]
    title: str = ""
    rows: list[Sequence[object]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Section:
    """A part of the page while it is made. failure: why it was not finished."""

    name: str
    title: str
    budget_s: float
    seconds: float = 0.0
    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    def table(self, *headings: str, title: str = "") -> Table:
        """Begin a table; add to its rows."""
        made = Table(headings=headings, title=title)
        self.tables.append(made)
        return made

    def claim(self, text: str, holds: bool | None, detail: str = "") -> None:
        """Say how a claim came out."""
        self.claims.append(Claim(text=text, holds=holds, detail=detail))

    @property
    def succeeded(self) -> bool:
        """Whether it was finished and no claim fails."""
        return not self.failure and all(claim.holds is not False for claim in self.claims)


def markdown(heading: str, facts: Mapping[str, str], sections: Sequence[Section]) -> str:
    """The whole page."""
    lines = [f"# {heading}", "", *table_lines(Table(headings=("what", "which"), rows=list(facts.items()))), ""]
    claims = [(section.name, claim.text, claim.word, claim.detail) for section in sections for claim in section.claims]
    claims += [
        (section.name, "the section was finished", "**FAILS**", first_line(section.failure)) for section in sections if section.failure
    ]
    if claims:
        lines += ["## Claims", "", *table_lines(Table(headings=("section", "claim", "outcome", "found"), rows=list(claims))), ""]
    for section in sections:
        lines += _section(section)
    return "\n".join(lines).rstrip() + "\n"


def data(facts: Mapping[str, str], sections: Sequence[Section]) -> dict[str, Any]:
    """The same for programs, with the raw figures."""
    return {
        "facts": dict(facts),
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "budget_s": section.budget_s,
                "seconds": round(section.seconds, 2),
                "failure": section.failure,
                "claims": [{"text": one.text, "holds": one.holds, "detail": one.detail} for one in section.claims],
                "tables": [
                    {"title": one.title, "headings": list(one.headings), "rows": [[str(cell) for cell in row] for row in one.rows]}
                    for one in section.tables
                ],
                "notes": section.notes,
                "raw": section.raw,
            }
            for section in sections
        ],
    }


def first_line(text: str) -> str:
    """For a cell."""
    return next((line.strip()[:200] for line in text.strip().splitlines()[-1:]), "")


def pasted_rows(output: str) -> list[str]:
    """The rows of markdown tables in what a program printed, a blank line between tables that are apart."""
    found: list[str] = []
    apart = False
    for line in output.splitlines():
        # A test runner's dot may stand before the first row.
        row = line.lstrip(".FEsxX").strip()
        if row.startswith("|") and row.endswith("|") and len(row) > 2:
            if apart and found:
                found.append("")
            found.append(row)
            apart = False
        elif row:
            apart = True
    return found


def _section(section: Section) -> list[str]:
    lines = [f"## {section.title}", "", f"`--only {section.name}`: {section.seconds:.0f} s of {section.budget_s:.0f} s.", ""]
    for table in section.tables:
        lines += [table.title, ""] if table.title else []
        lines += [*table_lines(table), ""]
    for note in section.notes:
        lines += [note, ""] if note else []
    if section.failure:
        lines += ["It was not finished:", "", "```", section.failure.strip()[-OUTPUT_LIMIT:], "```", ""]
    return lines


def table_lines(table: Table) -> list[str]:
    """A table as markdown, without its title; numbers are set to the right."""
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    columns = range(len(table.headings))
    right = [bool(rows) and all(_NUMBER.fullmatch(row[at]) for row in rows) for at in columns]
    return [
        f"| {' | '.join(table.headings)} |",
        f"| {' | '.join('---:' if right[at] else '---' for at in columns)} |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return " ".join(text.replace("|", "\\|").split())
