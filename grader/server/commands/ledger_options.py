"""Which ledger a command is about: the server's options that name it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from grader.config import Settings
from grader.server.settings_given import settings_given


def add_ledger_options(parser: argparse.ArgumentParser) -> None:
    """Say where it is as `grader-server` does."""
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="as the server's ($GRADER_STATE_DIR, or the user's state directory)")
    text = "as the server's ($GRADER_DATABASE, or SQLite in the state directory)"
    parser.add_argument("--database", metavar="URL", default=os.environ.get("GRADER_DATABASE"), help=text)


def state_dir_option(*, again: bool = False) -> argparse.ArgumentParser:
    """A parent parser for a command that needs no ledger. again: of a word of that command, so that the option may stand before or behind
    the word."""
    command_parser = argparse.ArgumentParser(add_help=False)
    text = "the server's ($GRADER_STATE_DIR, or the user's state directory)"
    command_parser.add_argument("--state-dir", type=Path, metavar="DIR", default=argparse.SUPPRESS if again else None, help=text)
    return command_parser


def ledger_settings(options: argparse.Namespace) -> Settings | None:
    """Settings that name the ledger; None where they are wrong, which is said."""
    named = {name: value for name in ("state_dir", "database") if (value := getattr(options, name)) is not None}
    return settings_given("grader-server", named)
