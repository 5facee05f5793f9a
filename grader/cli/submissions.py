"""`grader-cli show` and `cancel`."""

from __future__ import annotations

from grader.cli import report
from grader.cli.exits import Exit
from grader.cli.jsonout import print_json
from grader.cli.progress import stdout_console
from grader.cli.session import Need, Target, connect
from grader.cli.short_ids import whole_name
from grader.cli.text import plain
from grader.views import formatting


async def show(target: Target, name: str, *, json: bool) -> Exit:
    """Print a submission as it is now."""
    async with connect(target, Need.READ) as client:
        submission = await client.get_submission(await whole_name(client, name))
    if json:
        print_json(submission)
    else:
        report.show(stdout_console(), submission)
    return Exit.DONE


async def cancel(target: Target, name: str, *, json: bool) -> Exit:
    """Cancel a submission and print it."""
    async with connect(target, Need.GRADE) as client:
        submission = await client.cancel(await whole_name(client, name))
    if json:
        print_json(submission)
    else:
        stdout_console().print(plain(f"{submission.name}: {formatting.state_name(submission)}"))
    return Exit.DONE
