"""Streams over HTTP: what comes, how it goes on after a break, how it ends; and the bytes of files."""

import asyncio
import base64
import contextlib
import hashlib
import socket

import aiohttp
import pytest

from grader.server.submission_watch import WATCH_LIMIT
from grader.v1 import grader_service_pb2 as api
from grader_extensions.http import gateway
from grader_extensions.http.tests.served import TRACE, events, requests_of
from tests.waiting import until


async def test_a_stream_goes_on_after_the_last_event(serve):
    """By the header that browsers send; without it, all of it; a strange one is refused."""
    async with serve() as here:
        url = here.url(f"/v1/{here.name}:watch")
        whole = (await here.curl(*here.bearer, url)).data
        ids = [event["id"] for event in whole if "id" in event]
        assert ids == [str(number) for number in range(1, len(ids) + 1)] and whole[-1] == {"event": "end", "data": {}}
        assert (await here.curl(*here.bearer, "-H", f"Last-Event-ID: {ids[0]}", url)).data == whole[1:]
        assert (await here.curl(*here.bearer, "-H", f"Last-Event-ID: {ids[-1]}", f"{url}?after_sequence=1")).data == whole[-1:]
        many = here.url(f"/v1/submissions:watch?names={here.name}&until_idle=true")
        (update, end) = (await here.curl(*here.bearer, many)).data
        assert update["id"] == f"{here.name}@{update['data']['revision']}"
        assert (await here.curl(*here.bearer, "-H", f"Last-Event-ID: {update['id']}", many)).data == [end]
        for last, at in (("x", url), ("-1", url), ("9" * 40, url), (update["id"], url), ("1", many), ("1", here.url("/v1/caller"))):
            assert (await here.curl(*here.bearer, "-H", f"Last-Event-ID: {last}", at)).status == 400, (last, at)


async def test_a_watch_of_many_takes_what_was_seen_in_a_body(serve):
    """As POST: a map is no query."""
    async with serve() as here:
        rule = next(rule for rule in gateway.rules_of(gateway.SERVICE) if rule.method.name == "WatchSubmissions" and rule.has_body)
        request = api.WatchSubmissionsRequest(names=[here.name], until_idle=True)
        (update, end) = (await here.http("WatchSubmissions", request, rule=rule)).data
        request.seen_revisions[here.name] = int(update["data"]["revision"])
        assert (await here.http("WatchSubmissions", request, rule=rule)).data == [end]


async def test_a_quiet_stream_begins_at_once_and_is_kept_open(serve, monkeypatch):
    """Comments come where nothing else does; who leaves is noticed, and its place is free; when the server goes, the stream says so."""
    monkeypatch.setattr(gateway, "FIRST_S", 0.01)
    monkeypatch.setattr(gateway, "HEARTBEAT_S", 0.01)
    async with aiohttp.ClientSession(headers={"Authorization": "x"}) as session:
        async with serve(capacity=0) as here:
            submission = (await here.http("Submit", (await requests_of(here))["Submit"])).data
            headers = {"Authorization": f"Bearer {here.key}", "Last-Event-ID": "1"}
            url = here.url(f"/v1/{submission['name']}:watch")
            for _ in range(WATCH_LIMIT):
                async with session.get(url, headers=headers) as answer:
                    assert answer.status == 200 and await answer.content.readuntil(b"\n\n") == b": still here\n\n"
            answer = await session.get(url, headers=headers)
            await answer.content.readuntil(b"\n\n")
        text = (await answer.content.read()).decode()
        assert events(text)[-1]["event"] == "end" and events(text)[-1]["data"]["details"][0]["reason"] == "SHUTTING_DOWN"


@pytest.mark.slow
async def test_a_thousand_streams_are_told_of_an_end(serve):
    """Over a connection each, with the limits that docs/operation.md names."""
    async with serve(capacity=0, web_connection_limit=1600, web_address_limit=1600) as here:
        name = (await here.http("Submit", (await requests_of(here))["Submit"])).data["name"]
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, headers=here.headers) as session, asyncio.TaskGroup() as group:
            streams = await asyncio.gather(*(session.get(here.url(f"/v1/{name}:watch")) for _ in range(1000)))
            assert {stream.status for stream in streams} == {200}
            texts = [group.create_task(stream.text()) for stream in streams]
            await here.http("CancelSubmission", api.CancelSubmissionRequest(name=name))
        assert {text.result().count("SUBMISSION_STATE_CANCELLED") for text in texts} == {1}
        assert all(events(text.result())[-1] == {"event": "end", "data": {}} for text in texts)


async def test_streams_leave_connections_for_others(serve, monkeypatch):
    """Three of four of an address may be streams; the next one is refused, and a call is answered."""
    monkeypatch.setattr(gateway, "FIRST_S", 0.01)
    async with serve(capacity=0, web_address_limit=4) as here, aiohttp.ClientSession() as session:
        submission = (await here.http("Submit", (await requests_of(here))["Submit"])).data
        url, headers = here.url(f"/v1/{submission['name']}:watch"), {"Authorization": f"Bearer {here.key}"}
        streams = [await session.get(url, headers=headers) for _ in range(3)]
        refused = await here.curl(*here.bearer, url)
        assert [stream.status for stream in streams] == [200] * 3 and refused.status == 429
        for stream in streams:
            stream.close()

        async def watched():
            monkeypatch.setattr(gateway, "HEARTBEAT_S", 0.01)
            return (await here.curl(*here.bearer, "--max-time", "5", here.url(f"/v1/{here.name}:watch"))).status == 200

        await until(watched)


async def test_a_file_comes_as_its_bytes(serve):
    """With its length and digest, to be saved and never shown."""
    async with serve() as here:
        answer = await here.curl(*here.bearer, here.url(f"/v1/{here.name}/artifacts/trace%20(1).json:download"))
        assert answer.data == TRACE and answer.headers["content-length"] == str(len(TRACE))
        digest = base64.b64encode(hashlib.sha256(TRACE).digest()).decode()
        assert answer.headers["repr-digest"] == f"sha-256=:{digest}:"
        assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''trace%20%281%29.json"
        assert answer.headers["content-type"] == "application/octet-stream" and answer.headers["content-security-policy"].startswith(
            "sandbox"
        )
        missing = await here.curl(*here.bearer, here.url(f"/v1/{here.name}/artifacts/none:download"))
        assert (missing.status, missing.data["details"][0]["reason"]) == (404, "ARTIFACT_NOT_FOUND")


async def test_a_reader_that_takes_nothing_is_cut_off(serve, monkeypatch):
    """And gets nothing else in the middle of the file: what came is its beginning. The control reads all."""
    content = bytes(range(256)) * 60_000
    async with serve(file_bytes=content) as here:
        monkeypatch.setattr(gateway, "SEND_S", 0.3)
        path = f"/v1/{here.name}/artifacts/trace%20(1).json:download"
        assert (await here.curl(*here.bearer, here.url(path))).data == content
        host, port = here.web.rsplit(":", 1)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((host, int(port)))
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {here.web}\r\n{here.bearer[1]}\r\n\r\n".encode())
            await asyncio.sleep(1.5)
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := await asyncio.to_thread(connection.recv, 1 << 20):
                    received += piece
        body = received.partition(b"\r\n\r\n")[2]
        assert len(body) < len(content) and content.startswith(body)
