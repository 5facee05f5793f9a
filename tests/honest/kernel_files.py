"""Reads the kernels of this directory: what their first lines say of them, and the problem that they are for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.model import NewSubmission, Problem, SourceFile
from sandbox.protocol import wire
from tests.harness.kernel_words import kernel_paths, problem_at, problem_path, words_of

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel file. why: what a strict grader might hold against it, or for a control what is wrong with it."""

    path: Path
    problem: Path
    why: str
    mode: wire.Mode

    @property
    def name(self) -> str:
        """The name of the test."""
        return f"{self.path.stem}-{self.mode.value}" if self.mode is not wire.Mode.TEST else self.path.stem

    @property
    def language(self) -> str:
        """As the server detects it."""
        if self.path.suffix == ".py":
            return "python"
        text = self.path.read_text("utf-8")
        return "torch_extension" if "PYBIND11_MODULE" in text or "TORCH_LIBRARY" in text else "cuda"

    def read_problem(self) -> Problem:
        """The problem, by whatever format it is in."""
        return problem_at(self.problem)

    def submission(self, problem_id: str) -> NewSubmission:
        """Return the submission: the file, as it lies here."""
        source = SourceFile(path=self.path.name, content=self.path.read_text("utf-8"))
        return NewSubmission(problem_id=problem_id, language=self.language, sources=(source,), mode=self.mode, skip_sanitizer=True)


def read(path: Path) -> Kernel:
    """The kernel in this file."""
    words = words_of(path)
    problem = problem_path(words["problem"], HERE / "problems", HERE.parent / "exploits" / "problems")
    return Kernel(path=path, problem=problem, why=words["why"], mode=wire.Mode(words.get("mode", "test")))


def all_in(directory: str) -> list[Kernel]:
    """Every kernel of kernels/ or controls/."""
    return [read(path) for path in kernel_paths(HERE / directory)]
