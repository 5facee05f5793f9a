"""`grader-cli show --files`: what a server sends is saved into the directory that was named, and nowhere else."""

import hashlib
import os

import pytest

from grader.cli.exits import GraderFailed, UsageError
from grader.cli.saved_files import save_artifacts
from grader.v1 import grader_service_pb2


class Server:
    """A server that lists and sends the artifact that it is made with."""

    def __init__(self, name="a.ptx", content=b"text", sent=None, **listed):
        fields = {"size_bytes": len(content), "digest": hashlib.sha256(content).hexdigest(), "available": True, **listed}
        self.artifact = grader_service_pb2.Artifact(name=f"submissions/s/artifacts/{name}", tool="t", **fields)
        self._sent = [content] if sent is None else sent

    async def download_artifact(self, name):
        for piece in self._sent:
            yield piece

    async def save(self, out):
        return await save_artifacts(self, [self.artifact], out)


async def test_a_file_is_saved_under_its_name(tmp_path):
    """A second time nothing changes: the same bytes are there already."""
    for _ in range(2):
        assert await Server().save(tmp_path / "new" / "out") == [tmp_path / "new" / "out" / "a.ptx"]
        assert (tmp_path / "new" / "out" / "a.ptx").read_bytes() == b"text"


@pytest.mark.parametrize("name", ["../a", "..", "/etc/cron.d/a", "a/b", ".bashrc", "", "a\x1b[2J", "x" * 101, "-rf"])
async def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name):
    """The control is the test above: the same server with a plain name."""
    with pytest.raises(GraderFailed, match="not a plain file name"):
        await Server(name).save(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == [] and [path.name for path in tmp_path.iterdir()] == ["out"]


async def test_nothing_is_overwritten_and_no_link_is_followed(tmp_path):
    """Neither a file of the user's nor what a link there leads to."""
    (tmp_path / "a.ptx").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        await Server().save(tmp_path)
    assert (tmp_path / "a.ptx").read_text() == "mine"
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.ptx").symlink_to(tmp_path / "target")
    with pytest.raises(UsageError, match="is there already"):
        await Server().save(out)
    assert not (tmp_path / "target").exists()
    os.mkfifo(out / "b.ptx")
    with pytest.raises(UsageError, match="is there already"):  # and it does not wait for a writer
        await Server("b.ptx").save(out)


@pytest.mark.parametrize("server", [
    Server(sent=[b"tex"]), Server(sent=[b"text", b"more"]), Server(sent=[b"evil"]), Server(size_bytes=1 << 40), Server(size_bytes=-1),
])  # fmt: skip
async def test_what_is_not_what_was_listed_is_not_saved(tmp_path, server):
    """Too little, too much, other bytes, an impossible size."""
    with pytest.raises(GraderFailed):
        await server.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
