"""docs/tutorial.md works as written: its files are made, its commands run in order, and they print what it shows."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from tests.e2e.conftest import ROOT, TIMEOUT_S
from tests.ports import free_port

PAGE = ROOT / "docs" / "tutorial.md"
ADDRESS = "127.0.0.1:50551"  # of the page's server; the test's is at a free port
PROSE, FENCED, INDENTED = r"(?:^(?!```|    ).*\n)*", r"^```\w+\n((?:^(?!```).*\n)*)^```\n", r"(?:^    .*\n)+"
STEP = re.compile(rf"({PROSE})(?:{FENCED}|({INDENTED}))", re.MULTILINE)
FILE = re.compile(r"`([\w./]+\.(?:cu|toml|py))`")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBlock:
    """A fenced block: a file, named by the last path in the text before it."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line that begins with `$`, and what the page shows below it."""

    line: str
    shown: tuple[str, ...]


def steps(page: str) -> list[SourceBlock | Command]:
    """Return what a reader of the page does, in order."""
    blocks: list[SourceBlock | Command] = []
    for prose, block, indented in STEP.findall(page):
        if block:
            blocks.append(SourceBlock(path=FILE.findall(prose)[-1], text=block))
        for part in re.split(r"^    \$ ", indented, flags=re.M)[1:]:
            line, *shown = (text.strip() for text in part.splitlines())
            blocks.append(Command(line=line, shown=tuple(shown)))
    return blocks


def shows(shown: tuple[str, ...], printed: str) -> bool:
    """Return whether this is what was printed. `...` stands for any lines, a number for any number; nothing shown is nothing compared."""
    lines = (r"(?:.*\n)*?" if line == "..." else re.sub(r"\d+", r"\\d+", re.escape(line)) + r" *\n" for line in shown)
    return not shown or re.fullmatch("".join(lines), printed) is not None


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.timeout(1800)
def test_the_tutorial_works_as_written(environment, tmp_path):
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    (tmp_path / "kernels_examples").symlink_to(ROOT / "kernels_examples")
    address = f"127.0.0.1:{free_port()}"
    servers = []
    try:
        for step in steps(PAGE.read_text()):
            if isinstance(step, SourceBlock):
                (tmp_path / step.path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / step.path).write_text(step.text)
                continue
            words = shlex.split(step.line.replace(ADDRESS, address))
            if words[0] == "grader-server":
                servers.append(subprocess.Popen(words, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL))
                with grpc.insecure_channel(address) as channel:
                    grpc.channel_ready_future(channel).result(timeout=TIMEOUT_S)
                continue
            result = subprocess.run(
                words,
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            print(f"$ {step.line}\n{result.stdout}")
            assert result.returncode == int("WRONG_ANSWER" in " ".join(step.shown)), step.line
            assert shows(step.shown, result.stdout), step.line
    finally:
        for server in servers:
            server.terminate()
            server.wait(TIMEOUT_S)


def test_every_block_of_the_page_is_a_step():
    """The control of how the page is read: no block is left out."""
    blocks = steps(PAGE.read_text())
    files = [block.path for block in blocks if isinstance(block, SourceBlock)]
    assert files == [
        "kernel.cu",
        "kernel.cu",
        "problems/double/problem.toml",
        "problems/double/reference.py",
        "competitions/first/competition.toml",
        "double.cu",
    ]
    assert len(blocks) - len(files) == PAGE.read_text().count("    $ ") == 15


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (("...", "ACCEPTED", "Right on all 66 runs.", "..."), "queued\nACCEPTED\nRight on all 71 runs.\n\ntable\n", True),
        (("...", "ACCEPTED"), "queued\nACCEPTED\ntable\n", False),
        (("...", "ACCEPTED"), "queued\nWRONG_ANSWER\n", False),
        ((), "anything\n", True),
    ],
)
def test_another_output_is_found(shown, printed, same):
    """The control of the comparison."""
    assert shows(shown, printed) is same
