"""`grader-server doctor OPTIONS`: whether a server with the same options would start, and what should be done soon; a line each."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from grader.server.checkup import CheckupFinding, CheckupStatus, look
from grader.server.main import parser as server_parser
from grader.server.settings import parse_settings

WELL, UNWELL, MISUSED = 0, 1, 2
_MARKS = {CheckupStatus.OK: "ok   ", CheckupStatus.WARNING: "soon ", CheckupStatus.WRONG: "WRONG"}


def main(arguments: Sequence[str]) -> int:
    """0 where a server would start, 1 where something is in its way, 2 where the options themselves are wrong."""
    given = {name: value for name, value in vars(parser().parse_args(arguments)).items() if value is not None}
    as_json = given.pop("json")
    settings = parse_settings("grader-server doctor", given)
    if settings is None:
        return MISUSED
    findings = list(look(settings))
    well = all(one.standing is not CheckupStatus.WRONG for one in findings)
    if as_json:
        sys.stdout.write(json.dumps({"ok": well, "findings": [asdict(one) for one in findings]}, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line(one)}\n" for one in findings)
    return WELL if well else UNWELL


def parser() -> argparse.ArgumentParser:
    """The server's own options, and --json."""
    made = argparse.ArgumentParser(
        prog="grader-server doctor",
        description="Says, a line each, what a server with these options would find here and what to do about it; changes nothing. "
        "Boxes and devices: grader-cli doctor. The exit code is 0: it would start, 1: something is in its way, 2: an option is wrong.",
        parents=[server_parser()],
        conflict_handler="resolve",  # --help is this command's
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def line(one: CheckupFinding) -> str:
    """A finding for people."""
    return f"{_MARKS[one.standing]} {one.name}: {one.detail}" + (f"; do: {one.remedy}" if one.remedy else "")
