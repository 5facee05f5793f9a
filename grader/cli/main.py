"""`grader-cli`: the commands and their options.  What they do is in the other modules."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Coroutine
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from grader import devices
from grader.cli import admission as admission_command
from grader.cli import demo as demo_command
from grader.cli import doctor as doctor_command
from grader.cli import imports as imports_command
from grader.cli import problems as problems_command
from grader.cli import submissions as submissions_command
from grader.cli import submit as submit_command
from grader.cli.exits import CommandFailed, Exit, exit_of_error
from grader.cli.progress import stderr_console
from grader.cli.session import Target
from grader.cli.text import plain
from grader.errors import GraderError
from sandbox.wire import Mode

AUTO = "auto"


class Sandbox(StrEnum):
    """What keeps the kernel in."""

    AUTO = "auto"
    DOCKER = "docker"
    BUBBLEWRAP = "bubblewrap"
    PROCESS = "process"


def _device(value: str) -> str:
    if value != AUTO and not devices.well_formed(value):
        raise typer.BadParameter(f"{value!r} is no device; write {AUTO}, {devices.FORMS}")
    return value


Server = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Ask this server. Without it the command runs one itself.")]
StateDir = Annotated[
    Path | None,
    typer.Option(
        help="Where the command's own server keeps its state. [default: $GRADER_STATE_DIR, or grader in the user's state directory]"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print protobuf JSON with proto field names, and nothing else, on stdout.")]
SandboxOption = Annotated[
    Sandbox,
    typer.Option(help="What keeps the kernel in; auto takes the strongest that works here. process is UNSAFE: your own kernels only."),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        callback=_device,
        help=f"What to grade on: auto (a GPU where there is one), {devices.FORMS}. emulated runs CUDA C++ on the CPU, and is never ranked.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="submissions/ID, or just ID.")]

EXIT_CODES = "Exit codes: 0 accepted or done, 1 another verdict, 2 misuse, 3 the grader failed, 130 interrupted."

app = typer.Typer(
    name="grader-cli",
    help="Grades GPU kernels: is it right, and how much faster than PyTorch is it?",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
problems_app = typer.Typer(no_args_is_help=True, help="The problems that kernels can be submitted to.")
app.add_typer(problems_app, name="problems")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"grader-cli {metadata.version('grader')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command(epilog=EXIT_CODES)
def submit(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The kernel's source files.")],
    problem: Annotated[
        str | None,
        typer.Option(help="What it is for. Default: a line '// grader: problem=NAME' in the first file, else the problem.toml beside it."),
    ] = None,
    device: DeviceOption = AUTO,
    mode: Annotated[
        Mode, typer.Option(help="How far: verify only, time too, time hidden workloads too, or profile (not there yet).")
    ] = Mode.BENCHMARK,
    sandbox: SandboxOption = Sandbox.AUTO,
    language: Annotated[str, typer.Option(help="cuda, torch_extension or python. Default: detected.", show_default=False)] = "",
    entry: Annotated[str, typer.Option(help="The function to call. Default: the problem's.", show_default=False)] = "",
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return when the server has accepted it; needs --server.")] = False,
) -> None:
    """Grade a kernel, and show progress and the report. Ctrl-C cancels it.

    A kernel is one or more files. Their paths are sent relative to their common directory.
    """
    order = submit_command.Order(
        files=tuple(files),
        problem=problem,
        language=language,
        entry=entry,
        device_kind="" if device == AUTO else device,
        mode=mode.value,
    )
    target = Target(server=server, state_dir=state_dir, sandbox=sandbox.value, device=device, quiet=json and not sys.stderr.isatty())
    _run(submit_command.submit(target, order, json=json, wait=not no_wait))


@app.command(epilog=EXIT_CODES)
def watch(name: Name, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Follow a submission to its end, from its beginning. Ctrl-C stops the following only."""
    _run(submit_command.watch(Target(server=server, state_dir=state_dir), name, json=json))


@app.command()
def show(name: Name, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Print a submission as it is now."""
    _run(submissions_command.show(Target(server=server, state_dir=state_dir), name, json=json))


@app.command("list")
def list_(
    problem: Annotated[str, typer.Option(help="Only submissions to this problem.", show_default=False)] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """List submissions, newest first."""
    _run(submissions_command.list_(Target(server=server, state_dir=state_dir), problem, limit, json=json))


@app.command()
def cancel(name: Name, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Cancel a submission that is queued or running."""
    _run(submissions_command.cancel(Target(server=server, state_dir=state_dir), name, json=json))


@problems_app.command("list")
def problems_list(server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """List the problems."""
    _run(problems_command.list_(Target(server=server, state_dir=state_dir), json=json))


@problems_app.command("show")
def problems_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="problems/ID, or just ID.")],
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Print a problem, and what a kernel for it looks like."""
    _run(problems_command.show(Target(server=server, state_dir=state_dir), name, json=json))


@problems_app.command("import")
def problems_import(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A problem, or a directory that holds problems, at any depth.")],
    format_name: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="Take only problems of this format. Default: every known one.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="PRECISION", help="fp32, fp16 or bf16, for kernelbench: what floating tensors are cast to.")
    ] = None,
    state_dir: StateDir = None,
    check: Annotated[
        bool | None,
        typer.Option("--check/--no-check", help="Check each first, as `problems check` does. Default: where there is one only."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Keep what the check refuses, too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Keep problems in the state directory, for every later command there.

    Exit code: 0 if any was imported, 2 if none.
    """
    wanted = imports_command.Wanted(format_name=format_name, precision=precision, check=check, force=force)
    _run(imports_command.import_(path, state_dir, wanted, json=json))


@problems_app.command("check")
def problems_check(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A problem, or a directory of problems.")],
    device: Annotated[
        str, typer.Option(metavar="DEVICE", callback=_device, help=f"What to check on: {devices.FORMS}. Not a GPU that a server grades on.")
    ] = devices.EMULATED,
    budget: Annotated[float, typer.Option(min=1.0, max=3600.0, help="Seconds for each problem; larger workloads are left out.")] = 30.0,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say whether a problem tells right answers from wrong ones: executes its reference, and tries wrong answers on its tolerance.

    Exit code: 0 if it is admitted, 1 if not.
    """
    _run(admission_command.check_all(path, device, budget, json=json))


@app.command()
def doctor(json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Say which devices, isolations and compilers work here; of the others why not, and what to do.

    Exit code: 0 if kernels can be graded here, 3 if not.
    """
    _run(doctor_command.doctor(json=json))


@app.command(epilog=EXIT_CODES)
def demo(sandbox: SandboxOption = Sandbox.AUTO, device: DeviceOption = AUTO, state_dir: StateDir = None) -> None:
    """Grade the six kernels of the triangular matmul story, and check that each gets its verdict.

    Exit code: 0 if every verdict is the one that the kernel's first line expects, 1 if not.
    """
    _run(demo_command.demo(Target(state_dir=state_dir, sandbox=sandbox.value, device=device)))


def _run(work: Coroutine[Any, Any, Exit]) -> None:
    try:
        code = asyncio.run(work)
    except (CommandFailed, GraderError) as error:
        stderr_console().print(plain("error: ", "bold red") + plain(str(error)), soft_wrap=True)
        code = exit_of_error(error)
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    raise typer.Exit(code)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except BrokenPipeError:  # whoever read our output, such as `head`, has seen enough
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.GRADER_FAILED)


if __name__ == "__main__":
    main()
