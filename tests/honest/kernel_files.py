"""Reads the kernels of this directory: what their first lines say of them, and the problem that they are for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader import formats
from grader.model import NewSubmission, Problem, SourceFile
from sandbox.protocol import wire

HERE = Path(__file__).parent
COMMENTS = {".cu": "//", ".py": "#"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel file. why: what a strict grader might hold against it, or for a control what is wrong with it."""

    path: Path
    problem: Path
    why: str
    mode: wire.Mode

    @property
    def name(self) -> str:
        """What the test is called."""
        return f"{self.path.stem}-{self.mode.value}" if self.mode is not wire.Mode.TEST else self.path.stem

    @property
    def language(self) -> str:
        """As the server detects it."""
        if self.path.suffix == ".py":
            return "python"
        return "torch_extension" if "PYBIND11_MODULE" in self.path.read_text("utf-8") else "cuda"

    def read_problem(self) -> Problem:
        """The problem, by whatever format it is in."""
        found = formats.detect_format(self.problem)
        assert found is not None, f"{self.problem} is no problem"
        problem: Problem = found.load(self.problem)
        return problem

    def submission(self, problem_id: str) -> NewSubmission:
        """What is submitted: the file, as it lies here."""
        source = SourceFile(path=self.path.name, content=self.path.read_text("utf-8"))
        return NewSubmission(problem_id=problem_id, language=self.language, sources=(source,), mode=self.mode, skip_sanitizer=True)


def read(path: Path) -> Kernel:
    """The kernel in this file."""
    words, comment = {}, COMMENTS[path.suffix]
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith(comment):
            break
        key, _, value = line.removeprefix(comment).strip().partition(": ")
        words.setdefault(key, value)
    problem = HERE / "problems" / words["problem"]
    return Kernel(
        path=path,
        problem=problem if problem.is_dir() else problem.with_suffix(".py"),
        why=words["why"],
        mode=wire.Mode(words.get("mode", "test")),
    )


def all_in(directory: str) -> list[Kernel]:
    """Every kernel of kernels/ or controls/."""
    return [read(path) for path in sorted((HERE / directory).iterdir()) if path.suffix in COMMENTS]
