"""`grader-cli completion`: the script that has a shell complete commands and options.  The scripts are typer's."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]  # a test calls both

PROGRAM = "grader-cli"
VARIABLE = "_GRADER_CLI_COMPLETE"


class CompletionShell(StrEnum):
    """The shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def prepare() -> None:
    """Have typer answer a shell that completes, which asks with VARIABLE in the environment."""
    completion_init()


def completion_command(shell: Annotated[CompletionShell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")]) -> None:
    """Print the script that completes commands, options and their values in a shell.

    bash: add this line to ~/.bashrc: `eval "$(grader-cli completion bash)"`

    zsh: add this line to ~/.zshrc, after compinit: `eval "$(grader-cli completion zsh)"`

    fish: run `grader-cli completion fish > ~/.config/fish/completions/grader-cli.fish`
    """
    print(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))
