"""`grader-cli log`: prints what the compiler and the kernel printed.  It is untrusted: a terminal gets it escaped."""

from __future__ import annotations

from typing import Annotated

import typer

from grader.cli.exits import Exit, Misuse
from grader.cli.options import Name, Server, StateDir
from grader.cli.running import run
from grader.cli.session import Need, Target, connect
from grader.cli.short_ids import whole_name
from grader.cli.text import one_line, print_untrusted
from grader.v1 import submission_pb2


def log_command(
    name: Name,
    compiler: Annotated[bool, typer.Option("--compiler", help="Only what the compiler printed.")] = False,
    output: Annotated[bool, typer.Option("--output", help="Only what the kernel printed.")] = False,
    server: Server = None,
    state_dir: StateDir = None,
) -> None:
    """Print what the compiler and the kernel printed, each after a line such as '==> compiler <=='. With an option, one of them."""
    run(log(Target(server=server, state_dir=state_dir), name, compiler=compiler, output=output))


async def log(target: Target, name: str, *, compiler: bool, output: bool) -> Exit:
    """Print one or both."""
    async with connect(target, Need.READ) as client:
        submission = await client.get_submission(await whole_name(client, name))
    texts = {"compiler": submission.report.build.log, "output": submission.report.output}
    wanted = [key for key, asked in (("compiler", compiler), ("output", output)) if asked or compiler == output]
    if not any(texts[key] for key in wanted):
        raise Misuse(_nothing(submission, wanted))
    for key in wanted:
        if not texts[key]:
            continue
        if len(wanted) > 1:
            print(f"==> {key} <==")
        print_untrusted(texts[key])
    return Exit.DONE


def _nothing(submission: submission_pb2.Submission, wanted: list[str]) -> str:
    """Why there is nothing to print."""
    name = one_line(submission.name)
    if not submission.HasField("report"):
        return f"{name}: it is not graded yet; `grader-cli watch {name.rpartition('/')[2]}` waits for it"
    who = {"compiler": "the compiler", "output": "the kernel"}
    return f"{name}: {' and '.join(who[key] for key in wanted)} printed nothing"
