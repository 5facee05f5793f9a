"""Writes docs/reference: the commands from their parsers, the API from proto/, exit codes and errors from their classes, and the emulated
device from its conformance suite.

`python -m tools.reference` writes the pages, `--check` ends with 1 where one is out of date. `--picture` draws README's terminal instead.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path

import typer
from google.api import annotations_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc
from rich.console import Console
from rich.text import Text
from typer.cli import get_docs_for_click
from typer.main import get_command

from grader import errors
from grader.cli import commands
from grader.cli.exits import Exit, exit_of_error
from grader.server import main as server
from grader.views.formatting import FLAGS
from grader_extensions.competitions import refusals as refusals  # among the errors that travel
from tools import emulation_page
from tools.generate_proto import proto_arguments, public_sources
from tools.page import table_lines

ROOT = Path(__file__).parents[1]
DIRECTORY = ROOT / "docs" / "reference"
WRITTEN_BY = "Written by `python -m tools.reference`; a test compares it with the code."
FIRST = "grader/v1/grader_service.proto"
PICTURE, COLUMNS = ROOT / "docs" / "images" / "terminal.svg", 100
SHOWN = "grader-cli submit kernels_examples/tril_matmul/stale_memory.cu"
# Field numbers of descriptor.proto; the path of a comment is made of them.
MESSAGE, ENUM, SERVICE, NESTED = 4, 5, 6, 2


def pages() -> dict[str, str]:
    """The text of every page, by its file's name."""
    texts = {"cli.md": cli(), "api.md": api(), "exit-codes-and-errors.md": exit_codes_and_errors()}
    texts["emulated-device.md"] = emulation_page.page(WRITTEN_BY)
    return {name: "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n" for name, text in texts.items()}


def cli() -> str:
    """Both programs: every command with its arguments and options."""
    command = get_command(commands.app)
    client = get_docs_for_click(obj=command, ctx=typer.Context(command, **command.context_settings), indent=1, name="grader-cli")
    client = re.sub(r"\*\*Usage\*\*:\n\n```console\n.*\n```\n\n", "", client)
    modules = [f"grader_extensions.operation.{name}" for name in ("backup", "check", "server_doctor")]
    modules += ["grader.server.admin", *(f"grader_extensions.operation.{name}" for name in ("key_import", "admin_queue", "admin_lanes"))]
    modules += ["grader_extensions.fleet.admin_workers", "grader_extensions.fleet.main", "grader_extensions.fleet.ray_placement"]
    parsers = [server.parser(), *(import_module(module).parser() for module in modules)]
    text = "\n".join(line for parser in parsers for line in _parser_lines(parser))
    return _share_options(f"# Commands\n\n{WRITTEN_BY}\n\n{client}\n{text}".splitlines())


def _share_options(lines: Sequence[str]) -> str:
    """Explain the options of eight or more commands once, at the end of the page."""
    names = {line: line.split("`")[1] for line, number in Counter(lines).items() if number >= 8 and line.startswith("* `-")}
    parts = (
        f"* `{'`, `'.join(map(names.__getitem__, group))}`: see [common options](#common-options)" if shared else "\n".join(group)
        for shared, group in groupby(lines, names.__contains__)
    )
    return "\n".join((*parts, "", "## Common options", "", *names))


def _parser_lines(parser: argparse.ArgumentParser, description: str = "") -> Iterator[str]:
    """A parser and its subcommands, in the form of typer's pages: argparse's own help differs between versions of Python."""
    yield from ("##" + "#" * min(parser.prog.count(" "), 2) + f" `{parser.prog}`", "", parser.description or description, "")
    subcommands = []
    for title, named in (("Arguments", False), ("Options", True)):
        actions = [entry for entry in parser._actions if bool(entry.option_strings) is named and not isinstance(entry.choices, dict)]
        yield from [f"**{title}**:", "", *map(_action_line, actions), ""] if actions else []
    for action in parser._actions:
        if isinstance(action.choices, dict):
            helps = {entry.dest: entry.help for entry in action._get_subactions()}
            subcommands += [(entry, helps.get(word) or "") for word, entry in action.choices.items()]
    yield from (parser.epilog, "") if parser.epilog else ()
    for subcommand, text in subcommands:
        yield from _parser_lines(subcommand, text[:1].upper() + text[1:])


def _action_line(action: argparse.Action) -> str:
    value = action.metavar or ("[" + "|".join(map(str, action.choices)) + "]" if action.choices else "")
    name = " ".join(part for part in (", ".join(action.option_strings), str(value)) if part) or action.dest.upper()
    return f"* `{name}`" + (f": {action.help}" if action.help else "")


def api() -> str:
    """Services, messages and enums of proto/, with their comments."""
    with tempfile.TemporaryDirectory() as scratch:
        image = Path(scratch) / "image.binpb"
        options = ["--include_source_info", f"--descriptor_set_out={image}"]
        if protoc.main(["protoc", *proto_arguments(), *options, *public_sources()]) != 0:
            raise SystemExit("protoc failed; its message is above")
        files = FileDescriptorSet.FromString(image.read_bytes()).file
    lines = ["# API", "", WRITTEN_BY, "How to use it is in [the guide](../api.md).", ""]
    for file in sorted(files, key=lambda entry: (entry.name != FIRST, entry.name)):
        lines += [f"## `{file.name}`", "", *_file_lines(file)]
    return "\n".join(lines)


def _file_lines(file: FileDescriptorProto) -> Iterator[str]:
    comments = {tuple(entry.path): entry.leading_comments for entry in file.source_code_info.location}
    for index, service in enumerate(file.service):
        yield from (f"### service {service.name}", "", *_paragraphs(comments[SERVICE, index]), "")
        for number, method in enumerate(service.method):
            stream = "stream " if method.server_streaming else ""
            binding = method.options.Extensions[annotations_pb2.http]
            verb = str(binding.WhichOneof("pattern"))
            http = f", over HTTP `{verb.upper()} {getattr(binding, verb)}`" if binding.ByteSize() else ""
            yield from (f"#### {method.name}", "", f"`{_short(method.input_type)}` → `{stream}{_short(method.output_type)}`{http}", "")
            yield from (*_paragraphs(comments[SERVICE, index, NESTED, number]), "")
    for index, message in enumerate(file.message_type):
        yield from (f"### {message.name}", "", *_paragraphs(comments[MESSAGE, index]), "")
        yield from _table(("field", "type", "meaning"), _fields(message, comments, index))
    for index, enum in enumerate(file.enum_type):
        yield from (f"### enum {enum.name}", "", *_paragraphs(comments[ENUM, index]), "")
        rows = ((f"`{entry.name}`", comments[ENUM, index, 2, at]) for at, entry in enumerate(enum.value))
        yield from _table(("value", "meaning"), rows)


def _fields(message: DescriptorProto, comments: dict[tuple[int, ...], str], index: int) -> Iterator[Sequence[str]]:
    entries = {entry.name: entry for entry in message.nested_type if entry.options.map_entry}
    for number, field in enumerate(message.field):
        kind = _kind(field)
        if entry := entries.get(field.type_name.rpartition(".")[2]):
            kind = f"map<{_kind(entry.field[0])}, {_kind(entry.field[1])}>"
        elif field.label == FieldDescriptorProto.LABEL_REPEATED:
            kind = f"repeated {kind}"
        elif field.proto3_optional:
            kind = f"optional {kind}"
        elif field.HasField("oneof_index"):
            kind = f"oneof {message.oneof_decl[field.oneof_index].name}: {kind}"
        yield f"`{field.name}`", f"`{kind}`", comments[MESSAGE, index, 2, number]


def _kind(field: FieldDescriptorProto) -> str:
    return _short(field.type_name) or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _short(name: str) -> str:
    return name.removeprefix(".grader.v1.").removeprefix(".")


def _paragraphs(comment: str) -> list[str]:
    return [line.removeprefix(" ") for line in comment.rstrip().replace(":\n *", ":\n\n *").splitlines()]


def exit_codes_and_errors() -> str:
    """Exit codes of grader-cli, the errors that travel over the API, and the flags of reports."""
    codes = ((str(int(code)), name.lower().replace("_", " ")) for name, code in Exit.__members__.items())
    lines = ["# Exit codes, errors and flags", "", WRITTEN_BY, "", "## Exit codes of grader-cli", "", *_table(("code", "meaning"), codes)]
    lines += [
        *("## Errors", "", "`reason` and `fields` are those of `google.rpc.ErrorInfo`; `retry_s` is the delay of `google.rpc.RetryInfo`."),
        *("The exit code is that of grader-cli. `INTERNAL` without fields: the reason of a submission that FAILED.", ""),
    ]
    kinds = [*errors.CallRefused.__subclasses__(), *errors.GraderFault.__subclasses__()]
    rows = []
    for index, kind in enumerate(kinds):
        kinds[index + 1 : index + 1] = kind.__subclasses__()  # they are the next rows
        exit_code, meaning = str(int(exit_of_error(kind.__new__(kind)))), (kind.__doc__ or "").splitlines()[0]
        rows.append((f"`{kind.reason}`", kind.code or "INTERNAL", ", ".join(kind.fields()), exit_code, meaning))
    lines += _table(("reason", "code", "fields", "exit code", "meaning"), iter(rows))
    lines += ["## Flags of a report", "", *_table(("flag", "meaning"), ((f"`{name}`", text) for name, text in FLAGS.items()))]
    return "\n".join(lines)


def _table(headings: Sequence[str], rows: Iterator[Sequence[str]]) -> list[str]:
    return [*table_lines(headings, body), ""] if (body := list(rows)) else []


def picture(printed: str) -> str:
    """Draw a command's output on a terminal as SVG: the lines that stay after progress was redrawn; without fonts of other sites."""
    lines = [f"$ {SHOWN}"]
    for line in printed.replace("\r", "").splitlines():
        lines[len(lines) - line.count("\x1b[1A") :] = [line.rpartition("\x1b[2K")[2]]
    (console := Console(record=True, width=COLUMNS, file=io.StringIO())).print(Text.from_ansi("\n".join(lines)))
    return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="grader"), flags=re.DOTALL)


def stale(directory: Path = DIRECTORY) -> list[str]:
    """The pages that are missing, out of date, or not texts any more."""
    texts = pages()
    existing = {path.name: path.read_text() for path in directory.glob("*.md")}
    return sorted(name for name in {*texts, *existing} if texts.get(name) != existing.get(name))


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; end with 1 where a page is out of date")
    parser.add_argument("--picture", action="store_true", help="draw what grader-cli prints for a wrong kernel")
    options = parser.parse_args()
    try:
        if options.picture:
            command = ["script", "-qec", f"stty cols {COLUMNS}; {Path(sys.executable).parent}/{SHOWN}", "/dev/null"]
            PICTURE.write_text(picture(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False).stdout.decode()))
        elif not options.check:
            DIRECTORY.mkdir(exist_ok=True)
            for name, text in pages().items():
                (DIRECTORY / name).write_text(text)
        elif names := stale():
            sys.stderr.write(f"out of date in {DIRECTORY.relative_to(ROOT)}: {', '.join(names)}; run `python -m tools.reference`\n")
            return 1
        return 0
    except emulation_page.FeatureTableError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
