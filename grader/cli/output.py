"""Output of commands: text for people, JSON for programs.

Everything that a kernel, a compiler or a server wrote is untrusted: it goes through `plain` before it reaches a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from google.protobuf import json_format
from google.protobuf.message import Message
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from grader.api import conversion
from grader.cli.exits import GraderFailed
from grader.views.sanitize import escape_unprintable, one_line

PIPE_WIDTH = 200


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command, which may have something to cancel; rich exits here, with the code of another verdict."""
        raise BrokenPipeError


def open_console(*, stderr: bool = False) -> Console:
    """Open the console for results, or for errors and for progress next to JSON: without markup, emoji codes and highlighting, since most
    text is untrusted."""
    stream = sys.stderr if stderr else sys.stdout
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=None if stream.isatty() else PIPE_WIDTH)


def plain(text: str, style: str = "") -> Text:
    """Untrusted text for rich: no control characters, no markup, no emoji codes."""
    return Text(escape_unprintable(text), style=style)


def print_line(text: str, style: str = "") -> None:
    """Print untrusted text on stdout, without wrapping."""
    open_console().print(plain(text, style), soft_wrap=True)


def print_note(text: str, style: str = "") -> None:
    """Print untrusted text on stderr, without wrapping."""
    open_console(stderr=True).print(plain(text, style), soft_wrap=True)


def print_untrusted(text: str) -> None:
    """Print untrusted text as whole lines. A pipe gets it as it is; on a terminal, which would obey control characters, it is escaped."""
    escaped = escape_unprintable(text) if sys.stdout.isatty() else text
    print(escaped, end="" if escaped.endswith("\n") else "\n")


def print_parts(parts: Iterable[RenderableType]) -> None:
    """Print the parts of a description; text is not wrapped."""
    console = open_console()
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text))


def print_message(message: Message, shown: Iterable[RenderableType] | str, *, json: bool) -> None:
    """Print a message of the API: as JSON, or what is shown of it, in parts or as a text."""
    if json:
        print_json(message)
    elif isinstance(shown, str):
        print_line(shown)
    else:
        print_parts(shown)


def text_table(
    headings: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Sequence[str] = (), title: str | None = None
) -> Table:
    """Arrange untrusted texts below headings. right: headings whose cells are aligned to the right."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for heading in headings:
        table.add_column(plain(heading), justify="right" if heading in right else "left")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else plain(one_line(cell)) for cell in row))
    return table


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Suggest names that are spelled alike, such as " Did you mean 'ACCEPTED'?"; "" where none is close."""
    by_spelling = {name.casefold(): name for name in names}
    matches = get_close_matches(word.casefold(), by_spelling, n=3)
    return f" Did you mean {' or '.join(repr(by_spelling[match]) for match in matches)}?" if matches else ""


def print_json(message: Message) -> None:
    """Print message as protobuf JSON with proto field names, and nothing else, on stdout."""
    print(json_text(message))


def json_text(message: Message, indent: int | None = 2) -> str:
    """The JSON of a message; control characters come out as JSON escapes. Raises GraderFailed."""
    try:
        return conversion.to_text(conversion.to_data(message), indent=indent)
    except (TypeError, json_format.SerializeToJsonError) as error:  # a detail of a type that is not known here, a time of no calendar
        raise GraderFailed(f"the server sent what can't be written as JSON: {error}; use a grader-cli of its version") from None
