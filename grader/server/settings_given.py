"""Settings out of what a command line gave, for every program that has them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from grader.config import Settings
from grader.formats.validation_messages import describe

MISUSED, FAILED = 2, 3  # exit codes: the caller's options are wrong; the program failed


def settings_given(program: str, given: Mapping[str, Any]) -> Settings | None:
    """The settings; None where they are wrong, after a line for each option on standard error."""
    try:
        return Settings(**given)
    except ValidationError as error:
        for one in error.errors():
            sys.stderr.write(f"{program}: --{str(one['loc'][0]).replace('_', '-')}: {describe(one)}\n")
        return None


def misused(program: str, text: str) -> int:
    """Say what is wrong with the options, on standard error; the exit code."""
    sys.stderr.write(f"{program}: {text}\n")
    return MISUSED


def say(text: str) -> None:
    """Print what a command has to say."""
    sys.stdout.write(f"{text}\n")
