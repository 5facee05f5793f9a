"""Files that a box of profile mode leaves are claims: every attack next to a control that is taken."""

import os
from types import SimpleNamespace

import pytest

from grader.artifacts import FILE_COUNT_LIMIT, SUBMISSION_LIMIT_BYTES, SubmissionFiles
from grader_extensions.modes import profile
from grader_extensions.modes.profile import ClaimedFile, ProfileClaims
from sandbox.protocol import wire
from sandbox.protocol.box_files import FILE_LIMIT_BYTES, PROFILE_NOTE
from sandbox.protocol.wire import ToolOutcome

SECRET = b"root:x:0:0"
TOOLS = ("nvcc", "nvcc\x1b[2J\n")


@pytest.fixture
def out(tmp_path):
    directory = tmp_path / "out"
    directory.mkdir()
    (tmp_path / "secret").write_bytes(SECRET)
    return directory


def leave(out, files=(), **profile):
    """A note, and what it names."""
    note = wire.ProfileNote(profile=wire.KernelProfile(**profile), files=dict.fromkeys(files, "nvcc"))
    (out / PROFILE_NOTE).write_bytes(wire.encode(note))


def take(out, tools, names=None):
    """Take all fields that some box may claim."""
    return profile.take(out, tools, names, ("architecture", "kernels", "launches", "findings", "access_counts"))


def names(claims):
    return [file.name for file in claims.files]


def test_what_is_named_and_plain_is_taken(out):
    """The control of all that follows; what is not named stays there."""
    for name in ("a.ptx", "b.sass", "unnamed"):
        (out / name).write_text(name)
    leave(out, ["a.ptx", "b.sass"], tools=(wire.ProfileTool(name="nvcc", outcome=ToolOutcome.RAN),), architecture="sm_90a")
    claims = take(out, TOOLS)
    assert [(file.name, file.tool, file.content) for file in claims.files] == [("a.ptx", "nvcc", b"a.ptx"), ("b.sass", "nvcc", b"b.sass")]
    assert claims.profile.architecture == "sm_90a" and claims.profile.remarks == () and not claims.missing


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "a/b", "..", ".", "", ".hidden", "a\0b", "a\nb", "x" * 101, "\u202eb.ptx", "-a"]
)
def test_a_name_that_is_no_plain_name_is_never_opened(out, name):
    """And it is not quoted: the remark says that there was one."""
    (out / "a.ptx").write_text("a")
    leave(out, [name, "a.ptx"])
    claims = take(out, TOOLS)
    assert names(claims) == ["a.ptx"] and claims.profile.remarks == ("left out: a file without a plain name",)


def test_links_and_special_files_are_left_there(out):
    (out / "link").symlink_to(out.parent / "secret")
    os.link(out.parent / "secret", out / "hard")
    (out / "directory").mkdir()
    os.mkfifo(out / "pipe")
    (out / "plain").write_bytes(b"plain")
    leave(out, ["link", "hard", "directory", "pipe", "gone", "plain"])
    claims = take(out, TOOLS)
    assert names(claims) == ["plain"] and all(SECRET not in file.content for file in claims.files)
    assert "'link' is a symbolic link" in claims.profile.remarks[0]


@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_the_note_itself_may_be_no_link(out, kind):
    leave(out, tools=(wire.ProfileTool(name="nvcc", outcome=ToolOutcome.RAN),))
    assert take(out, TOOLS).profile.tools  # the control
    text = (out / PROFILE_NOTE).read_bytes()
    (out / PROFILE_NOTE).unlink()
    if kind == "link":
        (out.parent / "elsewhere").write_bytes(text)
        (out / PROFILE_NOTE).symlink_to(out.parent / "elsewhere")
    else:
        (os.mkfifo if kind == "pipe" else os.mkdir)(out / PROFILE_NOTE)
    claims = take(out, TOOLS)
    assert claims.missing and claims.profile == wire.KernelProfile() and claims.files == ()


def test_a_file_over_the_limit_is_left_there(out):
    with (out / "large").open("wb") as file:
        file.truncate(FILE_LIMIT_BYTES + 1)
    with (out / "fits").open("wb") as file:
        file.truncate(FILE_LIMIT_BYTES)
    leave(out, ["large", "fits"])
    claims = take(out, TOOLS)
    assert names(claims) == ["fits"] and "'large' is over" in claims.profile.remarks[0]


async def profiled(place, *files):
    """The files that are kept of these, and the remarks."""
    host = SimpleNamespace(files=SubmissionFiles(place / "kept", 1 << 30))
    claims = (ProfileClaims(files=files),)
    *file_facts, merged = [fact async for fact in profile.profiled(claims, host, wire.Build(outcome=wire.BuildOutcome.BUILT))]
    return file_facts, merged.remarks


async def test_all_files_together_have_a_limit_and_a_count(out):
    many = [ClaimedFile(name=f"f{number}", tool="t", content=b"x") for number in range(FILE_COUNT_LIMIT + 3)]
    files, (remark,) = await profiled(out, *many)
    assert len(files) == FILE_COUNT_LIMIT and remark.endswith(f"too many: {', '.join(file.name for file in many[-3:])}")
    large = [ClaimedFile(name=f"f{number}", tool="t", content=bytes(FILE_LIMIT_BYTES)) for number in range(6)]
    files, (remark,) = await profiled(out, *large)
    assert sum(file.size_bytes for file in files) <= SUBMISSION_LIMIT_BYTES and len(files) == 4 and remark.endswith(": f4, f5")


async def test_two_boxes_can_not_leave_one_name_twice(out):
    """The first one counts, so that a later box replaces nothing."""
    (file,), (remark,) = await profiled(out, ClaimedFile(name="a", tool="t", content=b"1"), ClaimedFile(name="a", tool="u", content=b"22"))
    assert (file.tool, file.size_bytes) == ("t", 1) and remark.endswith(": a")


def test_a_note_with_more_names_than_files_may_be_is_cut(out):
    for number in range(FILE_COUNT_LIMIT + 5):
        (out / f"f{number}").write_bytes(b"x")
    leave(out, [f"f{number}" for number in range(FILE_COUNT_LIMIT + 5)])
    claims = take(out, TOOLS)
    assert len(claims.files) == FILE_COUNT_LIMIT and f"all but the first {FILE_COUNT_LIMIT} files" in claims.profile.remarks[0]


@pytest.mark.parametrize("content", [
    b"", b"{", b"\xff", b'{"type":"Build","outcome":"built"}', b'{"type":"ProfileNote","profile":[]}',
    b'{"type":"ProfileNote","profile":{"tools":7}}',
    b'{"type":"Finished","job_id":"x"}', b"[" * 100_000, b" " * (profile.NOTE_LIMIT_BYTES + 1),
])  # fmt: skip
def test_a_note_of_another_form_is_no_note(out, content):
    """A fact that decides something is none either."""
    (out / PROFILE_NOTE).write_bytes(content)
    claims = take(out, TOOLS)
    assert claims.missing and claims.profile == wire.KernelProfile()


def test_a_forged_profile_is_cut_to_what_can_be(out):
    """Impossible numbers go, texts lose what does not print, lists their ends; an honest launch stays."""
    launch = wire.KernelLaunch(kernel="k", grid=(1, 1, 1), block=(128, 1, 1))
    forged = (
        wire.KernelLaunch(kernel="k", grid=(2**60, 1, 1), block=(1, 1, 1)),
        wire.KernelLaunch(kernel="k", grid=(1,), block=(1, 1, 1)),
        wire.KernelLaunch(kernel="k", grid=(1, 1, 1), block=(1, 1, 1), count=2**60),
        wire.KernelLaunch(kernel="k", grid=(1, 1, 1), block=(1, 1, 1), duration_ns=2**60),
    )
    tool = wire.ProfileTool(name="nvcc\x1b[2J\n", outcome=ToolOutcome.RAN, detail="\u202e" + "x" * 1_000)
    uses = (wire.KernelUse(name="\x1b]0;k\x07", registers=32), wire.KernelUse(name="k", registers=2**40))
    leave(
        out,
        tools=(tool,) * 100,
        launches=(*forged, *(launch,) * 60),
        kernels=uses,
        remarks=("r" * 999,) * 40,
        architecture="sm_90a\x1b" * 99,
    )
    merged = take(out, TOOLS).profile
    assert merged.launches == (launch,) * (profile.LIST_LIMITS["launches"] - len(forged))
    assert (
        len(merged.tools) == profile.LIST_LIMITS["tools"]
        and merged.tools[0].name == "nvcc[2J"
        and len(merged.tools[0].detail) == profile.TEXT_LIMITS_CHARS["detail"]
    )
    assert [use.name for use in merged.kernels] == ["]0;k"] and all(text.isprintable() for text in (*merged.remarks, merged.architecture))
    assert len(merged.remarks) <= 17 and len(merged.architecture) <= 16


def test_a_note_with_a_number_that_no_fact_may_have_is_not_read(out):
    """The whole of it goes; an honest one has none."""
    leave(out, kernels=(wire.KernelUse(name="k", registers=-1),))
    assert take(out, TOOLS).missing == "it left a result that can't be read"


def test_a_box_speaks_for_its_own_tools_only(out):
    """A forged report of another tool is dropped, its files with it; the control is the tool that the box runs."""
    tools = tuple(wire.ProfileTool(name=name, outcome=ToolOutcome.RAN) for name in ("nvcc", "ncu"))
    for name in ("a.ptx", "b.ncu-rep", "c.ptx"):
        (out / name).write_text(name)
    note = wire.ProfileNote(profile=wire.KernelProfile(tools=tools), files={"a.ptx": "nvcc", "b.ncu-rep": "ncu", "c.ptx": "nvcc"})
    (out / PROFILE_NOTE).write_bytes(wire.encode(note))
    assert names(take(out, ("nvcc",))) == ["a.ptx", "c.ptx"] and names(take(out, ("nvcc",), ("a.ptx",))) == ["a.ptx"]
    assert [tool.name for tool in take(out, ("nvcc",)).profile.tools] == ["nvcc"]
    assert "b.ncu-rep" in names(take(out, ("nvcc", "ncu")))
