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


def ledger_settings(given: argparse.Namespace) -> Settings | None:
    """Settings that name the ledger; None where they are wrong, which is said."""
    named = {name: value for name in ("state_dir", "database") if (value := getattr(given, name)) is not None}
    return settings_given("grader-server", named)
