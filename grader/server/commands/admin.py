"""`grader-server admin SUBJECT ...`: what an administrator does in a server's state, with a running server or without one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from grader.extensions import PACKAGE, AdminCommand, command_lines

_OWN = {
    "keys": "API keys: who may call this server, and for what",
    "queue": "the queue: who waits, who is next, and whether it is paused",
    "lanes": "lanes and workers: what each does, which get no work for now, and which are looked at again",
    "servers": "servers: which use this state directory or share this database",
}
SUBJECTS = {name: AdminCommand(module=f"grader.server.commands.admin_{name}", summary=summary) for name, summary in _OWN.items()}
MISUSED = 2


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    subjects = dict(SUBJECTS)
    if not arguments or arguments[0] not in subjects:
        for line in command_lines(lambda error: sys.stderr.writelines(f"grader-server admin: {error}\n")):
            subjects.update(line.admin_commands())
    if arguments and arguments[0] in subjects:
        return int(import_module(subjects[arguments[0]].module).main(arguments[1:]))
    help_wanted = bool(arguments) and arguments[0] in ("-h", "--help")
    lines = ["usage: grader-server admin SUBJECT ... (each has --help)", *(f"  {name:10}{subjects[name].summary}" for name in subjects)]
    if arguments and not help_wanted:
        lines.insert(0, f"grader-server admin: unknown subject {arguments[0]!r}; {PACKAGE} adds some")
    print("\n".join(lines), file=sys.stdout if help_wanted else sys.stderr)
    return 0 if help_wanted else MISUSED
