"""`grader-cli show --html` against a server with a fake grade."""

import pytest

from grader.api.client import GraderClient
from grader.cli.exits import Exit, UsageError
from grader.cli.session import Target
from grader.cli.submissions import write_html
from grader.server.running import serving
from tests import fakes


@pytest.fixture
async def graded(settings, kernel, finished, place):
    """A server, and the names of an accepted, a wrong and a running submission."""
    grade = fakes.FakeGrade()
    async with serving(settings, fakes.wiring(grade)) as running, GraderClient(running.address) as client:
        names = [(await finished(client, await client.submit(kernel(order)))).name for order in ("accept", "wrong")]
        names.append((await client.submit(kernel("hang"))).name)
        yield Target(server=running.address), names


async def test_a_report_is_written_as_a_whole(graded, tmp_path, capsys):
    """To a file or to stdout, with the verdict, the source and the timeline of its events; hidden sizes are not in it."""
    target, (_, wrong, _) = graded
    path = tmp_path / "report.html"
    assert await write_html(target, wrong, str(path)) is Exit.DONE
    text = path.read_text()
    assert "WRONG_ANSWER" in text and "grade: wrong" in text and 'id="timeline"' in text and "secret33" not in text
    assert "wrote" in capsys.readouterr().err and [file.name for file in tmp_path.glob("report*")] == ["report.html"]
    await write_html(target, wrong.partition("/")[2], "-")
    assert capsys.readouterr().out.startswith("<!doctype html>")


async def test_what_runs_has_no_report_yet(graded, tmp_path):
    """The message says what to do; no file is left."""
    target, (*_, running) = graded
    with pytest.raises(UsageError, match="grader-cli watch"):
        await write_html(target, running, str(tmp_path / "report.html"))
    with pytest.raises(UsageError, match="can't be written"):
        await write_html(target, graded[1][0], str(tmp_path / "none" / "report.html"))
    assert not list(tmp_path.glob("report*"))
