"""Reads the kernels beside it: what their first lines expect, and their text with every header of ours put into it.

A submission is one file, so an attack carries what it shares with others in itself. `work.h` is the problem's own honest work,
`parameters.h` a variant's values, `gate_layout.h` the layout of
sandbox/protocol/gate.py as it is today, `problem.h` the problem's trial count.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.model import Problem
from sandbox.protocol import gate, wire
from tests.harness.grading import USUAL, Conditions, Graded, Grading, load_problem
from tests.harness.kernel_words import words_of

HERE = Path(__file__).parent
INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)
NO_GAIN = "ACCEPTED no gain"
FAULT_PROBLEM = "brief_triad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A kernel with its problem, as it is submitted, and the verdicts that are right."""

    name: str
    problem: Problem
    source: str
    language: str
    expected: tuple[str, ...]

    @property
    def build(self) -> tuple[Problem, str, str]:
        """Return what `Grading.prebuild` takes."""
        return self.problem, self.source, self.language

    async def grade(
        self, grading: Grading, *, mode: wire.Mode = wire.Mode.BENCHMARK, device: str | None = None, conditions: Conditions = USUAL
    ) -> Graded:
        """Grade it once."""
        return await grading.grade(self.problem, self.source, language=self.language, mode=mode, device=device, conditions=conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel file for one problem, one of its variants.

    expect: "VERDICT REASON", "VERDICT", or "ACCEPTED no gain". original: the honest kernel that it is derived from.
    proof: a pattern that it prints once it has got hold of what it is after; else its failure would prove nothing.
    """

    path: Path
    problem: str
    expect: tuple[str, ...]
    ids: str = ""
    language: str = "cuda"
    original: Path | None = None
    proof: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The kernel's name in tests and tables."""
        return "-".join([self.path.stem, self.problem, *self.parameters.values()])

    def example(self) -> Example:
        """The kernel with its problem."""
        problem = load_problem(self.problem)
        source = self.source(problem.spec.trial_count)
        return Example(name=self.name, problem=problem, source=source, language=self.language, expected=self.expect)

    def source(self, trial_count: int = 0) -> str:
        """The text to submit."""
        return self._with_headers(self.path, {"problem.h": f"#define PROBLEM_TRIALS {trial_count}\n"}, set())

    def _with_headers(self, path: Path, texts: Mapping[str, str], included: set[str]) -> str:
        """The file with its headers in it, each once."""

        def put_in(match: re.Match[str]) -> str:
            name = match[1]
            if name in included:
                return ""
            included.add(name)
            if name in texts:
                return texts[name]
            if name == "gate_layout.h":
                return gate_layout()
            if name == "parameters.h":
                return "".join(f"#define {key} {value}\n" for key, value in self.parameters.items())
            return self._with_headers(HERE / (f"work_{self.problem}.h" if name == "work.h" else name), texts, included)

        return INCLUDE.sub(put_in, path.read_text("utf-8"))


def gate_layout() -> str:
    """Where every field of the gate's page and the arena's flags lie, and the operations' numbers, as macros."""
    page = gate._Page
    places = {f"GATE_{name.upper()}": getattr(page, name).offset for name, *_ in page._fields_ if not name.startswith("_")}
    numbers = {f"OPERATION_{operation.name}": operation.value for operation in gate.Operation}
    numbers |= {"ARENA_FLAG_BYTES": gate.ARENA_FLAG_BYTES, "ARENA_FINISHED_AT": gate.ARENA_FINISHED_AT}
    slot = {"GATE_SLOT_BYTES": ctypes.sizeof(gate._SlotLayout), "GATE_SLOT_OFFSET": gate._SlotLayout.offset.offset}
    return "".join(f"#define {name} {value}\n" for name, value in {**places, **slot, **numbers}.items())


def read(path: Path) -> list[Kernel]:
    """The kernel in this file, once per case: a problem, and the values of a variant."""
    words = words_of(path)
    return [
        Kernel(
            path=path,
            problem=case.split()[0],
            expect=tuple(verdict.strip() for verdict in words["expect"].split("|")),
            ids=words.get("id", ""),
            language=words.get("language", "cuda"),
            original=HERE / words["from"] if "from" in words else None,
            proof=words.get("proof"),
            parameters=dict(word.split("=", 1) for word in case.split()[1:]),
        )
        for case in words.get("cases", FAULT_PROBLEM).split(";")
    ]


def all_in(directory: str) -> list[Kernel]:
    """Every kernel of attacks/, honest/ or faults/."""
    return [kernel for path in sorted((HERE / directory).glob("*.cu")) for kernel in read(path)]


def original_of(kernel: Kernel) -> Kernel:
    """The honest kernel that an attack is derived from, for the attack's problem."""
    assert kernel.original is not None
    language = words_of(kernel.original).get("language", "cuda")
    return Kernel(path=kernel.original, problem=kernel.problem, expect=("ACCEPTED",), language=language)


def honest(problem: str) -> Kernel:
    """The plain right kernel of a problem."""
    return Kernel(path=HERE / "originals" / "raw.cu", problem=problem, expect=("ACCEPTED",))
