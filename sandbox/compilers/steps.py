"""A build as a plan of commands, run by ninja: side by side where their files allow it, their words in the order of the plan; and how it
ended: what the builder's exit code says, and what it leaves."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandbox.compilers.headers import Headers

# Not 1 nor 2, with which an interpreter ends that could not even begin: that is no verdict.
# IMPORT_FAILED: a Python module could not be imported. Another build of it may end otherwise, so nobody remembers this one.
BUILT, UNSUPPORTED, ENTRY_NOT_FOUND, BROKEN, IMPORT_FAILED, REJECTED = 0, 3, 4, 5, 6, 7
OBJECT = "object.o"
NINJA_FILE = "build.ninja"
FAREWELL_S = 5.0
# cicc writes into the line information where it stands, and takes $PWD's word for that if it leads there. So an artifact is the same
# bytes wherever its sources lie, and a profiler that stands next to them finds them.
STANDS_IN = ("PWD", "/proc/self/cwd")
UNFINISHED = "error: the compiler did not finish in time"
_PARAGRAPH = re.compile(r"\n{2,}")
_COUNT = re.compile(r"^\d+ errors?")


class Unsupported(Exception):
    """A submission uses what the device lacks. path, line: where; sentence: what, and what to do."""

    def __init__(self, path: str, line: int, sentence: str) -> None:
        self.path = path
        self.line = line
        self.sentence = sentence
        super().__init__(f"{path}:{line}: {sentence}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildAttempt:
    """How a build ended, with one kind of headers. code: one of the above but BROKEN; artifact: None unless BUILT; lacks_entry: all was
    compiled and linked, and nothing was left out of it."""

    code: int
    log: str
    artifact: bytes | None = None
    lacks_entry: bool = False


def spoiled(error: Exception) -> BuildAttempt:
    """Return the result of a build that failed once the submission had run in its box: that is the submission's doing."""
    sentence = f"the submission left the build box unusable when it was imported: {type(error).__name__}: {error}"
    return BuildAttempt(code=IMPORT_FAILED, log=f"error: {sentence}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerStep:
    """Command of a build. inputs and outputs are names of our own making, relative to the directory of the plan.

    source: what it compiles, as submitted; "" for the link. environment: what is set next to the builder's own variables.
    """

    command: tuple[str, ...]
    directory: Path
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...]
    source: str = ""
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsResult:
    """How a plan ended, and what its commands printed."""

    succeeded: bool
    log: str


class Compiler(Protocol):
    """A device kind's compiler, made for the files of one job; plans nothing that another plan's directory would show."""

    def compile(self, path: str, number: int, headers: Headers, place: Path) -> list[CompilerStep]:
        """Plan what makes `object_name(number)` in `place` of a source."""

    def link(self, objects: Sequence[str], libraries: Sequence[str], output: str, place: Path) -> list[CompilerStep]:
        """Plan what makes a shared object in `place` of objects that lie there. libraries: paths, and flags of the linker."""

    def fallback(self) -> Compiler | None:
        """The compiler to ask where this one rejects a source, because this one has rewritten it more; None where this one decides."""
        return None


def object_name(number: int) -> str:
    """Return the name of the object of a plan's source; every source has a directory of its own."""
    return f"{number}/{OBJECT}"


def run(steps: Sequence[CompilerStep], place: Path, *, timeout_s: float | None = None) -> StepsResult:
    """Run a plan in a directory of its own.

    A command that fails keeps those from running that need its files, and no others; but where the plan is a try, with a time limit, all.
    """
    lines = ["rule step", "  command = $line"]
    for number, step in enumerate(steps):
        variables = "".join(f"{name}={shlex.quote(value)} " for name, value in step.environment)
        line = f"cd {shlex.quote(str(step.directory))} && {variables}{shlex.join(step.command)}"
        output_to = f'> "$$OLDPWD"/step{number}.log 2>&1'  # where ninja stands
        lines += [f"build {' '.join(step.outputs)}: step {' '.join(step.inputs)}", f"  line = {line.replace('$', '$$')} {output_to}"]
    (place / NINJA_FILE).write_text("\n".join(lines) + "\n", "utf-8")
    ninja = [str(Path(sys.executable).parent / "ninja"), "--quiet", "-k", "0" if timeout_s is None else "1"]
    with subprocess.Popen(ninja, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.terminate()  # ninja ends its commands, which have process groups of their own
            try:
                process.communicate(timeout=FAREWELL_S)
            except subprocess.TimeoutExpired:
                process.kill()
            return StepsResult(succeeded=False, log=f"{UNFINISHED}\n")
    logs = [place / f"step{number}.log" for number in range(len(steps))]
    texts = [path.read_text("utf-8", "replace") if path.exists() else "" for path in logs]
    log = merged((step.source, text) for step, text in zip(steps, texts, strict=True)).replace(f"{place}/", "")
    # An object is called what it was made of: its own name is ours.
    objects = {name: step.source for step in steps for name in step.outputs if step.source and name.endswith(f"/{OBJECT}")}
    log = re.sub(rf"\b\d+/{re.escape(OBJECT)}\b", lambda match: objects.get(match[0], match[0]), log)
    if process.returncode and not log:
        log = output.decode("utf-8", "replace")[-4000:]
    return StepsResult(succeeded=process.returncode == 0, log=log)


def merged(logs: Iterable[tuple[str, str]]) -> str:
    """Join the logs in the order of the steps. Nothing is repeated for a source: both passes of nvcc read the same lines."""
    printed, texts = set(), []
    for source, log in logs:
        paragraphs = []
        for paragraph in _PARAGRAPH.split(log.strip("\n")):
            key = source, _COUNT.sub("", paragraph)
            if key not in printed:
                printed.add(key)
                paragraphs.append(paragraph)
        if any(paragraphs):
            texts.append("\n\n".join(paragraphs) + "\n")
    return "".join(texts)
