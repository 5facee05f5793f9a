"""`grader-cli problems list` and `show`: what can be submitted to, and what a kernel for it looks like."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.api.resource_names import PROBLEMS, full_name, resource_id
from grader.cli.exits import Exit
from grader.cli.output import plain, print_json, stdout_console
from grader.cli.session import ServerRequirement, Target, connect
from grader.cli.starter import starter_text
from grader.v1 import grader_service_pb2, problem_pb2
from grader.views.sanitize import one_line
from sandbox.protocol.signatures import TORCH_EXTENSION


async def list_(target: Target, *, json: bool) -> Exit:
    """Print every problem."""
    async with connect(target, ServerRequirement.READ) as client:
        answer = await client.list_problems(page_size=1000)
    if json:
        print_json(grader_service_pb2.ListProblemsResponse(problems=answer.problems))
    elif answer.problems:
        stdout_console().print(_table(answer.problems))
    else:
        print("no problems here; import some with 'grader-cli problems import PATH', or submit a file that is next to its problem.toml")
    return Exit.DONE


async def show(target: Target, name: str, *, json: bool) -> Exit:
    """Print one problem."""
    async with connect(target, ServerRequirement.READ) as client:
        problem = await client.get_problem(full_name("problems", name))
    if json:
        print_json(problem)
    else:
        console = stdout_console()
        for part in render(problem):
            console.print(part, soft_wrap=isinstance(part, Text))
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
        yield _tensors(problem)
    yield plain(_tolerance(problem.tolerance))
    yield Text()
    yield _workloads(problem)
    if problem.hidden_workload_count:
        yield plain(f"and {problem.hidden_workload_count} more that are not shown")
    for sweep in problem.sweeps:
        yield plain(one_line(f"sweep: {sweep_range(sweep)}"))
    if "cuda" in problem.languages and not problem.cuda_signature:
        yield plain(
            "\nlanguage cuda: only the problem's code says which arguments the entry takes; `grader-cli problems import` with --check"
        )
        yield plain("learns it and keeps it, and `grader-cli problems check` prints it")
    if problem.cuda_signature:
        yield Text("\nlanguage cuda: define", style="bold")
        yield plain(f"\n    {problem.cuda_signature}")
        yield Text("\nlanguage torch_extension: for example", style="bold")
        yield plain("\n" + textwrap.indent(starter_text(problem, TORCH_EXTENSION), "    "))
    yield plain(f"then: grader-cli submit FILE --problem {problem_id}")


def sweep_range(sweep: problem_pb2.Sweep) -> str:
    """A range of sizes in words: cols = 512 to 8192, each 2 times the one before, with rows = 256, on emulated."""
    change = f"each {sweep.factor:g} times the one before" if sweep.HasField("factor") else f"in steps of {sweep.step}"
    others = "".join(f", with {name} = {size}" for name, size in sorted(sweep.axes.items()))
    return f"{sweep.axis} = {sweep.start} to {sweep.stop}, {change}{others}{f', on {sweep.device_kind}' if sweep.device_kind else ''}"


def _tensors(problem: problem_pb2.Problem) -> Table:
    table = Table("tensor", "dtype", "shape", box=None, pad_edge=False)
    for role, tensors in (("input", problem.inputs), ("output", problem.outputs)):
        for one in tensors:
            shape = ", ".join(one.shape) if one.shape else "by value"
            table.add_row(plain(one_line(f"{role} {one.name}")), plain(one_line(one.dtype)), plain(one_line(shape)))
    return table


def _tolerance(of: problem_pb2.Tolerance) -> str:
    budget = f"; over all, at most {of.budget_factor:g} times PyTorch's own error against float64" if of.HasField("budget_factor") else ""
    return f"tolerance: {of.atol:g} + {of.rtol:g} * |reference| for each element, integers exactly{budget}"


def _workloads(problem: problem_pb2.Problem) -> Table:
    table = Table("workload", "axes", box=None, pad_edge=False)
    if any(one.device_kind or one.HasField("tolerance") for one in problem.workloads):
        table.add_column("device")
        table.add_column("tolerance")
    for one in problem.workloads:
        tolerance = f"{one.tolerance.atol:g} + {one.tolerance.rtol:g} * |reference|" if one.HasField("tolerance") else "as above"
        cells = [one.workload_id, ", ".join(f"{axis} = {one.axes[axis]:,}" for axis in problem.axes), one.device_kind or "any", tolerance]
        table.add_row(*(plain(one_line(cell)) for cell in cells[: len(table.columns)]))
    return table


def _table(problems: Sequence[problem_pb2.Problem]) -> Table:
    table = Table("problem", "title", "format", "languages", "sizes", box=None, pad_edge=False)
    for one in problems:
        hidden = f" and {one.hidden_workload_count} hidden" if one.hidden_workload_count else ""
        table.add_row(
            plain(one_line(resource_id(PROBLEMS, one.name))),
            plain(one_line(one.title)),
            plain(one_line(one.format)),
            plain(one_line(", ".join(one.languages))),
            f"{len(one.workloads)}{hidden}",
        )
    return table
