"""`grader-cli mcp`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from grader.cli.exits import Exit, UsageError
from grader.cli.options import DeviceOption, SandboxOption, Server, StateDir
from grader.cli.session import Target
from grader.isolations import AUTO

AWAY_S = 10.0  # how long a server that is away is waited for: a model can call again


async def mcp_command(
    problems: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Problems of the command's own server, besides imported ones. May be repeated.")
    ] = None,
    sandbox: SandboxOption = AUTO,
    device: DeviceOption = AUTO,
    server: Server = None,
    state_dir: StateDir = None,
) -> Exit:
    """Serve a coding agent over stdio, by the Model Context Protocol: its tools submit kernels and return verdicts as short texts.

    They read only files below the directory in which this was started.
    """
    if find_spec("mcp") is None:
        raise UsageError("this command needs a package that is not installed: pip install './grader_extensions[mcp]' in a clone")
    from grader_extensions.agents.mcp_server import mcp_server  # the package is an extra, and takes a second to import

    directories = tuple(problems or ())
    target = Target(server=server, state_dir=state_dir, sandbox=sandbox, device=device, problem_dirs=directories, restart_s=AWAY_S)
    await mcp_server(target, Path.cwd()).run_stdio_async()
    return Exit.DONE
