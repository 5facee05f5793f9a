"""Settings from the options of a command line, and how commands of `grader-server` end and print."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from grader.config import Settings
from grader.errors import CallRefused, GraderError, SettingsInvalid, option_name
from grader.formats.validation_messages import describe

USAGE_ERROR, FAILED = 2, 3  # exit codes: the caller's options are wrong; the program failed


def parse_settings(program: str, options: Mapping[str, Any]) -> Settings | None:
    """Return the settings; None where they are wrong, after a line for each option on standard error."""
    try:
        return Settings(**options)
    except ValidationError as error:
        for mistake in error.errors():
            sys.stderr.write(f"{program}: {option_name(str(mistake['loc'][0]))}: {describe(mistake)}\n")
        return None


def run_command(program: str, options: argparse.Namespace, work: Callable[[Settings], int], *, failed: int = FAILED) -> int:
    """Do the work of a command with the settings of its ledger. The exit code: its own, 2 for misuse, `failed` where the ledger fails."""
    values = {name: value for name in ("state_dir", "database") if (value := getattr(options, name, None)) is not None}
    settings = parse_settings("grader-server", values)
    if settings is None:
        return USAGE_ERROR
    try:
        return work(settings)
    except (CallRefused, SettingsInvalid, ValueError) as error:
        return usage_error(program, str(error))
    except (GraderError, OSError, SQLAlchemyError) as error:
        usage_error(program, str(error))
        return failed


def usage_error(program: str, text: str) -> int:
    """Print what is wrong with the options on standard error; the exit code."""
    sys.stderr.writelines(f"{program}: {line}\n" for line in text.splitlines())
    return USAGE_ERROR


def print_line(text: str) -> None:
    """Print a line of a command's output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_json(data: Mapping[str, Any]) -> None:
    """Print what a command found, for programs."""
    print_line(json.dumps(data, indent=2))


def print_table(*rows: Sequence[str]) -> None:
    """Print rows, a line each, with columns as wide as the widest text in them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print_line("\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows))


def add_ledger_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a ledger, as `grader-server` has them."""
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="as the server's ($GRADER_STATE_DIR, or the user's state directory)")
    text = "as the server's ($GRADER_DATABASE, or SQLite in the state directory)"
    parser.add_argument("--database", metavar="URL", default=os.environ.get("GRADER_DATABASE"), help=text)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else, on stdout")
