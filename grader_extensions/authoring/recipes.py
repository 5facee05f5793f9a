"""`grader-cli problems new`: a directory with a problem to begin with, made from a recipe."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from grader.cli.exits import Exit, UsageError
from grader.cli.output import did_you_mean, print_note

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
RECIPES: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("recipes.toml").read_text("utf-8"))


async def new_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What submissions call the problem, and the directory that is written.")],
    like: Annotated[str, typer.Option(metavar="RECIPE", help=f"What it is like: {', '.join(RECIPES)}.")] = "plain",
) -> Exit:
    """Write a problem to begin with: problem.toml and reference.py, which the check admits. Nothing is overwritten."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a problem's name; write lower case letters, digits and '_', first a letter, at most 63")
    if like not in RECIPES:
        raise UsageError(f"--like: {like!r} is not a recipe; take one of: {', '.join(RECIPES)}.{did_you_mean(like, RECIPES)}")
    try:
        Path(name).mkdir()
        Path(name, "problem.toml").write_text(RECIPES[like]["problem"].replace("NAME", name), "utf-8")
        Path(name, "reference.py").write_text(RECIPES[like]["reference"].lstrip(), "utf-8")
    except FileExistsError:
        raise UsageError(f"{name!r} is there already; remove it, or take another name") from None
    except OSError as error:
        raise UsageError(f"{name!r} can't be written: {error.strerror}; go to a directory of yours") from None
    print_note(f"wrote {name}/problem.toml and {name}/reference.py ({RECIPES[like]['about']}); then: grader-cli problems check {name}")
    return Exit.DONE
