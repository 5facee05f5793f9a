"""Bad requests: refused with a status that says where and what to do, before they cost anything."""

import asyncio
import json
import re
import subprocess
import sys

import pytest

from grader.config import Settings
from grader.errors import SettingsInvalid
from grader_extensions.http import gateway
from grader_extensions.http.tests.served import METHODS, RULES, requests_of
from tests import fakes

JSON = "Content-Type: application/json"
SOURCES = [{"path": "kernel.cu", "content": fakes.source("accept")}]


def violation(answer):
    """The field of a refusal and what is wrong with it."""
    (first, *_) = answer.data["details"][1]["field_violations"]
    return first["field"], first["description"]


async def raw(here, *lines, body=b""):
    """The answer's status and text to a request as it is written here."""
    host, port = here.web.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = "\r\n".join([*lines, "Connection: close", "", ""])
        writer.write(head.encode() + body)
        async with asyncio.timeout(60):
            answer = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"Content-Length: (\d+)", answer)
            text = b"" if lines[0].startswith("HEAD") or length is None else await reader.readexactly(int(length[1]))
        return int(answer.split()[1]), text.decode()
    finally:
        writer.close()


def test_every_method_has_a_path():
    """A method that is added without `google.api.http` is noticed here, and no path means two methods."""
    assert RULES.keys() == METHODS.keys()
    rules = list(gateway.rules_of(gateway.SERVICE))
    paths = [(rule.verb, rule.path.replace("parent=", "name=")) for rule in rules]
    assert len(set(paths)) == len(paths) and all(verb in ("GET", "POST") for verb, _ in paths)


BODIES = (
    ("{", "request", "Expecting property name"),
    ("[" * 100_000, "request", "not a JSON object"),
    ("5", "request", "not a JSON object"),
    ('{"a": ' * 90_000, "request", "can't be read"),
    ('{"\xff": 1}', "request", "can't be read"),
    ("[]", "request", "not a JSON object"),
    ('{"batch": 1, "batch": 2}', "request", "duplicate key"),
    ('{"submision": {}}', "submision", "no such field"),
    ('{"submission": {"sources": [{"path": "a"}, {"pth": "a"}]}}', "submission.sources[1].pth", "no such field"),
    ('{"submission": {"mode": "MODE_FAST"}}', "submission.mode", "MODE_FAST"),
    ('{"submission": {"sources": {}}}', "submission.sources", "can't be read"),
    ('{"batch": "yes"}', "batch", "can't be read"),
    ('{"submission": {"tags": ["\\ud800"]}}', "submission.tags", "can't be read"),
    ('{"submission": {"queue_position": {"ahead_count": ' + "9" * 5000 + "}}}", "request", "can't be read"),
    ("{}", "sources", "at least one file"),
    (json.dumps({"submission": {"problem": "problems/" + "x" * 9000}}), "submission.problem", "9009 bytes"),
    (json.dumps({"submission": {"problem": "problems/sum", "sources": [*SOURCES] * 1001}}), "submission.sources", "1001"),
)


async def test_a_body_that_is_no_request_names_the_field(serve):
    """By its path, with what is wrong; nothing is submitted."""
    async with serve(capacity=0) as here:
        for body, field, text in BODIES:
            data = body.encode("latin-1")
            length = f"Content-Length: {len(data)}"
            status, answer = await raw(here, "POST /v1/submissions HTTP/1.1", f"Host: {here.web}", here.bearer[1], JSON, length, body=data)
            answer = json.loads(answer)
            wrong = {violation["field"]: violation["description"] for violation in answer["details"][1]["field_violations"]}
            assert status == 400 and answer["code"] == 3 and field in wrong, answer
            assert text in wrong[field] and len(json.dumps(answer)) < 8000


def test_a_text_that_repeats_an_error_is_read_in_linear_time():
    """Of 200 KB, in a process of its own: with a pattern that goes back in it, it took minutes, in which nobody else was answered."""
    code = """if True:
        from grader_extensions.http.rules import _explained
        quoted = 'has no field named "'
        assert _explained(f'Failed to parse mode field: {quoted * 10_000}.')[0] == 'mode'
        assert _explained(f'Message type "A" {quoted}{quoted * 10_000}" at "A.b".')[0].startswith('b.has no')
        _explained(f'Message type "A" {quoted}x" at "A.' + 'a' * 200_000)
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


async def test_what_does_not_exist_is_said_as_over_grpc(serve):
    """A problem that is unknown, with the ones that there are."""
    async with serve() as here:
        body = json.dumps({"submission": {"problem": "problems/nothing", "sources": SOURCES}})
        answer = await here.curl(*here.bearer, "--json", body, here.url("/v1/submissions"))
        assert (answer.status, answer.data["details"][0]["reason"]) == (404, "PROBLEM_NOT_FOUND") and "sum" in answer.data["message"]


async def test_a_query_is_read_as_strictly_as_a_body(serve):
    """A field that is not there, twice, or no value of its type; fields where they do not belong."""
    async with serve() as here:
        for query, field in {"page_sise=1": "page_sise", "page_size=1&page_size=2": "page_size", "page_size=x": "page_size",
                             "states=NONE": "states", "with_quotas=1": "with_quotas"}.items():  # fmt: skip
            answer = await here.curl(*here.bearer, here.url(f"/v1/submissions?{query}"))
            assert (answer.status, violation(answer)[0]) == (400, field), query
        answer = await here.curl(*here.bearer, "--json", "{}", here.url("/v1/submissions?batch=true"))
        assert "send the fields in the body" in violation(answer)[1]
        answer = await here.curl(*here.bearer, "-X", "GET", "--json", "{}", here.url("/v1/submissions"))
        assert "send the fields in the query" in violation(answer)[1]
        answer = await here.curl(*here.bearer, "--json", '{"name": "submissions/b"}', here.url("/v1/submissions/a:cancel"))
        assert violation(answer) == ("name", "differs from the path, which says 'submissions/a'; leave it out")


@pytest.mark.parametrize("method", ["Submit", "CancelSubmission"])
async def test_a_huge_body_is_refused_before_it_is_read(serve, method):
    """Either a body says its length, or it goes on for ever; without a key it is not even asked for. The control is asked to send what is
    not too long."""
    async with serve() as here:
        path = f"POST {'/v1/submissions' if method == 'Submit' else '/v1/submissions/a:cancel'} HTTP/1.1"
        limit = gateway.BODY_FACTOR * gateway.message_bytes(method)
        usual = [path, f"Host: {here.web}", JSON, "Expect: 100-continue"]
        assert (await raw(here, *usual, here.bearer[1], f"Content-Length: {limit + 1}"))[0] == 413
        assert (await raw(here, *usual, f"Content-Length: {limit}"))[0] == 401
        pieces = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        status, _ = await raw(here, *usual[:3], here.bearer[1], "Transfer-Encoding: chunked", body=pieces * (limit // 0x10000 + 1))
        assert status == 413
        host, port = here.web.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write("\r\n".join([*usual, here.bearer[1], "Content-Length: 2", "", ""]).encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert (await reader.readline()).split()[1] == (b"400" if method == "Submit" else b"404")
        writer.close()


async def test_a_body_that_does_not_come_is_waited_for_only_so_long(serve, monkeypatch):
    """And only so many of one address at a time."""
    async with serve() as here:
        usual = ["POST /v1/submissions HTTP/1.1", f"Host: {here.web}", JSON, here.bearer[1]]
        usual.append(f"Content-Length: {gateway.MESSAGE_BYTES + 1}")
        monkeypatch.setattr(gateway, "BODY_S", 0.3)
        statuses = [status for status, _ in await asyncio.gather(*(raw(here, *usual) for _ in range(gateway.BODY_LIMITS.per_address + 1)))]
        assert sorted(statuses) == [408] * gateway.BODY_LIMITS.per_address + [429]
        chunked = [*usual[:-1], "Transfer-Encoding: chunked"]
        assert (await raw(here, *chunked, body=b"zz\r\n"))[0] == 400


PATHS = (
    *("/v1/submissions/..%2Fproblems%2Fsum", "/v1/problems/sum%2F..%2Fother", "/v1/problems/../problems/sum", "/v1/problems/%2e%2e"),
    *(
        "/v1/problems/.",
        "/v1/problems/",
        "/v1/problems//sum",
        "/v1/problems/sum%00",
        "/v1/problems/%ff",
        "/v1//problems",
        "/v1/problems/a:b",
    ),
    *("/v1/submissions/a%2Fartifacts%2Fb:download", "/v1/submissions/a/artifacts/..:download", "/v1/../v1/problems", "/v1/PROBLEMS"),
)


async def test_no_path_leads_elsewhere(serve):
    """A slash that is written as %2F is not in a name, and nothing leads upwards. The control is the same path without."""
    async with serve() as here:
        for path in PATHS:
            status, answer = await raw(here, f"GET {path} HTTP/1.1", f"Host: {here.web}", here.bearer[1])
            assert status == 404 and json.loads(answer)["details"][0]["reason"] == "HTTP_REQUEST_REFUSED", path
        assert (await raw(here, "GET /v1/problems/%73um HTTP/1.1", f"Host: {here.web}", here.bearer[1]))[0] == 200


async def test_another_verb_or_another_type_is_refused(serve):
    """With what to send instead."""
    async with serve() as here:
        for verb, path in (("DELETE", "/v1/submissions/a"), ("HEAD", "/v1/caller"), ("GET", "/v1/submissions/a:cancel"),
                           ("PUT", "/v1/submissions"), ("OPTIONS", "/v1/problems")):  # fmt: skip
            status, answer = await raw(here, f"{verb} {path} HTTP/1.1", f"Host: {here.web}", here.bearer[1])
            assert status == 405 and (verb == "HEAD" or f"{verb} is not for this path; send " in json.loads(answer)["message"])
        for header in ("Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "Content-Type:"):
            assert (await here.curl(*here.bearer, "-H", header, "-d", "{}", here.url("/v1/submissions"))).status == 415
        answer = await here.curl(*here.bearer, "-H", "Content-Encoding: gzip", "--json", "{}", here.url("/v1/submissions"))
        assert answer.status == 415


async def test_a_header_that_is_there_twice_is_refused(serve):
    """Proxies and servers disagree on which counts. Keys are test_keys.py's."""
    async with serve() as here:
        for header in (f"Host: {here.web}", JSON, "Origin: http://a", "Last-Event-ID: 1", "Content-Length: 2"):
            status, _ = await raw(here, "POST /v1/submissions HTTP/1.1", f"Host: {here.web}", here.bearer[1], header, header, body=b"{}")
            assert status == 400, header


async def test_a_key_is_not_taken_where_others_could_have_read_it(serve):
    """A name that is not this host's, and a proxy that does not say that it does TLS. The control says it."""
    async with serve() as here:
        lines = "GET /v1/caller HTTP/1.1", here.bearer[1]
        assert (await raw(here, *lines, "Host: grader.example.org"))[0] == 403
        assert (await raw(here, *lines, f"Host: {here.web}", "X-Forwarded-For: 192.0.2.1"))[0] == 403
        assert (await raw(here, *lines, "Host: grader.example.org", "X-Forwarded-Proto: https"))[0] == 200


async def test_without_keys_only_programs_of_this_host_may_call(serve):
    """No page of a name that leads here, no proxy's clients, no other site's script or form."""
    async with serve(auth="none") as here:
        post = "POST /v1/submissions HTTP/1.1", "Content-Length: 2"
        for headers in (("Host: evil.example",), (f"Host: {here.web}", "Via: 1.1 x"), (f"Host: {here.web}", "X-Forwarded-Proto: https"),
                        (f"Host: {here.web}", "Origin: https://evil.example"), (f"Host: {here.web}", "Origin: null"),
                        (f"Host: {here.web}", "Origin: http://[")):  # fmt: skip
            assert (await raw(here, *post, JSON, *headers, body=b"{}"))[0] == 403, headers
        assert (await raw(here, *post, f"Host: {here.web}", "Content-Type: text/plain", body=b"{}"))[0] == 415
        for headers in ((f"Host: {here.web}",), (f"Host: {here.web}", f"Origin: http://{here.web}")):
            assert (await raw(here, *post, JSON, *headers, body=b"{}"))[0] == 400  # the control: a field is missing
    async with serve(auth="none", web="0.0.0.0:0") as here:
        port = here.web.rpartition(":")[2]
        assert (await here.curl(f"http://127.0.0.1:{port}/v1/problems")).status == 403


async def test_scripts_of_other_sites_may_call_where_the_operator_says_so(serve):
    """Off by default; never with cookies; and a site that is not named is refused."""
    origin, preflight = "https://board.example", ("-X", "OPTIONS", "-H", "Access-Control-Request-Method: POST")
    async with serve() as here:
        answer = await here.curl(*preflight, "-H", f"Origin: {origin}", here.url("/v1/submissions"))
        assert answer.status == 403 and not any(name.startswith("access-control") for name in answer.headers)
    async with serve(http_allow_origin=(origin,)) as here:
        answer = await here.curl(*preflight, "-H", f"Origin: {origin}", here.url("/v1/submissions"))
        assert answer.status == 204 and answer.headers["access-control-allow-origin"] == origin
        assert "access-control-allow-credentials" not in answer.headers and answer.headers["vary"] == "Origin"
        for path, status in (("/v1/caller", 200), ("/v1/nothing", 404)):
            answer = await here.curl(*here.bearer, "-H", f"Origin: {origin}", here.url(path))
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, origin)
        for foreign_origin in ("https://board.example.evil", "http://board.example", "null"):
            assert (await here.curl(*here.bearer, "-H", f"Origin: {foreign_origin}", here.url("/v1/caller"))).status == 403


async def test_an_origin_that_is_none_is_refused_at_the_start(serve):
    """And every site, where no keys keep them out."""
    for origin in ("https://a/", "null", "a.example", "https://A.example", "https://*"):
        with pytest.raises(ValueError, match="write https://HOST"):
            Settings(http_allow_origin=(origin,))
    with pytest.raises(SettingsInvalid, match="name the sites"):
        async with serve(auth="none", http_allow_origin=("*",)):
            pass
    async with serve(http_allow_origin=("*",)) as here:
        assert (await here.curl(*here.bearer, "-H", "Origin: https://any.example", here.url("/v1/caller"))).status == 200


async def test_quotas_and_the_retry_delay_come_over_http(serve):
    """The second submission is one too many: 429, with the delay as HTTP says it."""
    async with serve(hourly_limit=1, capacity=0) as here:
        request = (await requests_of(here))["Submit"]
        first, request.request_id = await here.http("Submit", request), ""
        again = await here.http("Submit", request)
        assert (first.status, again.status) in ((200, 429), (429, 429)) and int(again.headers["retry-after"]) > 0
