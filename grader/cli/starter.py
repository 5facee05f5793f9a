"""`grader-cli init`: writes a file to begin with, which has a problem's signature and nothing in it yet."""

from __future__ import annotations

import keyword
import os
from pathlib import Path
from typing import Annotated

import typer

from grader.api.resource_names import PROBLEMS, full_name, resource_id
from grader.cli.exits import Exit, UsageError
from grader.cli.options import Server, StateDir
from grader.cli.output import did_you_mean, print_note
from grader.cli.running import run
from grader.cli.saved_files import STDOUT
from grader.cli.session import ServerRequirement, Target, connect
from grader.v1 import problem_pb2
from grader.views import starter_files
from grader.views.sanitize import escape_unprintable, one_line
from sandbox.protocol import wire
from sandbox.protocol.signatures import CUDA, PYTHON, TORCH_EXTENSION

_ENDINGS = {CUDA: ".cu", TORCH_EXTENSION: ".cu", PYTHON: ".py"}


def init_command(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="problems/ID, or just ID.")],
    language: Annotated[
        str, typer.Option(help="cuda, torch_extension or python. Default: the first of these that the problem takes.", show_default=False)
    ] = "",
    out: Annotated[
        str,
        typer.Option(metavar="FILE", help="The file to write, or '-' for stdout. Default: PROBLEM.cu or PROBLEM.py.", show_default=False),
    ] = "",
    server: Server = None,
    state_dir: StateDir = None,
) -> None:
    """Write a file to begin with: the problem's signature in a language, without a kernel. Nothing is overwritten."""
    run(init(Target(server=server, state_dir=state_dir), problem, language, out))


async def init(target: Target, name: str, language: str, out: str) -> Exit:
    """Write the file of a problem."""
    async with connect(target, ServerRequirement.READ) as client:
        problem = await client.get_problem(full_name(PROBLEMS, name))
    language = language or next(iter(languages(problem)), PYTHON)
    text = starter(problem, language)
    path = out or f"{resource_id(PROBLEMS, problem.name)}{_ENDINGS[language]}"
    if path == STDOUT:
        print(escape_unprintable(text), end="")
        return Exit.DONE
    if not out and os.sep in path:  # a server could name a problem so
        raise UsageError(f"{path!r} is not a file name; name the file with --out")
    _write_new(path, text)
    print_note(f"wrote {path}; then: grader-cli submit {path}")
    return Exit.DONE


def _write_new(path: str, text: str) -> None:
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path!r} is there already; remove it, or name another file with --out") from None
    except OSError as error:
        raise UsageError(f"{path!r} can't be written: {error.strerror}; name another file with --out") from None


def languages(problem: problem_pb2.Problem) -> list[str]:
    """The languages that there is a starter in, for this problem."""
    known = {CUDA: bool(problem.cuda_signature), TORCH_EXTENSION: bool(problem.cuda_signature), PYTHON: True}
    return [one for one, is_known in known.items() if is_known and one in problem.languages]


def starter(problem: problem_pb2.Problem, language: str) -> str:
    """The text of the file. UsageError where the problem does not take the language, or its signature in it is not known."""
    known = languages(problem)
    if language not in known:
        problem_id = resource_id(PROBLEMS, problem.name)
        text = f"--language: {language!r} is not one that {problem_id} can be begun in; take one of: {', '.join(known) or 'none'}."
        raise UsageError(text + did_you_mean(language, known))
    return starter_text(problem, language)


def starter_text(problem: problem_pb2.Problem, language: str) -> str:
    """The same for a language that the problem may not take, as an example."""
    signature, title = one_line(problem.cuda_signature, most_chars=10_000), one_line(problem.title)
    return starter_files.starter(_spec(problem, language), language, cuda=signature, title=title)


def _spec(problem: problem_pb2.Problem, language: str) -> wire.ProblemSpec:
    """What a submitter knows of the problem. What a server sends as a name is no code, so what no language has as a name is renamed."""
    inputs, outputs = (
        tuple(
            wire.TensorSpec(name=_identifier(one.name), dtype=_identifier(one.dtype), shape=tuple(map(one_line, one.shape)))
            for one in several
        )
        for several in (problem.inputs, problem.outputs)
    )
    convention = wire.Convention.POSITIONAL
    if problem.format == "reference_kernels":
        convention = wire.Convention.DATA
    elif problem.format in ("kernelbench", "robust_kbench") and (not inputs or problem.entry[:1].isupper()):
        convention = wire.Convention.MODEL
        if language == PYTHON:
            inputs = outputs = ()  # some of the inputs are the model's weights, which a class has itself
    return wire.ProblemSpec(
        problem_id=one_line(resource_id(PROBLEMS, problem.name)),
        format=problem.format,
        entry=_identifier(problem.entry),
        inputs=inputs,
        outputs=outputs,
        workloads=(),
        tolerance=wire.Tolerance(atol=0, rtol=0),
        reference="",
        convention=convention,
    )


def _identifier(name: str) -> str:
    return name if name.isidentifier() and not keyword.iskeyword(name) else "unnamed"
