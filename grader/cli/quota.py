"""`grader-cli quota`: how many submissions are left, and when there are more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from rich.table import Table

from grader.api.resource_names import COMPETITIONS, resource_id
from grader.cli.exits import Exit
from grader.cli.jsonout import print_json
from grader.cli.options import Json, Server, StateDir
from grader.cli.progress import stdout_console
from grader.cli.running import run
from grader.cli.session import Need, Target, connect
from grader.cli.text import one_line, plain
from grader.v1 import grader_service_pb2

_PERIODS = {3600: "an hour", 86_400: "a day"}


def quota_command(server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Show how many submissions you may still make, on the server and in each competition that is open."""
    run(quota(Target(server=server, state_dir=state_dir), json=json))


async def quota(target: Target, *, json: bool) -> Exit:
    """Print the caller's quotas."""
    async with connect(target, Need.READ) as client:
        caller = await client.get_caller(with_quotas=True)
    if json:
        print_json(caller)
    elif caller.quotas:
        stdout_console().print(render(caller.quotas))
    else:
        print("no quotas: you may submit as many as you like")
    return Exit.DONE


def render(quotas: Sequence[grader_service_pb2.QuotaUse]) -> Table:
    """A row for each. The last column says when the oldest that counts is counted no longer."""
    table = Table("quota of", "period", box=None, pad_edge=False)
    for heading in ("left", "of"):
        table.add_column(heading, justify="right")
    table.add_column("one more at (UTC)")
    for one in quotas:
        seconds = one.window.seconds
        table.add_row(
            plain(one_line(resource_id(COMPETITIONS, one.competition)) or "the server"),
            _PERIODS.get(seconds, f"{seconds} s"),
            str(max(one.limit - one.used_count, 0)),
            str(one.limit),
            f"{one.next_time.ToDatetime(UTC):%Y-%m-%d %H:%M:%S}" if one.HasField("next_time") else "-",
        )
    return table
