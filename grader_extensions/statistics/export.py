"""`grader-cli export`: the submissions with a tag as one file for other programs, a row for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from grader.cli import extras
from grader.cli.exits import Exit
from grader.cli.options import Server, StateDir, among, one_of
from grader.cli.output import json_text, print_line
from grader.cli.session import ServerRequirement, Target, connect
from grader.v1 import submission_pb2
from grader.views.sanitize import one_line
from grader_extensions.export_file import whole_file
from grader_extensions.statistics.records import Row, row, tagged

FORMATS = ("jsonl", "parquet")
_GROUP_ROWS = 256  # of a row group, which are in memory together
_NUMBERS = ("speedup", "speedup_low", "speedup_high", "score", "score_low", "score_high")


async def export_command(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    tag: Annotated[str, typer.Option(metavar="TAG", help="The submissions with this tag.")],
    file_format: Annotated[
        str, typer.Option("--format", metavar=one_of(FORMATS), callback=among(FORMATS), help="parquet needs the extra of this name.")
    ] = FORMATS[0],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    server: Server = None,
    state_dir: StateDir = None,
) -> Exit:
    """Write the submissions with a tag as a file: a row for each, newest first, with verdict, speedup, sources and report.

    It holds what you may see of them, as far as they are graded. Only you can read the file, which is there once it is complete.
    """
    count, opened = 0, _parquet if file_format == "parquet" else _json_lines
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.READ) as client:
        with whole_file(out, force=force) as file, opened(file) as write:
            async for submission in tagged(client, tag=tag):
                write(whole_row(submission))
                count += 1
    print_line(one_line(f"{out}: {count} submissions"))
    return Exit.DONE


def whole_row(submission: submission_pb2.Submission) -> Row:
    """Add sources (contents by path) and report as JSON."""
    sources = json.dumps({source.path: source.content for source in submission.sources})
    return row(submission) | {"sources": sources, "report": json_text(submission.report, None) if submission.HasField("report") else None}


@contextmanager
def _json_lines(file: BinaryIO) -> Iterator[Callable[[Row], None]]:
    yield lambda values: file.writelines((json.dumps(values).encode(), b"\n"))


@contextmanager
def _parquet(file: BinaryIO) -> Iterator[Callable[[Row], None]]:
    arrow, parquet = extras.load("pyarrow", "parquet"), extras.load("pyarrow.parquet", "parquet")
    kinds = {**dict.fromkeys(_NUMBERS, arrow.float64()), "accepted": arrow.bool_()}
    schema = arrow.schema([(name, kinds.get(name, arrow.string())) for name in whole_row(submission_pb2.Submission())])
    group: list[Row] = []
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:

        def write(values: Row) -> None:
            group.append(values)
            if len(group) == _GROUP_ROWS:
                flush()

        def flush() -> None:
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))
            group.clear()

        yield write
        flush()
