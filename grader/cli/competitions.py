"""`grader-cli competitions list` and `show`: what is competed on, and until when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.api.resource_names import COMPETITIONS, PROBLEMS, full_name, resource_id
from grader.cli.exits import Exit
from grader.cli.output import plain, print_json, stdout_console
from grader.cli.session import ServerRequirement, Target, connect
from grader.v1 import competition_pb2, grader_service_pb2, report_pb2, submission_pb2
from grader.views import formatting
from grader.views.sanitize import one_line

_VISIBILITIES = {
    competition_pb2.VISIBILITY_PRIVATE: "only you and the organisers see your sources and reports",
    competition_pb2.VISIBILITY_AFTER_END: "once it has ended, everybody sees all sources and reports",
}


async def list_(target: Target, *, json: bool) -> Exit:
    """Print every competition."""
    async with connect(target, ServerRequirement.READ) as client:
        answer = await client.list_competitions(page_size=1000)
    if json:
        print_json(grader_service_pb2.ListCompetitionsResponse(competitions=answer.competitions))
    elif answer.competitions:
        console = stdout_console()
        console.print(_table(answer.competitions))
        for text in _announced(answer.competitions):
            console.print(text, soft_wrap=True)
    else:
        print("no competitions here; name a server that holds some with --server HOST:PORT")
    return Exit.DONE


async def show(target: Target, name: str, *, json: bool) -> Exit:
    """Print one competition."""
    async with connect(target, ServerRequirement.READ) as client:
        competition = await client.get_competition(full_name("competitions", name))
    if json:
        print_json(competition)
    else:
        console = stdout_console()
        for part in render(competition):
            console.print(part, soft_wrap=isinstance(part, Text))
    return Exit.DONE


def render(competition: competition_pb2.Competition) -> Iterator[RenderableType]:
    """All that somebody who wants to take part has to know."""
    competition_id = one_line(resource_id(COMPETITIONS, competition.name))
    yield plain(f"{competition_id}: {one_line(competition.title)} ({_state(competition)})", "bold")
    if competition.statement:
        yield plain(f"\n{competition.statement.strip()}")
    yield Text()
    facts = Table.grid(padding=(0, 2))
    for label, value in _facts(competition):
        facts.add_row(label, plain(one_line(value)))
    yield facts
    if competition.announcements:
        yield plain("\nannouncements", "bold")
    for one in competition.announcements:
        yield plain(f"{_time(one.create_time)}  {_indented(one.text)}")
    yield Text()
    yield _problems(competition)
    yield plain(f"\nthen: grader-cli submit FILE --competition {competition_id} --problem PROBLEM --server HOST:PORT")


def _announced(competitions: Sequence[competition_pb2.Competition]) -> Iterator[Text]:
    """What was announced in those that have not ended, newest first."""
    going = [one for one in competitions if one.state != competition_pb2.COMPETITION_STATE_ENDED]
    found = [(announcement, one) for one in going for announcement in one.announcements]
    found.sort(key=lambda pair: pair[0].create_time.ToNanoseconds(), reverse=True)
    for announcement, one in found:
        yield plain(f"\n{one_line(resource_id(COMPETITIONS, one.name))}, {_time(announcement.create_time)}", "bold")
        yield plain(announcement.text)


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + " " * 25)


def _facts(competition: competition_pb2.Competition) -> Iterator[tuple[str, str]]:
    yield "open", f"from {_time(competition.start_time)} until before {_time(competition.end_time)}"
    if competition.HasField("freeze_time"):
        yield "board", f"stands still from {_time(competition.freeze_time)} until the end"
    yield "devices", ", ".join(competition.device_kinds)
    yield "counts", f"mode {_name(submission_pb2.Mode, competition.mode, 'MODE_')}, {competition.process_count} processes each"
    if competition.score_kind == report_pb2.SCORE_KIND_TIME:
        yield "score", "time, smaller is better"
    else:
        yield "score", f"speedup over {competition.baseline}, larger is better"
    shared = "share a rank"
    first = ", the earlier one is listed first" if competition.tie_rule == competition_pb2.TIE_RULE_EARLIEST else ""
    yield "ties", f"entries whose intervals overlap {shared}{first}"
    limits = [
        f"{limit} {period}" for limit, period in ((competition.hourly_limit, "in an hour"), (competition.daily_limit, "in a day")) if limit
    ]
    yield "limits", f"at most {' and '.join(limits)} each" if limits else "none but the server's"
    if competition.registration_open:
        yield "registration", "with a code of the organisers: grader-cli register NAME --code CODE --server HOST:PORT"
    yield "shown", _VISIBILITIES.get(competition.visibility, "not known to this grader-cli")


def _problems(competition: competition_pb2.Competition) -> Table:
    table = Table("problem", "secret workloads", box=None, pad_edge=False)
    for name in competition.problems:
        problem_id = resource_id(PROBLEMS, name)
        table.add_row(plain(one_line(problem_id)), str(competition.secret_workload_counts.get(problem_id, 0)))
    return table


def _table(competitions: Sequence[competition_pb2.Competition]) -> Table:
    table = Table("competition", "title", "state", "start (UTC)", "end (UTC)", "problems", box=None, pad_edge=False)
    for one in competitions:
        table.add_row(
            plain(one_line(resource_id(COMPETITIONS, one.name))),
            plain(one_line(one.title)),
            _state(one),
            _time(one.start_time).removesuffix(" UTC"),
            _time(one.end_time).removesuffix(" UTC"),
            str(len(one.problems)),
        )
    return table


def _state(competition: competition_pb2.Competition) -> str:
    return _name(competition_pb2.CompetitionState, competition.state, "COMPETITION_STATE_")


def _name(kind: Any, value: int, prefix: str) -> str:
    return formatting.name_of(kind, value, prefix).lower().replace("_", " ")


def _time(time: Timestamp) -> str:
    return time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S UTC")
