"""`grader-cli`: its commands and their options.  What they do is in the other modules."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader import extensions
from grader.cli import extras, login, problems
from grader.cli import submit as submit_command
from grader.cli.import_options import AllowLowerPrecision, KeepWeights, SandboxForCheck, SetConstants, ToleranceOption, Trusted
from grader.cli.options import (
    EXAMPLES,
    EXIT_CODES,
    GRADE,
    HERE,
    LIST_EXAMPLES,
    PROBLEMS,
    RESULTS,
    SERVERS,
    SUBMIT_EXAMPLES,
    DeviceOption,
    Json,
    Name,
    SandboxOption,
    Server,
    StateDir,
)
from grader.cli.output import print_note
from grader.cli.running import run
from grader.cli.server_choice import GraderTyper
from grader.cli.session import Target
from grader.cli.submissions import cancel_command, list_command, show_command
from grader.isolations import AUTO
from sandbox.protocol.wire import Mode

if TYPE_CHECKING:
    from grader.cli import demo as demo_command
    from grader.cli import doctor as doctor_command
    from grader.cli import imports as imports_command
else:
    demo_command = extras.CommandModule("grader.cli.demo", "server", "judge")
    doctor_command = extras.CommandModule("grader.cli.doctor", "server")
    imports_command = extras.CommandModule("grader.cli.imports", "server", "judge")


app = GraderTyper(
    name="grader-cli",
    help="Grades GPU kernels: is it right, and how much faster than PyTorch is it?",
    epilog=f"{EXAMPLES}\n\n{EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
problems_app = GraderTyper(no_args_is_help=True, help="Problems that kernels can be submitted to.")
app.command("init", rich_help_panel=GRADE)(problems.init_command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"grader-cli {metadata.version('kernel-grader')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command(epilog=f"{SUBMIT_EXAMPLES}\n\n{EXIT_CODES}", rich_help_panel=GRADE)
def submit(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The kernel's source files, or - for standard input.")],
    problem: Annotated[
        str | None,
        typer.Option(
            help="The problem. Default: a line '// grader: problem=NAME' in the first file, else the problem.toml next to it; "
            "of a solution file, its definition."
        ),
    ] = None,
    device: DeviceOption = AUTO,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="How far to grade: test verifies, benchmark also times, ranked also takes hidden workloads and several processes, "
            "sanitize verifies and looks for the causes of wrong results, profile verifies and runs profilers; both time nothing. "
            "For sweep there is a command. "
            "[default: benchmark; ranked with --competition]"
        ),
    ] = None,
    competition: Annotated[str, typer.Option(metavar="NAME", help="The competition to submit to.", show_default=False)] = "",
    sandbox: SandboxOption = AUTO,
    language: Annotated[
        str,
        typer.Option(help="cuda, torch_extension, python, or a language of an installed package. Default: detected.", show_default=False),
    ] = "",
    entry: Annotated[str, typer.Option(help="The function to call. Default: the problem's.", show_default=False)] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save the files of a profile there. Nothing is overwritten.", show_default=False),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag, to find it by in `list`. May be repeated.")] = None,
    parent: Annotated[
        str, typer.Option(metavar="NAME", help="The submission that it was made from, one of your own.", show_default=False)
    ] = "",
    annotate: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A note, which only you and administrators see. May be repeated.")
    ] = None,
    request_id: Annotated[
        str,
        typer.Option(
            "--request-id",
            metavar="UUID",
            help="What makes this submission one: the same command with the same UUID goes on with it. Default: a new one.",
            show_default=False,
        ),
    ] = "",
    precision: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Time a workload until half of its speedup's interval is at most so much, as far as the clock allows: 0.1 to 20. "
            "Not in ranked mode, where the server decides. [default: 1]",
            show_default=False,
        ),
    ] = None,
    measure_s: Annotated[
        float | None,
        typer.Option(
            "--measure-s",
            metavar="SECONDS",
            help="Time a workload for at most about so long: 0.1 to 30. Not in ranked mode. "
            "[default: 10; on the emulated device 1.5 for all workloads together]",
            show_default=False,
        ),
    ] = None,
    allow_cached: Annotated[
        bool,
        typer.Option(
            "--allow-cached",
            help="Take the result of an identical submission of yours of the last day, if there is one. Modes test and benchmark only.",
        ),
    ] = False,
    skip_sanitizer: Annotated[
        bool,
        typer.Option(
            "--skip-sanitizer",
            help="Do not run a kernel that failed in mode test on the emulated device once more under the sanitizer, which looks for the "
            "cause and takes seconds.",
        ),
    ] = False,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return when the server has accepted it; needs --server.")] = False,
) -> None:
    """Grade a kernel, and show progress and the report. Ctrl-C cancels it.

    A kernel is one or more files. Their paths are sent relative to their common directory. One file that ends in .json is a solution file
    of FlashInfer-Bench or SOL-ExecBench: it holds the sources, and names entry point, language and problem.
    """
    order = submit_command.SubmitOptions(
        files=tuple(files),
        problem=problem,
        language=language,
        entry=entry,
        device_kind="" if device == AUTO else device,
        mode=(mode or (Mode.RANKED if competition else Mode.BENCHMARK)).value,
        competition=competition,
        out=out,
        tags=tuple(tag or ()),
        parent=parent,
        annotations=tuple(annotate or ()),
        request_id=request_id,
        precision_percent=precision,
        measure_s=measure_s,
        allow_cached=allow_cached,
        skip_sanitizer=skip_sanitizer,
    )
    target = Target(server=server, state_dir=state_dir, sandbox=sandbox, device=device, quiet=json and not sys.stderr.isatty())
    run(submit_command.submit(target, order, json=json, wait=not no_wait))


@app.command(epilog=EXIT_CODES, rich_help_panel=GRADE)
def watch(name: Name, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Follow a submission from its beginning to its end. Ctrl-C stops watching, not the submission."""
    run(submit_command.watch(Target(server=server, state_dir=state_dir), name, json=json))


app.command("cancel", rich_help_panel=GRADE)(cancel_command)
app.command("list", epilog=LIST_EXAMPLES, rich_help_panel=RESULTS)(list_command)


app.command("show", rich_help_panel=RESULTS)(show_command)
app.add_typer(problems_app, name="problems", rich_help_panel=PROBLEMS)
problems_app.command("list")(problems.list_command)
problems_app.command("show")(problems.show_command)


@problems_app.command("import")
def problems_import(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A problem, or a directory that holds problems, at any depth.")],
    format_name: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="Take only problems of this format. Default: every known one.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="PRECISION", help="fp32, fp16 or bf16, for kernelbench: what floating tensors are cast to.")
    ] = None,
    set_constants: SetConstants = None,
    tolerance: ToleranceOption = None,
    allow_lower_precision: AllowLowerPrecision = False,
    keep_weights: KeepWeights = False,
    prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="Put PREFIX_ in front of every id, so that two versions of a set can be there.")
    ] = "",
    state_dir: StateDir = None,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Check each first, as `problems check` does. Default: where there is one only. --no-check runs nothing.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also keep what the check refuses, and what needs a missing package.")] = False,
    sandbox: SandboxForCheck = AUTO,
    trusted: Trusted = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Store problems in the state directory, for later commands. A check runs a problem's code in a sandbox without network.

    Exit code: 0 if any was imported, 2 if none.
    """

    run(
        lambda: imports_command.import_problems(
            path,
            state_dir,
            imports_command.read_adjustments(set_constants, tolerance, allow_lower_precision, keep_weights),
            format_name=format_name,
            precision=precision,
            prefix=prefix,
            check=check,
            sandbox=sandbox,
            trusted=trusted,
            force=force,
            json=json,
        )
    )


app.command("login", rich_help_panel=SERVERS)(login.login)
app.command("logout", rich_help_panel=SERVERS)(login.logout)
app.command("whoami", rich_help_panel=SERVERS)(login.whoami)


@app.command(rich_help_panel=HERE)
def doctor(json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Show which devices, isolations and compilers work here; for the others, why not and what to do.

    Exit code: 0 if kernels can be graded here, 3 if not.
    """
    run(lambda: doctor_command.doctor(json=json))


@app.command(epilog=EXIT_CODES, rich_help_panel=HERE)
def demo(sandbox: SandboxOption = AUTO, device: DeviceOption = AUTO, state_dir: StateDir = None) -> None:
    """Grade six kernels of a triangular matmul, and check that each gets its expected verdict.

    Exit code: 0 if every verdict is the one that the kernel's first line expects, 1 if not.
    """
    run(lambda: demo_command.demo(Target(state_dir=state_dir, sandbox=sandbox, device=device)))


for line in extensions.command_lines(lambda error: print_note(str(error), "yellow")):
    line.add_commands(app, {"problems": problems_app})
