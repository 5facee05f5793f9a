"""`grader-cli show`, `list` and `cancel`."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from grader.api.resource_names import PROBLEMS, full_name, resource_id
from grader.cli import report
from grader.cli.exits import Exit
from grader.cli.jsonout import print_json
from grader.cli.progress import stdout_console
from grader.cli.session import Need, Target, connect
from grader.cli.text import one_line, plain
from grader.v1 import grader_service_pb2, submission_pb2
from grader.views import formatting


async def show(target: Target, name: str, *, json: bool) -> Exit:
    """Print a submission as it is now."""
    async with connect(target, Need.READ) as client:
        submission = await client.get_submission(full_name("submissions", name))
    if json:
        print_json(submission)
    else:
        report.show(stdout_console(), submission)
    return Exit.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """What to list; "" is any."""

    problem: str = ""
    competition: str = ""
    user: str = ""
    tag: str = ""
    limit: int


async def list_(target: Target, wanted: ListOptions, *, json: bool) -> Exit:
    """Print the newest submissions."""
    async with connect(target, Need.READ) as client:
        answer = await client.list_submissions(
            page_size=wanted.limit,
            problem=full_name("problems", wanted.problem) if wanted.problem else "",
            competition=full_name("competitions", wanted.competition) if wanted.competition else "",
            user=wanted.user,
            tag=wanted.tag,
        )
    if json:
        print_json(grader_service_pb2.ListSubmissionsResponse(submissions=answer.submissions))
    elif answer.submissions:
        stdout_console().print(_table(list(answer.submissions)))
    elif wanted.problem or wanted.competition or wanted.user or wanted.tag:
        print("no such submissions that you may see")
    else:
        print("no submissions yet; hand one in with: grader-cli submit FILE")
    return Exit.DONE


async def cancel(target: Target, name: str, *, json: bool) -> Exit:
    """Cancel a submission and print it."""
    async with connect(target, Need.GRADE) as client:
        submission = await client.cancel(full_name("submissions", name))
    if json:
        print_json(submission)
    else:
        stdout_console().print(plain(f"{submission.name}: {formatting.state_name(submission)}"))
    return Exit.DONE


def _table(submissions: list[submission_pb2.Submission]) -> Table:
    users = any(one.user for one in submissions)  # there are none where the server asks for no keys
    tags = any(one.tags for one in submissions)
    columns = ("name", *(["user"] if users else []), "problem", "language", "state", "handed in (UTC)", *(["tags"] if tags else []))
    table = Table(*columns, box=None, pad_edge=False)
    for one in submissions:
        table.add_row(
            plain(one_line(one.name)),
            *([plain(one_line(one.user))] if users else []),
            plain(one_line(resource_id(PROBLEMS, one.problem))),
            plain(one_line(one.language)),
            formatting.state_name(one),
            one.create_time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S"),
            *([plain(one_line(", ".join(one.tags)))] if tags else []),
        )
    return table
