"""The page to submit with: the API's checks, quotas and sentences; nothing typed is lost, and nothing is submitted twice."""

import asyncio
import contextlib
import html
import re
from unittest import mock

import aiohttp
import pytest
import sqlalchemy as sa
from aiohttp.test_utils import make_mocked_request
from multidict import MultiDict

from grader.api.client import GraderClient
from grader.errors import CallRefused, FieldViolation, InvalidRequest, InvalidSubmission
from grader.ledger import Ledger
from grader.ledger.tables import submissions
from grader.model import Scope, SourceFile
from grader.peers import PeerLimits
from grader.server.running import serving
from grader.v1 import submission_pb2
from grader_extensions.web import submit_page
from grader_extensions.web.pages import EDITOR
from grader_extensions.web.site import FormRefused, sentence
from grader_extensions.web.submit_page import FORM_LIMIT_BYTES, SubmitPage
from grader_extensions.web.tests.signed_in import SAME_SITE, USUAL, hidden, key_of, reader
from grader_extensions.web.tests.site import START, site
from sandbox.protocol import wire
from tests import fakes
from tests.requests import new_submission
from tests.server.competition_files import toml

GOOD = fakes.source("accept")
USUAL_FIELDS = {"problem": "sum", "competition": "", "mode": "benchmark", "language": "", "device_kind": ""}


@pytest.fixture
def open_server(settings, place):
    """A server with pages and keys, ann signed in, and her key's client of the API."""

    @contextlib.asynccontextmanager
    async def start(*, auth="keys", scopes=USUAL, grade=None, **changes):
        there = settings.model_copy(update={"web": "127.0.0.1:0", "auth": auth, **changes})
        async with serving(there, fakes.wiring(grade)) as running:
            base, key = f"http://{running.web_address}", None
            async with Ledger.open(there.ledger) as ledger:
                if auth == "keys":
                    key = await key_of(ledger, scopes=scopes)
                async with reader(base) as ann, GraderClient(running.address, key=key) as client:
                    ann.key, ann.client, ann.ledger = key, client, ledger
                    if key is not None:
                        assert (await ann.sign_in(key))[0].status == 303
                    yield ann

    return start


def form_data(fields, sources=(), files=()):
    """As a browser sends it."""
    form = aiohttp.FormData(quote_fields=False, default_to_multipart=True)
    for name, value in fields.items():
        form.add_field(name, value)
    for path, content in sources:
        form.add_field("path", path)
        form.add_field("content", content.replace("\n", "\r\n"))
    for name, content in files or [("", b"")]:
        form.add_field("files", content, filename=name, content_type="application/octet-stream")
    return form


async def send(ann, sources=(("kernel.cu", GOOD),), files=(), headers=SAME_SITE, page=None, **changes):
    """Open the form, fill it in and send it. page: of an earlier one."""
    fields = {**(page or await ann.hidden("/submit")), **USUAL_FIELDS, **changes}
    return await ann.post("/submit", headers=headers, data=form_data(fields, sources, files))


def id_of(answer):
    assert answer.status == 303, answer.status
    return answer.headers["Location"].removeprefix("/submissions/")


def shown(text):
    """Of a page what its fields hold: the sources, and what is chosen."""
    paths = [html.unescape(value) for value in re.findall(r'name="path" value="([^"]*)"', text)]
    contents = [html.unescape(value) for value in re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", text, re.S)]
    chosen = {}
    for name, options in re.findall(r'<select id="(\w+)".*?>(.*?)</select>', text, re.S):
        chosen[name] = "".join(re.findall(r'<option value="([^"]*)" selected', options))
    return list(zip(paths, contents, strict=True)), chosen


def errors_of(text):
    """The sentences by field, and that at the top."""
    errors = {name: html.unescape(message) for name, message in re.findall(r'<span class="error" id="([\w-]+)-error">(.*?)</span>', text)}
    top = re.findall(r'role="alert">(.*?)</p>', text, re.S)
    return errors | ({"form": html.unescape(top[0])} if top else {})


async def test_a_form_is_submitted_and_followed(open_server):
    """As the caller, with all that was chosen; the redirect leads to the live page, which becomes the report."""
    async with open_server() as ann:
        answer, _ = await send(ann, mode="test", device_kind="emulated", language="cuda")
        submission = await ann.client.get_submission(f"submissions/{id_of(answer)}")
        assert (submission.user, submission.problem) == ("ann", "problems/sum")
        assert (submission.mode, submission.device_kind) == (submission_pb2.MODE_TEST, "emulated")
        assert [(source.path, source.content) for source in submission.sources] == [("kernel.cu", GOOD)] and submission.language == "cuda"
        assert [event async for event in ann.client.watch(submission.name)]
        _, text = await ann.get(f"/{submission.name}")
        assert "ACCEPTED" in text and "<bdi>ann</bdi>" in text


async def test_files_are_uploaded_next_to_what_is_typed(open_server):
    """In their order, with their names alone; a file that is chosen by itself does."""
    async with open_server() as ann:
        answer, _ = await send(ann, [("a.cuh", "// \u00e9\n")], [("C:\\x\\kernel.cu", GOOD.encode())])
        submission = await ann.client.get_submission(f"submissions/{id_of(answer)}")
        assert [(source.path, source.content) for source in submission.sources] == [("a.cuh", "// \u00e9\n"), ("kernel.cu", GOOD)]
        answer, _ = await send(ann, [("", "")], [("kernel.cu", GOOD.encode())])
        submission = await ann.client.get_submission(f"submissions/{id_of(answer)}")
        assert [source.path for source in submission.sources] == ["kernel.cu"]


async def test_a_double_click_submits_once(open_server):
    """The form has a request id; a new page has a new one. A form that was changed after it was sent is not taken for the first one."""
    async with open_server() as ann:
        page = await ann.hidden("/submit")
        twice = await asyncio.gather(send(ann, page=page), send(ann, page=page))
        assert len({id_of(answer) for answer, _ in twice}) == 1
        assert id_of((await send(ann))[0]) != id_of(twice[0][0])
        answer, text = await send(ann, [("kernel.cu", GOOD + "// more\n")], page=page)
        assert answer.status == 409 and "was used with another request" in text
        answer, _ = await send(ann, shown(text)[0], page=hidden(text))
        assert id_of(answer) not in {id_of(sent) for sent, _ in twice}
        assert len((await ann.client.list_submissions()).submissions) == 3


@pytest.mark.parametrize(("changes", "sources", "field"), [
    ({"problem": "nothing"}, [("kernel.cu", GOOD)], "problem"),
    ({"problem": ""}, [("kernel.cu", GOOD)], "problem"),
    ({"mode": "fast"}, [("kernel.cu", GOOD)], "mode"),
    ({"language": "fortran"}, [("kernel.cu", GOOD)], "language"),
    ({"device_kind": "cuda:X1"}, [("kernel.cu", GOOD)], "device_kind"),
    ({"competition": "none_such"}, [("kernel.cu", GOOD)], "competition"),
    ({}, [("", "")], "sources"),
    ({}, [("", GOOD)], "path-0"),
    ({}, [("kernel.cu", GOOD), ("../x.cuh", "int x;\n")], "path-1"),
    ({}, [("kernel.cu", GOOD), ("x.cuh", "")], "content-1"),
    ({}, [("kernel.cu", "// " + "x" * (1 << 20))], "sources"),
    ({"request_id": "x"}, [("kernel.cu", GOOD)], "form"),
])  # fmt: skip
async def test_a_refusal_is_the_apis_sentence_next_to_its_field(open_server, changes, sources, field):
    """And the form comes back as it was filled in; the API refuses the same."""
    async with open_server() as ann:
        answer, text = await send(ann, sources, **changes)
        returned, chosen = shown(text)
        sent = {**USUAL_FIELDS, **changes}
        assert returned == sources and {**sent, **chosen} == sent and 400 <= answer.status < 500
        form = submit_page.SubmitForm(**{"request_id": "", **sent}, sources=tuple(source for source in sources if any(source)))
        request = submit_page.to_request(form)
        with pytest.raises(CallRefused) as refused:
            await ann.client.submit(request.submission, request_id=request.request_id)
        expected = refused.value.violations[0].description if isinstance(refused.value, InvalidRequest) else sentence(str(refused.value))
        assert expected.rstrip(".") in errors_of(text)[field], errors_of(text)
        assert field != "sources" or "language" not in errors_of(text)
        assert not (await ann.client.list_submissions()).submissions


async def test_quotas_and_the_queue_are_the_apis(open_server):
    """Submissions on a page count in the API, and the other way round; the sentence says when to come again."""
    async with open_server(hourly_limit=2) as ann:
        await send(ann)
        await ann.client.submit(new_submission("sum", [SourceFile(path="kernel.cu", content=GOOD)]))
        answer, text = await send(ann)
        with pytest.raises(CallRefused) as refused:
            await ann.client.submit(new_submission("sum", [SourceFile(path="kernel.cu", content=GOOD)]))
        assert answer.status == 429 and int(answer.headers["Retry-After"]) > 0 and shown(text)[0] == [("kernel.cu", GOOD)]
        assert str(refused.value).partition(";")[0] in errors_of(text)["form"].replace("The quota", "the quota")


async def test_a_competition_takes_what_its_page_sends(open_server, place):
    """On its terms: what it does not take is refused at the field."""
    (place / "competition.toml").write_text(toml("one"))
    async with open_server(competitions=(place / "competition.toml",)) as ann:
        _, text = await ann.get("/submit?problem=sum&competition=one")
        assert shown(text)[1] == {"problem": "sum", "competition": "one", "mode": "ranked", "language": ""}
        answer, _ = await send(ann, competition="one", mode="ranked")
        submission = await ann.client.get_submission(f"submissions/{id_of(answer)}")
        assert submission.competition == "competitions/one" and submission.mode == submission_pb2.MODE_RANKED
        answer, text = await send(ann, competition="one", mode="profile")
        assert answer.status == 400 and "a competition takes no MODE_PROFILE" in errors_of(text)["mode"]


async def test_what_is_typed_comes_back_as_it_is(open_server):
    """Whatever it is, as text: no markup of it, and no escape in place of a character."""
    content = "\n\n</textarea><script>x</script>{{ 7 }}\t\u202e\u200b&amp;\n"
    async with open_server() as ann:
        _, text = await send(ann, [("a\"b'<.cu", content)], problem="", device_kind='"><b>')
        assert shown(text)[0] == [("a\"b'<.cu", content)] and "<script>" not in text and "<b>" not in text


async def test_an_uploaded_file_comes_back_as_text(open_server):
    """For a browser can't fill in a file; one that is no text is named."""
    async with open_server() as ann:
        _, text = await send(ann, [("", "")], [("kernel.cu", GOOD.encode()), ("x.cuh", b"ok\n\xff\n")])
        assert shown(text)[0] == [("kernel.cu", GOOD), ("x.cuh", "")]
        assert "byte 0xff on line 2" in errors_of(text)["content-1"]


async def test_a_form_that_is_too_large_or_none_is_refused(open_server):
    """Unread beyond the bound, announced or not; the control is a form just below it, which the API refuses in its words."""
    async with open_server() as ann:
        page = {**await ann.hidden("/submit"), **USUAL_FIELDS}
        for size, status in ((FORM_LIMIT_BYTES // 2, 400), (FORM_LIMIT_BYTES + 1, 413)):
            answer, text = await ann.post("/submit", data=form_data(page, files=[("k.cu", b"x" * size)]))
            assert answer.status == status and ("1 MiB" in text)

        async def pieces():
            yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="k.cu"\r\n\r\n'
            for _ in range(FORM_LIMIT_BYTES // 65536 + 2):
                yield b"x" * 65536

        answer, _ = await ann.post("/submit", data=pieces(), headers={**SAME_SITE, "Content-Type": "multipart/form-data; boundary=x"})
        assert answer.status == 413
        for body, kind in (
            (b"a=b", "application/x-www-form-urlencoded"),
            (b"nonsense", "multipart/form-data; boundary=x"),
            (b"", "multipart/form-data"),
        ):
            answer, text = await ann.post("/submit", data=body, headers={**SAME_SITE, "Content-Type": kind})
            assert answer.status == 400, (kind, text)
        many = form_data(page, [("a.cu", "x")] * 200)
        assert (await ann.post("/submit", data=many))[0].status == 400


async def test_a_form_of_another_site_or_session_submits_nothing(open_server):
    """Another site's is refused; that of an earlier session of one's own comes back with what was typed. The control is the last one."""
    async with open_server() as ann:
        page = await ann.hidden("/submit")
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}, {}):
            answer, text = await send(ann, page=page, headers=headers)
            assert answer.status == 403 and "another site" in text
        await ann.sign_in(ann.key)
        answer, text = await send(ann, page=page)
        assert answer.status == 403 and shown(text)[0] == [("kernel.cu", GOOD)] and "earlier session" in text
        assert not (await ann.client.list_submissions()).submissions
        answer, _ = await send(ann, shown(text)[0], page=hidden(text))
        id_of(answer)


async def test_what_was_typed_outlives_the_session(open_server):
    """Once signed in again, the same form is sent again."""
    async with open_server() as ann:
        page = await ann.hidden("/submit")
        await ann.sign_out()
        answer, text = await send(ann, page=page)
        assert answer.status == 403 and shown(text)[0] == [("kernel.cu", GOOD)] and '<a href="/sign-in" target="_blank"' in text
        await ann.sign_in(ann.key)
        _, text = await send(ann, shown(text)[0], page=hidden(text))
        answer, _ = await send(ann, shown(text)[0], page=hidden(text))
        id_of(answer)


async def test_a_key_without_the_scope_submits_nothing(open_server):
    """With the API's sentence; the page has no link to it. Who has not signed in is asked to."""
    async with open_server(scopes=(Scope.READ,)) as ann:
        answer, text = await ann.get("/submit")
        assert answer.status == 403 and "does not have the scope &#39;submit&#39;" in text
        answer, text = await send(ann, page={"token": "", "request_id": ""})
        assert answer.status == 403 and "scope 'submit'" in html.unescape(text)
        await ann.sign_out()
        answer, _ = await ann.get("/submit?problem=sum")
        assert answer.headers["Location"] == "/sign-in?next=/submit%3Fproblem%3Dsum"
        assert not (await ann.client.list_submissions()).submissions


async def test_a_server_without_keys_takes_forms_of_this_host(open_server):
    """With a token of a cookie in place of a session's; a form that names another host gets none."""
    async with open_server(auth="none") as anybody:
        id_of((await send(anybody))[0])
        answer, _ = await send(anybody, headers={**SAME_SITE, "Host": "grader.example"})
        assert answer.status == 403
        page = await anybody.hidden("/submit")
        answer, text = await send(anybody, page={**page, "token": "x"})
        assert answer.status == 403 and shown(text)[0] == [("kernel.cu", GOOD)]


async def test_browsers_take_turns_on_a_server_without_keys(open_server):
    """Each has a share of the queue, however often it connects. A share is not enough to send a form."""
    async with open_server(auth="none") as ann, reader(ann.base) as bob:
        ids = [id_of((await send(browser))[0]) for browser in (ann, bob, ann)]
        query = sa.select(submissions.c.submission_id, submissions.c.share)
        shares = dict(await ann.ledger.database.read(lambda connection: connection.execute(query).all()))
        first, second, third = (shares[submission_id] for submission_id in ids)
        assert first == third and first != second and "" not in shares.values()
        page = await ann.hidden("/submit")
        assert page["token"] not in first
        answer, _ = await send(ann, page={**page, "token": first.removeprefix("client:")})
        assert answer.status == 403


@pytest.mark.parametrize("headers", [{}, {"X-Forwarded-Proto": "https"}])  # the second one is no caller of a server without keys
async def test_forms_that_are_read_at_once_are_limited(tmp_path, headers):
    """Of those who may submit, and fewer of those who may not."""
    none, single = PeerLimits(total=0, per_address=0), PeerLimits(total=1, per_address=1)
    async with site(tmp_path, open_server=True) as here:
        for limits in (none, single):
            options = {"limits": single, "stranger_limits": limits} if headers else {"limits": limits, "stranger_limits": single}
            page = SubmitPage(here.web_site(), **options)
            transport = mock.Mock()
            transport.get_extra_info = lambda name, _=None: ("127.0.0.1", 5) if name == "peername" else None
            request = make_mocked_request("POST", "/submit", headers={"Host": "localhost", **SAME_SITE, **headers}, transport=transport)
            with pytest.raises(FormRefused if limits is none else InvalidRequest):  # it is no form
                await page.submit(request)


def test_every_mode_can_be_chosen():
    """And says what it does."""
    page = submit_page.context(submit_page.SubmitForm(), {}, (), (), (), START)
    assert {value for value, _ in page["modes"]} == {mode.value for mode in wire.Mode}


def test_a_violation_without_a_field_of_the_form_is_at_the_top():
    """So that none is lost."""
    errors = submit_page.refusals(InvalidSubmission([FieldViolation("entry", "is odd"), FieldViolation("sources[2].path", "is empty")]))
    assert errors == {"form": ["entry: is odd."], "path-2": ["File name: is empty."]}


def test_a_file_that_is_no_utf_8_is_named_with_its_line():
    """The others are kept."""
    files = [("k.cu", b"int a;\n// caf\xe9\n"), ("h.cuh", "// ä".encode())]
    form = submit_page.from_sent(MultiDict(path="a.cu", content="int a;"), files)
    assert form.sources == (("a.cu", "int a;"), ("k.cu", ""), ("h.cuh", "// ä"))
    (violation,) = form.unreadable
    assert violation.field == "sources[1].content"
    assert violation.description == "'k.cu' is not UTF-8: byte 0xe9 on line 2; save the file as UTF-8"


def test_the_editors_file_names_its_packages_and_licence():
    """The file is built by `npm ci && npm run build` in `editor`."""
    head = EDITOR.read_text()[:10_000].partition("*/")[0]
    assert "@codemirror/view 6." in head and "MIT License" in head and "Permission is hereby granted" in head
