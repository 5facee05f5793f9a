"""How a profile is shown: every text in it is the kernel's, in the terminal, on the page and in JSON."""

import io

import pytest
from rich.console import Console

from grader.api.conversion import to_message
from grader.cli import report, submit
from grader.cli.exits import UsageError
from grader.cli.session import Target
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from sandbox.protocol import wire
from sandbox.protocol.wire import ToolOutcome

EVIL = "<script>alert(1)</script>[bold]\x1b[2J\u202e"
PROFILE = wire.KernelProfile(
    tools=(
        wire.ProfileTool(name="nvcc", outcome=ToolOutcome.RAN, detail=EVIL),
        wire.ProfileTool(name="ncu", outcome=ToolOutcome.UNAVAILABLE, detail="not here"),
    ),
    workload_id="n64",
    architecture="sm_90a",
    kernels=(wire.KernelUse(name=EVIL, registers=30, double_instruction_count=11),),
    launches=(
        wire.KernelLaunch(kernel=EVIL, grid=(31, 1, 1), block=(256, 1, 1), shared_bytes=64, count=3),
        wire.KernelLaunch(kernel="timed", grid=(1, 2, 3), block=(4, 5, 6), duration_ns=2_500),
    ),
    remarks=(EVIL,),
)


def shown() -> str:
    out = io.StringIO()
    console = Console(file=out, width=200, markup=False, emoji=False, highlight=False)
    for part in report.render_profile(to_message(report_pb2.Profile, PROFILE), "s1"):
        console.print(part)
    return out.getvalue()


def test_the_terminal_shows_tools_resources_and_launches() -> None:
    """No text of a profile moves the cursor or is markup."""
    text = shown()
    parts = ("nvcc", "ran", "not available", "not here", "sm_90a", "30", "11", "31 x 1 x 1", "256 x 1 x 1", "64 B", "4 x 5 x 6")
    for part in (*parts, formatting.time(2_500)):
        assert part in text, part
    assert "grader-cli show s1 --files --out DIR" in text
    assert "\x1b[2J" not in text and "\u202e" not in text and "[bold]" in text and "\\x1b" in text


@pytest.mark.parametrize(
    ("mode", "wait", "message"),
    [
        ("profile", True, "not a directory"),  # else it would be found when all the work is done
        ("benchmark", True, "only a profile leaves files"),
        ("profile", False, "only a profile leaves files"),
    ],
)
async def test_a_directory_that_would_stay_empty_is_named_before_anything_is_submitted(tmp_path, mode, wait, message) -> None:
    (tmp_path / "out").write_text("a file")
    order = submission_pb2.Submission(mode=f"MODE_{mode.upper()}")
    with pytest.raises(UsageError, match=message):
        await submit.submit(Target(server="nowhere:1"), (), order, out=tmp_path / "out", json=False, wait=wait)
