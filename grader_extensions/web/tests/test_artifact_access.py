"""Access to the files of a submission, by the API and by the pages, and how a browser gets them."""

import contextlib
import hashlib

import pytest

from grader.api.client import GraderClient
from grader.artifacts import CHUNK_BYTES, SubmissionFiles
from grader.config import Settings
from grader.errors import ArtifactNotFound, InvalidRequest, PermissionDenied, SubmissionNotFound
from grader.ledger import Ledger
from grader.model import Caller, Scope
from grader.server.running import embedded
from grader.server.service import OwnedArtifacts
from grader_extensions.web.tests.site import END, read_site
from sandbox.protocol import wire
from tests import fakes
from tests.server.keyed import keyed_server

TRACE = b"<script>alert(1)</script>" * 20_000


async def graded(ledger, settings, user="alice", files=(("trace.json", TRACE), ("a.ptx", b".version 8.4\n"))):
    """A submission of this user that left files."""
    store = SubmissionFiles(settings.submission_files_path, 1 << 30)
    facts = [wire.ArtifactFile(name=name, tool="t", digest=store.keep(text), size_bytes=len(text)) for name, text in files]
    submission = await ledger.submit(fakes.new_submission(user=user), fakes.problem())
    await ledger.settle(await ledger.lease("w", ttl_s=30), fakes.report(), facts)
    return f"submissions/{submission.submission_id}"


async def download(client, name):
    return b"".join([piece async for piece in client.download_artifact(name)])


@pytest.fixture
def settings(tmp_path):
    return Settings(state_dir=tmp_path / "state", problems=(fakes.write_problem(tmp_path / "problems"),), listen="127.0.0.1:0")


async def test_the_owner_and_administrators_get_the_files_and_nobody_else(settings):
    """For another user there is no such submission; a key without the scope is refused."""
    async with Ledger.open(settings.ledger_path) as ledger:
        name = await graded(ledger, settings)  # Before the server runs: its own lanes would take the submission.
    async with keyed_server(settings) as here:
        keys = {
            "owner": await here.key("alice"),
            "admin": await here.key("root", (Scope.READ, Scope.ADMIN)),
            "other": await here.key("bob"),
            "submit only": await here.key("alice", (Scope.SUBMIT,)),
        }
        for who in ("owner", "admin"):
            async with here.client(keys[who]) as client:
                artifacts = await client.list_artifacts(name)
                assert [artifact.name for artifact in artifacts] == [f"{name}/artifacts/a.ptx", f"{name}/artifacts/trace.json"]
                assert artifacts[1].digest == hashlib.sha256(TRACE).hexdigest() and artifacts[1].size_bytes == len(TRACE) > CHUNK_BYTES
                assert all(artifact.available and artifact.HasField("expire_time") for artifact in artifacts)
                assert await download(client, artifacts[1].name) == TRACE
        for who, refusal in (("other", SubmissionNotFound), ("submit only", PermissionDenied)):
            async with here.client(keys[who]) as client:
                with pytest.raises(refusal):
                    await client.list_artifacts(name)
                with pytest.raises(refusal):
                    await download(client, f"{name}/artifacts/a.ptx")


@pytest.mark.parametrize(
    "name", ["x", "submissions/s", "submissions/s/artifacts/", "submissions/s/artifacts/a/../b", "submissions//artifacts/a"]
)
async def test_a_name_of_another_form_is_refused(settings, name):
    """Before anything is looked up."""
    async with embedded(settings, reader=True) as address, GraderClient(address) as client:
        with pytest.raises(InvalidRequest):
            await download(client, name)


async def test_what_is_not_listed_is_not_there(settings):
    """A file is asked for by a listed name, never by a path or a digest; one whose bytes are gone is listed as such."""
    async with Ledger.open(settings.ledger_path) as ledger:
        name = await graded(ledger, settings)
        (listed, second) = await ledger.artifacts.of(name.partition("/")[2])
        (settings.submission_files_path / second.digest).unlink()
    async with embedded(settings, reader=True) as address, GraderClient(address) as client:
        assert await download(client, f"{name}/artifacts/a.ptx") == b".version 8.4\n"  # the control
        assert [artifact.available for artifact in await client.list_artifacts(name)] == [True, False]
        for wrong in ("trace.json", listed.digest, "..", "server.lock", "A.PTX"):
            with pytest.raises(ArtifactNotFound):
                await download(client, f"{name}/artifacts/{wrong}")


@contextlib.asynccontextmanager
async def pages(tmp_path, settings, *, open_server):
    async with read_site(tmp_path / "site", open_server=open_server) as here:
        here.service.artifacts = OwnedArtifacts(here.ledger, SubmissionFiles(settings.submission_files_path, 1 << 30), None)
        yield here


async def test_a_browser_saves_a_file_and_never_shows_it(tmp_path, settings):
    """As an attachment of no known type, without sniffing, in a sandbox; the page links to it by its escaped name."""
    async with pages(tmp_path, settings, open_server=True) as here:
        name = await graded(here.ledger, settings)
        _, text = await here.get(f"/{name}")
        assert f'href="/{name}/artifacts/trace.json" download' in text and "a.ptx" in text
        async with here.session.get(here.url(f"/{name}/artifacts/trace.json")) as answer:
            assert answer.status == 200 and await answer.read() == TRACE
            headers = answer.headers
            assert headers["Content-Disposition"] == 'attachment; filename="trace.json"'
            assert headers["Content-Type"] == "application/octet-stream" and headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'") and "no-store" in headers["Cache-Control"]
        for path in (f"/{name}/artifacts/no.txt", f"/{name}/artifacts/..%2f..%2fserver.lock", f"/{name}/artifacts/%00"):
            assert (await here.get(path))[0].status == 404


async def test_an_open_competition_shows_reports_to_everybody_and_files_to_the_owner(tmp_path, settings):
    """Readers of an ended competition are no owners: their pages do not even ask for files."""
    async with pages(tmp_path, settings, open_server=False) as here:
        entry_id = await here.enter("ann", 2.0)
        here.clock.now = END
        reads, original = [], here.ledger.artifacts.of

        async def of(submission_id, **options):
            reads.append(submission_id)
            return await original(submission_id, **options)

        here.ledger.artifacts.of = of
        answer, text = await here.get(f"/submissions/{entry_id}")
        assert answer.status == 200 and "Files of the profile" not in text
        assert (await here.get(f"/submissions/{entry_id}/artifacts/a.ptx"))[0].status == 404
        assert reads == []
        owned = OwnedArtifacts(here.ledger, SubmissionFiles(settings.submission_files_path, 1), None)
        assert await owned.list_for(Caller(user="ann", scopes=frozenset({Scope.READ})), entry_id) == []
        with pytest.raises(SubmissionNotFound):
            await owned.list_for(Caller(user="bob", scopes=frozenset({Scope.READ})), entry_id)
