"""`grader-cli problems list`, `problems show`, `init` and `demo`."""

from __future__ import annotations

import keyword
import os
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.api.resource_names import PROBLEMS, full_name, resource_id
from grader.cli import extras
from grader.cli.exits import Exit, UsageError
from grader.cli.options import DeviceOption, Json, SandboxOption, Server, StateDir
from grader.cli.output import did_you_mean, plain, print_message, print_note, text_table
from grader.cli.saved_files import STDOUT
from grader.cli.session import ServerRequirement, Target, connect
from grader.isolations import AUTO
from grader.v1 import grader_service_pb2, problem_pb2
from grader.views.sanitize import escape_unprintable, one_line
from grader_extensions import agents
from grader_extensions.authoring import starter_files
from sandbox.protocol import wire
from sandbox.protocol.signatures import CUDA, PYTHON, TORCH_EXTENSION

if TYPE_CHECKING:
    from grader.api.client import GraderClient
    from grader_extensions.authoring import demo as demo_command
    from grader_extensions.authoring.own_problems import OwnProblems
else:
    demo_command = extras.CommandModule("grader_extensions.authoring.demo", "server", "judge")

ProblemName = Annotated[str, typer.Argument(metavar="NAME", help="problems/ID, or just ID.")]
# Where agents look for skills: the first is read by Claude Code, Cursor and OpenCode, the second by Codex and others.
SKILL_PATHS = (".claude/skills/grader/SKILL.md", ".agents/skills/grader/SKILL.md")
SKILL_PAGE = Path(agents.__file__).with_name("skill.md")
_ENDINGS = {CUDA: ".cu", TORCH_EXTENSION: ".cu", PYTHON: ".py"}


@asynccontextmanager
async def problem_reader(target: Target) -> AsyncIterator[GraderClient | OwnProblems]:
    """Read the problems of the server that target names, or the command's own."""
    if target.server is None:
        yield extras.load("grader_extensions.authoring.own_problems", "server", remedy=extras.OTHER_SERVER).OwnProblems(target)
        return
    async with connect(target, ServerRequirement.READ) as client:
        yield client


async def list_command(server: Server = None, state_dir: StateDir = None, json: Json = False) -> Exit:
    """List the problems."""
    async with problem_reader(Target(server=server, state_dir=state_dir)) as reader:
        problems = (await reader.list_problems(page_size=1000)).problems
    rows = []
    for problem in problems:
        hidden = f" and {problem.hidden_workload_count} hidden" if problem.hidden_workload_count else ""
        sizes = f"{len(problem.workloads)}{hidden}"
        rows.append((resource_id(PROBLEMS, problem.name), problem.title, problem.format, ", ".join(problem.languages), sizes))
    table = text_table(("problem", "title", "format", "languages", "sizes"), rows)
    empty = "no problems here; import some with 'grader-cli problems import PATH', or submit a file that is next to its problem.toml"
    print_message(grader_service_pb2.ListProblemsResponse(problems=problems), [table] if rows else empty, json=json)
    return Exit.DONE


async def show_command(name: ProblemName, server: Server = None, state_dir: StateDir = None, json: Json = False) -> Exit:
    """Print a problem, and what a kernel must define."""
    async with problem_reader(Target(server=server, state_dir=state_dir)) as reader:
        problem = await reader.get_problem(full_name(PROBLEMS, name))
    print_message(problem, render(problem), json=json)
    return Exit.DONE


def render(problem: problem_pb2.Problem) -> Iterator[RenderableType]:
    """All that an author needs to start."""
    problem_id = one_line(resource_id(PROBLEMS, problem.name))
    yield plain(f"{problem_id}: {one_line(problem.title)}", "bold")
    if problem.statement:
        yield plain(f"\n{problem.statement.strip()}")
    yield plain(f"\nlanguages: {one_line(', '.join(problem.languages))}")
    yield plain(f"format: {one_line(problem.format)}, entry: {one_line(problem.entry)}")
    yield Text()
    if problem.inputs or problem.outputs:
        roles = starter_files.with_roles(problem)
        rows = [(f"{role} {tensor.name}", tensor.dtype, ", ".join(tensor.shape) or "by value") for role, tensor in roles]
        yield text_table(("tensor", "dtype", "shape"), rows)
    budget = f"; over all, at most {problem.tolerance.budget_factor:g} times PyTorch's own error against float64"
    tolerance = f"tolerance: {_bound(problem.tolerance)} for each element, integers exactly"
    yield plain(tolerance + (budget if problem.tolerance.HasField("budget_factor") else ""))
    yield Text()
    yield _workloads(problem)
    if problem.hidden_workload_count:
        yield plain(f"and {problem.hidden_workload_count} more that are not shown")
    for sweep in problem.sweeps:
        yield plain(one_line(f"sweep: {sweep_range(sweep)}"))
    if problem.cuda_signature:
        yield Text("\nlanguage cuda: define", style="bold")
        yield plain(f"\n    {problem.cuda_signature}")
        yield Text("\nlanguage torch_extension: for example", style="bold")
        yield plain("\n" + textwrap.indent(starter_text(problem, TORCH_EXTENSION), "    "))
    elif "cuda" in problem.languages:
        yield plain("\nlanguage cuda: only the problem's code says which arguments the entry takes;")
        yield plain("`grader-cli problems import --check` learns it and keeps it")
    yield plain(f"then: grader-cli submit FILE --problem {problem_id}")


def _workloads(problem: problem_pb2.Problem) -> Table:
    headings = ["workload", "axes"]
    if any(workload.device_kind or workload.HasField("tolerance") for workload in problem.workloads):
        headings += ["device", "tolerance"]
    rows = []
    for workload in problem.workloads:
        tolerance = _bound(workload.tolerance) if workload.HasField("tolerance") else "as above"
        axes = ", ".join(f"{axis} = {workload.axes[axis]:,}" for axis in problem.axes)
        rows.append((workload.workload_id, axes, workload.device_kind or "any", tolerance)[: len(headings)])
    return text_table(headings, rows)


def _bound(tolerance: problem_pb2.Tolerance) -> str:
    return f"{tolerance.atol:g} + {tolerance.rtol:g} * |reference|"


def sweep_range(sweep: problem_pb2.Sweep) -> str:
    """A range of sizes in words: cols = 512 to 8192, each 2 times the one before, with rows = 256, on emulated."""
    change = f"each {sweep.factor:g} times the one before" if sweep.HasField("factor") else f"in steps of {sweep.step}"
    axes = "".join(f", with {name} = {size}" for name, size in sorted(sweep.axes.items()))
    return f"{sweep.axis} = {sweep.start} to {sweep.stop}, {change}{axes}{f', on {sweep.device_kind}' if sweep.device_kind else ''}"


# -- init ----------------------------------------------------------------------------------------------------------------


async def init_command(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="problems/ID, or just ID.", show_default=False)] = "",
    language: Annotated[
        str, typer.Option(help="cuda, torch_extension or python. Default: the first of these that the problem takes.", show_default=False)
    ] = "",
    out: Annotated[
        str,
        typer.Option(metavar="FILE", help="The file to write, or '-' for stdout. Default: PROBLEM.cu or PROBLEM.py.", show_default=False),
    ] = "",
    skill: Annotated[
        bool, typer.Option("--skill", help=f"Write the page that tells coding agents how to use grader: {' and '.join(SKILL_PATHS)}.")
    ] = False,
    server: Server = None,
    state_dir: StateDir = None,
) -> Exit:
    """Write a file to begin with: the problem's signature in a language, without a kernel. Nothing is overwritten."""
    if bool(problem) == skill:
        raise UsageError("problem: name one to begin with, or leave it out and give --skill")
    if skill:
        for path in SKILL_PATHS:
            _write_new(path, SKILL_PAGE.read_text("utf-8"), remedy="remove it")
        print_note(f"wrote {' and '.join(SKILL_PATHS)}")
        return Exit.DONE
    async with problem_reader(Target(server=server, state_dir=state_dir)) as reader:
        message = await reader.get_problem(full_name(PROBLEMS, problem))
    language = language or next(iter(starter_languages(message)), PYTHON)
    text = starter(message, language)
    path = out or f"{resource_id(PROBLEMS, message.name)}{_ENDINGS[language]}"
    if path == STDOUT:
        print(escape_unprintable(text), end="")
        return Exit.DONE
    if not out and os.sep in path:  # a server could name a problem so
        raise UsageError(f"{path!r} is not a file name; name the file with --out")
    _write_new(path, text, remedy="remove it, or name another file with --out")
    print_note(f"wrote {path}; then: grader-cli submit {path}")
    return Exit.DONE


def _write_new(path: str, text: str, *, remedy: str) -> None:
    try:
        if path in SKILL_PATHS:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path!r} is there already; {remedy}") from None
    except OSError as error:
        raise UsageError(f"{path!r} can't be written: {error.strerror}; {remedy}") from None


def starter_languages(problem: problem_pb2.Problem) -> list[str]:
    """List the languages that there is a starter in, for this problem."""
    languages = (CUDA, TORCH_EXTENSION, PYTHON) if problem.cuda_signature else (PYTHON,)
    return [language for language in languages if language in problem.languages]


def starter(problem: problem_pb2.Problem, language: str) -> str:
    """Write the text of the file. UsageError where the problem does not take the language, or its signature in it is not known."""
    languages = starter_languages(problem)
    if language not in languages:
        problem_id = resource_id(PROBLEMS, problem.name)
        text = f"--language: {language!r} is not one that {problem_id} can be begun in; take one of: {', '.join(languages) or 'none'}."
        raise UsageError(text + did_you_mean(language, languages))
    return starter_text(problem, language)


def starter_text(problem: problem_pb2.Problem, language: str) -> str:
    """Write the same for a language that the problem may not take, as an example.

    A name of the server is no code: a name that no language has is replaced.
    """
    inputs, outputs = (
        tuple(
            wire.TensorSpec(
                name=_identifier(tensor.name), dtype=_identifier(tensor.dtype), shape=tuple(map(one_line, tensor.shape)), inout=tensor.inout
            )
            for tensor in tensors
        )
        for tensors in (problem.inputs, problem.outputs)
    )
    convention = wire.Convention.POSITIONAL
    if problem.format == "reference_kernels":
        convention = wire.Convention.DATA
    elif problem.format in ("kernelbench", "robust_kbench") and (not inputs or problem.entry[:1].isupper()):
        convention = wire.Convention.MODEL
        if language == PYTHON:
            inputs = outputs = ()  # some of the inputs are the model's weights, which a class has itself
    spec = wire.ProblemSpec(
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
    return starter_files.starter(spec, language, cuda=one_line(problem.cuda_signature, most_chars=10_000), title=one_line(problem.title))


def _identifier(name: str) -> str:
    return name if name.isidentifier() and not keyword.iskeyword(name) else "unnamed"


# -- demo ----------------------------------------------------------------------------------------------------------------


async def demo(sandbox: SandboxOption = AUTO, device: DeviceOption = AUTO, state_dir: StateDir = None) -> Exit:
    """Grade six kernels of a triangular matmul, and check that each gets its expected verdict.

    Exit code: 0 if every verdict is the one that the kernel's first line expects, 1 if not.
    """
    return await demo_command.demo(Target(state_dir=state_dir, sandbox=sandbox, device=device))
