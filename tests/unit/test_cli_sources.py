"""Paths on the command line become sources, or a sentence that says what to do."""

import os
from pathlib import Path

import pytest

from grader import extensions
from grader.cli import sources
from grader.cli.exits import UsageError
from grader.model import SOURCE_LIMIT_BYTES


def write(path: Path, text: str = "void solve() {}\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_one_file_goes_by_its_basename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path with .. on the command line is the user's own, and only the name is sent."""
    write(tmp_path / "kernel.cu")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [source.path for source in sources.read_sources([Path("../kernel.cu")])] == ["kernel.cu"]


@pytest.mark.parametrize(
    ("files", "paths"), [(["src/b.cu", "include/deep/a.cuh"], ["src/b.cu", "include/deep/a.cuh"]), (["x/a.cu", "x/b.cu"], ["a.cu", "b.cu"])]
)
def test_several_files_go_relative_to_their_common_directory(tmp_path: Path, files: list[str], paths: list[str]) -> None:
    """The order is kept, and paths are relative. The common directory of siblings is theirs."""
    assert [source.path for source in sources.read_sources([write(tmp_path / name) for name in files])] == paths


def test_headers_that_a_file_includes_are_sent_along(tmp_path: Path) -> None:
    """With what they include, from the directory and below; neither what lies above or behind a link, nor what is no header."""
    top = tmp_path / "top"
    kernel = write(
        top / "k.cu", '#include <cuda.h>\n#include "deep/a.cuh"\n  #  include "b.h" // more\n#include "k.cu"\n#include "gone.h"\n'
    )
    write(top / "deep" / "a.cuh", '#include "../b.h"\n#include "../../above.h"\n#include "link.h"\n#include "secret"\n#include "a.cuh"\n')
    write(top / "b.h", "// the last\n")
    write(top / "x.cu")
    write(top / "deep" / "secret", "no header\n")
    write(tmp_path / "above.h")
    (top / "deep" / "link.h").symlink_to(tmp_path / "above.h")
    (top / "gone.h").mkdir()
    assert [source.path for source in sources.read_sources([kernel])] == ["k.cu", "deep/a.cuh", "b.h"]
    assert [source.path for source in sources.read_sources([kernel, top / "b.h"])] == ["k.cu", "b.h", "deep/a.cuh"]
    submitted = sources.read([kernel], "p")
    assert submitted.notes == ("sent along, for it is included: deep/a.cuh, b.h",)
    assert sources.read([top / "b.h"], "p").notes == ()
    write(top / "deep" / "k.cu", '#include "deep/a.cuh"\n#include "b.h"\n')  # as from the common directory
    assert [source.path for source in sources.read_sources([top / "deep" / "k.cu", top / "x.cu"])][2:] == ["deep/a.cuh", "b.h"]
    write(top / "b.h", "x" * SOURCE_LIMIT_BYTES)
    with pytest.raises(UsageError, match="over the 1,048,576 allowed"):
        sources.read_sources([kernel])


@pytest.mark.parametrize("moved", ["k.cu", "k.h", "problem.toml", "all"])
def test_nothing_outside_of_a_root_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: str) -> None:
    """Whichever becomes a link after it was looked at: a file, or its directory. The control has no root, and reads what is outside."""
    home, outside = tmp_path / "root" / "all", tmp_path / "outside"
    texts = {"k.cu": '#include "k.h"\n// secret', "k.h": "// secret", "problem.toml": 'name = "secret"'}
    for name, text in texts.items():
        write(home / name, text.replace("secret", "open"))
        write(outside / name, text)
    kernel, looked, link = home / "k.cu", os.path.realpath, home if moved == "all" else home / moved

    def swapped(path: Path, *, strict: bool = False) -> str:
        real = looked(path, strict=strict)
        if Path(path).name == moved:
            swap()
        return real

    def swap() -> None:
        if not link.is_symlink():
            link.rename(tmp_path / "gone")
            link.symlink_to(outside if moved == "all" else outside / moved)

    monkeypatch.setattr(os.path, "realpath", swapped)
    if moved in ("k.cu", "all"):  # the caller looked at these
        swap()
    try:
        texts_read = repr(sources.read([kernel], None, root=tmp_path / "root"))
    except UsageError as error:
        texts_read = str(error)
    assert link.is_symlink() and "secret" not in texts_read
    if moved != "k.h":  # a header is never read through a link that leads out of its directory
        assert "secret" in repr(sources.read([kernel], None))


def test_links_of_a_root_that_stay_in_it_are_read(tmp_path: Path) -> None:
    """Of the header and problem.toml; a link in a circle is no header."""
    write(tmp_path / "k.cu", '#include "circle.h"\n#include "link.h"\n#include "x\0.h"\n')
    (tmp_path / "circle.h").symlink_to("circle.h")
    (tmp_path / "link.h").symlink_to(write(tmp_path / "deep" / "own.h"))
    (tmp_path / "problem.toml").symlink_to(write(tmp_path / "deep" / "p.toml", 'name = "mine"\n'))
    submitted = sources.read([tmp_path / "k.cu"], None, root=tmp_path)
    assert ([source.path for source in submitted.sources], submitted.problem_id) == (["k.cu", "link.h"], "mine")


def test_what_is_no_source_file_is_refused(tmp_path: Path) -> None:
    """A pipe, which would block for ever, and files over the limit together. The control: one file of the largest size."""
    os.mkfifo(tmp_path / "pipe.cu")
    with pytest.raises(UsageError, match="is not a regular file; save the kernel to a file"):
        sources.read_sources([tmp_path / "pipe.cu"])
    files = [write(tmp_path / f"{name}.cu", "x" * (SOURCE_LIMIT_BYTES // 2 + 1)) for name in "ab"]
    with pytest.raises(UsageError, match=r"sources: 1,048,578 bytes in all, over the 1,048,576 allowed"):
        sources.read_sources(files)
    assert len(sources.read_sources([write(tmp_path / "a.cu", "x" * SOURCE_LIMIT_BYTES)])[0].content) == SOURCE_LIMIT_BYTES


@pytest.mark.parametrize(
    "line", ["// grader: problem=row_softmax", "# grader: problem=row_softmax", "  //grader: mode=test problem=row_softmax"]
)
def test_a_line_in_the_file_names_the_problem(tmp_path: Path, line: str) -> None:
    """Among the first lines, in either comment style; further down it does not."""
    assert sources.read([write(tmp_path / "a.cu", f"// expect: ACCEPTED\n{line}\n")], None).problem_id == "row_softmax"
    with pytest.raises(UsageError, match=r"problem: nothing says which problem a.cu is for; give --problem NAME"):
        sources.read([write(tmp_path / "a.cu", "\n" * 10 + line)], None)


def test_the_flag_is_stronger_than_the_line_and_the_line_than_the_directory(tmp_path: Path) -> None:
    """A kernel for another problem does not bring its neighbour's along. A broken file next to it is named."""
    write(tmp_path / "problem.toml", 'name = "beside"\n')
    file = write(tmp_path / "a.cu", "// grader: problem=inside\n")
    bare = write(tmp_path / "b.cu")
    cases = [(file, "flagged", "flagged"), (file, "problems/flagged", "flagged"), (file, None, "inside"), (bare, None, "beside")]
    for path, flag, problem_id in (*cases, (bare, "beside", "beside"), (bare, "other", "other")):
        files = sources.read([path], flag)
        assert (files.problem_id, files.problem_dir) == (problem_id, tmp_path if problem_id == "beside" else None)
    write(tmp_path / "problem.toml", "name = \n")
    with pytest.raises(UsageError, match=r"problem: .*problem.toml can't be read"):
        sources.read([bare], None)


def test_a_solution_file_needs_the_package_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "part", lambda group, name: None)
    with pytest.raises(UsageError, match=r"solution\.json is no source file; .*kernel-grader-extensions"):
        sources.read([write(tmp_path / "solution.json")], None)
