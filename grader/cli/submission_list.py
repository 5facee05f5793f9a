"""`grader-cli list`: submissions with their verdicts, and how fast they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, cast

import typer
from rich.table import Table

from grader.api.client import GraderClient
from grader.api.resource_names import COMPETITIONS, PROBLEMS, SUBMISSIONS, full_name, resource_id
from grader.cli.exits import Exit
from grader.cli.jsonout import print_json
from grader.cli.options import Json, Server, StateDir
from grader.cli.progress import stdout_console
from grader.cli.running import run
from grader.cli.session import Need, Target, connect
from grader.cli.short_ids import short_ids
from grader.cli.suggestions import did_you_mean
from grader.cli.text import one_line, plain
from grader.devices import EMULATED
from grader.errors import CallRefused, InternalFault, ServerUnreachable
from grader.v1 import grader_service_pb2, report_pb2, submission_pb2
from grader.views import formatting

VERDICTS = {name.removeprefix("VERDICT_"): cast(report_pb2.Verdict, number) for name, number in report_pb2.Verdict.items() if number}
_TIMED = (submission_pb2.MODE_BENCHMARK, submission_pb2.MODE_RANKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """What to list; "" is any."""

    problem: str = ""
    competition: str = ""
    user: str = ""
    tag: str = ""
    verdicts: tuple[report_pb2.Verdict, ...] = ()
    limit: int

    @property
    def selects(self) -> bool:
        """Whether anything is left out."""
        return bool(self.problem or self.competition or self.user or self.tag or self.verdicts)


def read_verdicts(texts: Sequence[str]) -> tuple[report_pb2.Verdict, ...]:
    """Verdicts of options that may each hold several, separated by commas. BadParameter where one is not known."""
    found = dict[report_pb2.Verdict, None]()
    for word in (part.strip() for text in texts for part in text.split(",")):
        name = word.upper().replace("-", "_").removeprefix("VERDICT_")
        if name not in VERDICTS:
            raise typer.BadParameter(f"{word!r} is not a verdict; take some of {', '.join(VERDICTS)}.{did_you_mean(name, VERDICTS)}")
        found[VERDICTS[name]] = None
    return tuple(found)


def _check_verdicts(texts: list[str] | None) -> list[str] | None:
    read_verdicts(texts or ())
    return texts


def list_command(
    problem: Annotated[str, typer.Option(help="Only submissions to this problem.", show_default=False)] = "",
    competition: Annotated[str, typer.Option(help="Only submissions to this competition.", show_default=False)] = "",
    user: Annotated[str, typer.Option(help="Only submissions of this user, as far as you may see them.", show_default=False)] = "",
    tag: Annotated[str, typer.Option(metavar="TAG", help="Only submissions with this tag.", show_default=False)] = "",
    verdict: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VERDICT",
            callback=_check_verdicts,
            help="Only submissions with this verdict, such as ACCEPTED. May be repeated, and may be several with commas between them.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """List submissions, newest first: verdict, mode, and speedup or score.

    A submission without a verdict is listed by its state. Other commands take the short ids that are printed here.
    """
    verdicts = read_verdicts(verdict or ())
    wanted = ListOptions(problem=problem, competition=competition, user=user, tag=tag, verdicts=verdicts, limit=limit)
    run(list_(Target(server=server, state_dir=state_dir), wanted, json=json))


async def list_(target: Target, wanted: ListOptions, *, json: bool) -> Exit:
    """Print the newest submissions."""
    async with connect(target, Need.READ) as client:
        answer = await client.list_submissions(
            page_size=wanted.limit,
            problem=full_name(PROBLEMS, wanted.problem),
            competition=full_name(COMPETITIONS, wanted.competition),
            user=wanted.user,
            tag=wanted.tag,
            verdicts=wanted.verdicts,
        )
        # Once more, for a server that is too old to know of verdicts in this call.
        found = [one for one in answer.submissions if not wanted.verdicts or one.report.verdict in wanted.verdicts]
        speedups = {} if json else await _speedups(client, found, wanted)
    if json:
        print_json(grader_service_pb2.ListSubmissionsResponse(submissions=found))
    elif found:
        stdout_console().print(render(found, speedups))
    elif wanted.selects:
        print("no such submissions that you may see")
    else:
        print("no submissions yet; hand one in with: grader-cli submit FILE")
    return Exit.DONE


def render(submissions: Sequence[submission_pb2.Submission], speedups: dict[str, str]) -> Table:
    """A row for each. speedups: in words, by name, of those without a score."""
    users = any(one.user for one in submissions)  # there are none where the server asks for no keys
    competitions = any(one.competition for one in submissions)
    tags = any(one.tags for one in submissions)
    withdrawn = any(one.HasField("withdrawal") for one in submissions)
    columns = ("id", *(["user"] if users else []), "problem", *(["competition"] if competitions else []), "language", "mode")
    more = (*(["tags"] if tags else []), *(["withdrawn"] if withdrawn else []))
    table = Table(*columns, "verdict", "speedup or score", "submitted (UTC)", *more, box=None, pad_edge=False)
    ids = short_ids([resource_id(SUBMISSIONS, one.name) for one in submissions])
    for short_id, one in zip(ids, submissions, strict=True):
        table.add_row(
            plain(one_line(short_id)),
            *([plain(one_line(one.user))] if users else []),
            plain(one_line(resource_id(PROBLEMS, one.problem))),
            *([plain(one_line(resource_id(COMPETITIONS, one.competition)))] if competitions else []),
            plain(one_line(one.language)),
            formatting.name_of(submission_pb2.Mode, one.mode, "MODE_").lower(),
            formatting.verdict_or_state(one),
            plain(one_line(_score(one) or speedups.get(one.name, "-"))),
            one.create_time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S"),
            *([plain(one_line(", ".join(one.tags)))] if tags else []),
            *([plain(formatting.withdrawal(one).removeprefix("withdrawn "))] if withdrawn else []),
        )
    return table


def _score(one: submission_pb2.Submission) -> str:
    if not one.HasField("score"):
        return ""
    over = f" over {one.score_baseline}" if one.score_baseline else ""
    return formatting.score(one.score, one.score_low, one.score_high, one.score_kind) + over


def _speedup(report: report_pb2.Report) -> str:
    """The first speedup that a report shows."""
    by_baseline = {one.baseline: one for one in report.speedups}
    practice = " (practice)" if report.environment.device_kind == EMULATED else ""  # no time of that device says anything of a GPU
    return next((f"{formatting.ratio(by_baseline[name])} over {name}{practice}" for name in formatting.baselines(by_baseline)), "-")


async def _speedups(client: GraderClient, submissions: Sequence[submission_pb2.Submission], wanted: ListOptions) -> dict[str, str]:
    """The first speedup of each accepted benchmark of the caller's, by name: a list has no reports, but one stream has them all."""
    accepted = [one for one in submissions if one.report.verdict == report_pb2.VERDICT_ACCEPTED and one.mode in _TIMED]
    asked = [one for one in accepted if not one.HasField("score")]
    if asked and (wanted.competition or wanted.user):  # the only lists that may show submissions of others
        caller = await client.get_caller()
        asked = [one for one in asked if one.user == caller.user or "admin" in caller.scopes]
    found = dict[str, str]()
    if not asked:
        return found
    try:
        async for update in client.watch_many(names=[one.name for one in asked]):
            found[update.submission.name] = _speedup(update.submission.report)
    except (CallRefused, InternalFault, ServerUnreachable):  # too many streams, or a server that is too old: the list is shown without
        return found
    return found
