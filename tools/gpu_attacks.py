"""Makes the tables of docs/measurements/attacks.md from reports of tests/gpu/test_exploits.py and test_honest_set.py. Reads files only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.page import outcome, table_lines

SECTIONS = ("exploits", "honest_set")
FACTS = ("date", "device", "driver", "nvcc", "torch", "isolation", "commit")
ATTACKS = ("id", "severity", "attack", "verdict", "gained", "seconds")
HONEST = ("kernel", "language", "mode", "verdict", "gradings", "seconds")

Row = Mapping[str, str]


class NoRows(Exception):
    """A file has neither of the sections."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} has no section {' or '.join(SECTIONS)}; give a gpu.json that `pytest tests/gpu/test_exploits.py --gpu-report` wrote"
        )


@dataclass(slots=True)
class Corpus:
    """The rows of all files. failed: claims of those runs that fail or were not shown in full."""

    facts: dict[str, str] = field(default_factory=dict)
    attacks: list[Row] = field(default_factory=list)
    honest: list[Row] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        """Whether everything that was graded is as it should be, and something was."""
        wrong = [row for row in self.attacks if row["gained"] != "none" or row["wrong"]]
        wrong += [row for row in self.honest if row["verdict"] != row["wanted"]]
        return not self.failed and not wrong and bool(self.attacks or self.honest)


def read(paths: Sequence[Path]) -> Corpus:
    """All of them together; facts are the first one's, and where another says otherwise, both."""
    corpus, slices = Corpus(), {name: set[str]() for name in SECTIONS}
    for path in paths:
        page: dict[str, Any] = json.loads(path.read_text("utf-8"))
        sections = [one for one in page["sections"] if one["name"] in SECTIONS]
        if not sections:
            raise NoRows(path)
        for name in FACTS:
            known, said = corpus.facts.get(name, ""), page["facts"].get(name, "")
            corpus.facts[name] = known if said in known.split("; ") else "; ".join(filter(None, (known, said)))
        for one in sections:
            rows = one["raw"].get("rows", [])
            (corpus.attacks if one["name"] == "exploits" else corpus.honest).extend(rows)
            corpus.failed += [f"{one['name']}: {claim['text']}: {claim['detail']}" for claim in one["claims"] if claim["holds"] is not True]
            slices[one["name"]].add(page["facts"].get("slice", "1/1"))
    corpus.failed += [
        f"{name}: there are only the slices {', '.join(sorted(found))}" for name, found in slices.items() if not _whole(found)
    ]
    return corpus


def _whole(slices: set[str]) -> bool:
    """Whether these slices are all of them; none at all is another section's run."""
    return not slices or any(
        slices >= {f"{part}/{count}" for part in range(1, count + 1)} for count in {int(one.split("/")[1]) for one in slices}
    )


def lines(corpus: Corpus) -> list[str]:
    """Facts, what holds, and a row for each attack and each honest kernel."""
    found = table_lines(("what", "which"), corpus.facts.items())
    claims = [
        *_of_attacks(corpus.attacks),
        *_of_honest(corpus.honest),
        *(("the sections' own claims", outcome(False), one) for one in corpus.failed),
    ]
    found += ["", *table_lines(("claim", "outcome", "found"), claims), ""]
    if corpus.attacks:
        rows = [
            (
                *(row[name] for name in ("id", "severity", "attack")),
                f"{row['verdict']} {row['reason']}".strip(),
                row["gained"],
                row["seconds"],
            )
            for row in sorted(corpus.attacks, key=lambda row: row["attack"])
        ]
        found += [f"Attacks, {_total(corpus.attacks)} s of the device:", "", *table_lines(ATTACKS, rows), ""]
    if corpus.honest:
        rows_of = {
            name: [row for row in corpus.honest if row["kernel"] == name] for name in sorted({row["kernel"] for row in corpus.honest})
        }
        table = table_lines(HONEST, map(_honest_row, rows_of.values()))
        found += [f"Honest kernels and their wrong twins, {_total(corpus.honest)} s of the device:", "", *table, ""]
    return found


def _honest_row(rows: Sequence[Row]) -> tuple[str, ...]:
    verdicts = " or ".join(sorted({row["verdict"] for row in rows}))
    return (
        *(rows[0][name] for name in ("kernel", "language", "mode")),
        verdicts,
        str(len(rows)),
        ", ".join(row["seconds"] for row in rows),
    )


def _of_attacks(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    if not rows:
        return []
    gained = [f"{row['attack']}: {row['gained']}" for row in rows if row["gained"] != "none"]
    wrong = [f"{row['attack']}: {row['wrong']}" for row in rows if row["wrong"]]
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(row["verdict"] for row in rows).most_common())
    return [
        (f"{len(rows)} gradings of attacks gain nothing", outcome(not gained), ", ".join(gained) or counts),
        ("each has a verdict that its file names, and its mechanism was at work", outcome(not wrong), ", ".join(wrong)),
    ]


def _of_honest(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    found = []
    for wanted, text in (("ACCEPTED", "gradings of honest kernels are ACCEPTED"), ("WRONG_ANSWER", "gradings of wrong twins are not")):
        those = [row for row in rows if row["wanted"] == wanted]
        wrong = [f"{row['kernel']}: {row['verdict']} {row['reason']}".strip() for row in those if row["verdict"] != wanted]
        found += [(f"{len(those)} {text}", outcome(not wrong), ", ".join(wrong))] if those else []
    return found


def _total(rows: Sequence[Row]) -> str:
    return f"{sum(float(row['seconds']) for row in rows):.0f}"
