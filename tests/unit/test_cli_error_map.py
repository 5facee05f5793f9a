"""A map of a wrong output as the terminal shows it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from grader.cli.error_map import CharacterMap
from grader.cli.report import render
from grader.v1 import report_pb2, submission_pb2

HOSTILE = "\x1b[2J\r[bold]c[/bold]\u202e"


def found(rows: int, columns: int, /, **more: object) -> report_pb2.ErrorMap:
    fields: dict[str, object] = {
        "output": "c",
        "shape": (rows, columns),
        "rows": rows,
        "columns": columns,
        "block_rows": 1,
        "block_columns": 1,
        "wrong_shares": bytes(rows * columns),
    }
    return report_pb2.ErrorMap(**{**fields, **more})  # type: ignore[arg-type]


def lines(of: report_pb2.ErrorMap, encoding: str = "utf-8") -> list[str]:
    """What a terminal of this encoding gets; title first, legend last."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=out, width=100, legacy_windows=False).print(CharacterMap(of))
    out.flush()
    return raw.getvalue().decode(encoding).splitlines()


def test_a_character_for_each_kind_of_block() -> None:
    """Right, some, half, all; and what was not written stands out."""
    shown = lines(found(2, 3, wrong_shares=bytes((0, 1, 128, 255, 255, 255)), unwritten_shares=bytes((0, 0, 0, 0, 9, 255))))
    assert shown[:3] == ["Where c (2 x 3) is wrong; a character is 1 x 1 elements", "  0 ·░▓", "    █uU"]
    assert shown[3].split("  ")[-6:] == [
        "· right",
        "░ less than half wrong",
        "▓ half or more",
        "█ all",
        "u partly unwritten",
        "U never written",
    ]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    """The control is the same map above."""
    shown = lines(found(2, 3, wrong_shares=bytes((0, 1, 128, 255, 255, 255)), unwritten_shares=bytes((0, 0, 0, 0, 9, 255))), "ascii")
    assert shown[1:3] == ["  0 .-+", "    #uU"] and "".join(shown).isascii()


def test_a_large_map_is_folded_and_loses_nothing() -> None:
    """64 x 64 blocks are 16 lines of 32; a single wrong block is still seen, and a right one among wrong ones too."""
    one = bytearray(64 * 64)
    one[63 * 64 + 63] = 1
    shown = lines(found(64, 64, block_rows=128, block_columns=64, shape=(8192, 4096), wrong_shares=bytes(one)))
    assert shown[0].endswith("a character is 512 x 128 elements") and len(shown) == 18
    assert shown[16] == "       " + "·" * 31 + "░" and "".join(shown[1:16]).count("·") == 15 * 32
    assert [line[:6].strip() for line in shown[1:17:4]] == ["0", "2048", "4096", "6144"]
    nearly = lines(found(64, 64, wrong_shares=bytes([255] * 4095 + [254])))
    assert nearly[16][-1] == "▓" and nearly[15][-1] == "█"


def test_a_vector_is_one_line() -> None:
    """Of all its blocks."""
    shown = lines(found(1, 64, shape=(1000,), block_columns=16, wrong_shares=bytes([0] * 62 + [255] * 2)))
    assert shown[0] == "Where c (1000) is wrong; a character is 16 elements" and shown[1].strip() == "·" * 62 + "██" and len(shown) == 3


def test_leading_axes_are_said_to_be_summed_up() -> None:
    """A character then stands for all of them."""
    assert lines(found(2, 2, shape=(4, 2, 2)))[0].endswith("summed up over the axes before")
    assert "summed" not in lines(found(2, 2, shape=(1, 2, 2)))[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": 0},
        {"rows": 65, "wrong_shares": bytes(130)},
        {"columns": 2**30},
        {"wrong_shares": b"1"},
        {"unwritten_shares": b"123"},
        {"rows": -2},
    ],
)
def test_a_message_that_is_no_map_is_not_drawn(changed: dict[str, object]) -> None:
    """A server can send what it likes; the control is the map without the change."""
    assert lines(found(2, 2, **changed)) == [] and lines(found(2, 2)) != []


def test_a_report_has_the_map_below_the_wrong_elements() -> None:
    """And an output's name can not steer the terminal."""
    trial = report_pb2.Trial(
        workload_id="n2",
        outcome=report_pb2.TRIAL_OUTCOME_MISMATCHED,
        wrong_elements=[report_pb2.WrongElement(output="c", index=[1, 1], expected=1.0, actual=2.0)],
        error_map=found(2, 2, output=HOSTILE, wrong_shares=bytes((0, 0, 0, 255))),
    )
    report = report_pb2.Report(verdict=report_pb2.VERDICT_WRONG_ANSWER, trials=[trial])
    console = Console(file=io.StringIO(), width=100)
    for part in render(submission_pb2.Submission(state=submission_pb2.SUBMISSION_STATE_SUCCEEDED, report=report)):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.index("The first wrong elements") < text.index("is wrong; a character") and "·█" in text
    assert not {"\x1b", "\r", "\u202e"} & set(text) and "[bold]c" in text
