"""`grader-server admin SUBJECT ...`: what an administrator does in a server's state, with a running server or without one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from grader import extensions

# A module `grader/server/commands/admin_SUBJECT.py` each, with a `main(arguments) -> int`.
SUBJECTS = {
    "keys": "API keys: who may call this server, and for what",
    "queue": "the queue: who waits, who is next, and whether it is paused",
    "lanes": "lanes and workers: what each does, which get no work for now, and which are looked at again",
    "servers": "servers: which use this state directory or share this database",
}
MISUSED = 2


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    if arguments and arguments[0] in SUBJECTS:
        return int(import_module(f"grader.server.commands.admin_{arguments[0]}").main(arguments[1:]))
    if arguments and (command := extensions.part(extensions.ADMIN_COMMANDS, arguments[0])) is not None:
        return int(command.main(arguments[1:]))
    help_wanted = bool(arguments) and arguments[0] in ("-h", "--help")
    summaries = SUBJECTS | {name: command.SUMMARY for name, command in extensions.named(extensions.ADMIN_COMMANDS).items()}
    lines = ["usage: grader-server admin SUBJECT ... (each has --help)", *(f"  {word:10}{text}" for word, text in summaries.items())]
    if arguments and not help_wanted:
        lines.insert(0, f"grader-server admin: unknown subject {arguments[0]!r}; {extensions.PACKAGE} adds some")
    print("\n".join(lines), file=sys.stdout if help_wanted else sys.stderr)
    return 0 if help_wanted else MISUSED
