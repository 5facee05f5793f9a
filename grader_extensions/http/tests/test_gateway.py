"""The same answers over HTTP as over gRPC."""

import uuid
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiohttp import web
from jsonschema import Draft202012Validator

from grader.api.conversion import to_data
from grader.v1 import grader_service_pb2 as api
from grader.v1 import rejudge_pb2
from grader_extensions.http.gateway import _HTTP_STATUS
from grader_extensions.http.tests.served import METHODS, RULES, TRACE, http_request, requests_of
from grader_extensions.web.tests.browser import chromium, reader
from tests.server.web_apps import served_app
from tests.waiting import until

EVENT_SOURCE = """(url) => new Promise((resolve, reject) => {
  const source = new EventSource(url), data = [];
  source.onmessage = (event) => data.push(JSON.parse(event.data));
  source.onerror = () => { source.close(); reject("the stream broke"); };
  source.addEventListener("end", (event) => { source.close(); resolve([...data, JSON.parse(event.data)]); });
})"""


async def ready_rejudge(here):
    """A rejudge that was decided; its name."""
    create = api.CreateRejudgeRequest(rejudge={"cause": "c", "submissions": [here.name]}, request_id=str(uuid.uuid4()))
    name = (await here.grpc("CreateRejudge", create)).name

    async def is_ready():
        return (await here.grpc("GetRejudge", api.GetRejudgeRequest(name=name))).state == rejudge_pb2.REJUDGE_STATE_READY

    await until(is_ready)
    return name


async def blank(_):
    """A page of another site."""
    return web.Response(text="<!doctype html>", content_type="text/html")


@asynccontextmanager
async def page_of_another_site(serve, **options):
    """A server that lets the scripts of a site call it, and a tab with a page of that site."""
    async with served_app(web.get("/", blank)) as port, chromium() as browser, reader(browser) as tab:
        site = f"http://localhost:{port}"
        async with serve(capacity=0, http_allow_origin=(site,), **options) as here:
            await tab.goto(site)
            yield here, tab


@asynccontextmanager
async def calls_by(client, serve):
    """A server, and a function that calls its methods over HTTP: by curl, or by a script of a page of another site."""
    if client == "curl":
        async with serve(capacity=0) as here:
            yield here, here.http
    else:
        async with page_of_another_site(serve) as (here, tab):
            yield here, partial(here.fetch, tab)


@pytest.mark.parametrize("client", ["curl", pytest.param("browser", marks=pytest.mark.slow)])
async def test_every_method_has_the_same_answer_as_over_grpc(serve, client):
    """Field by field: messages, the events of streams, files, and refusals with their details; and as the OpenAPI document says."""
    async with calls_by(client, serve) as (here, call):
        openapi = (await here.curl(*here.bearer, here.url("/v1/openapi.json"))).data
        succeeded = set()
        for name, request in (await requests_of(here, [await ready_rejudge(here) for _ in range(2)])).items():
            wanted, answer = await here.grpc(name, request), await call(name, request)
            if name == "DownloadArtifact":
                assert answer.data == TRACE == b"".join(piece.data for piece in wanted)
            elif METHODS[name].server_streaming:
                assert [event["data"] for event in answer.data] == [*map(to_data, wanted), {}], name
            else:
                assert answer.data == to_data(wanted), name
            if answer.status == 200:
                succeeded.add(name)
            else:
                assert answer.status == _HTTP_STATUS[wanted.code], name
            if answer.status == 200 and not METHODS[name].server_streaming:
                schema = {"$ref": f"#/components/schemas/{METHODS[name].output_type.name}", "components": openapi["components"]}
                Draft202012Validator(schema).validate(answer.data)
        assert METHODS.keys() - succeeded == {"CancelSubmission"}  # of a finished one


@pytest.mark.slow
async def test_an_event_source_of_a_page_reads_streams(serve):
    """Where no key is required, for it sends none: the messages of gRPC, and the end."""
    async with page_of_another_site(serve, auth="none") as (here, tab):
        requests = await requests_of(here)
        for name in ("WatchSubmission", "WatchSubmissions"):
            verb, url, _ = http_request(RULES[name], requests[name], here.web)
            wanted = [*map(to_data, await here.grpc(name, requests[name])), {}]
            assert verb == "GET" and await tab.evaluate(EVENT_SOURCE, url) == wanted


async def test_what_waits_is_cancelled(serve):
    """As over gRPC, but for the names and times of two submissions."""
    async with serve(capacity=0) as here:
        submit, answers = (await requests_of(here))["Submit"], []
        for call in (here.grpc, here.http):
            submit.request_id = str(uuid.uuid4())
            name = (await here.grpc("Submit", submit)).name
            answers.append(await call("CancelSubmission", api.CancelSubmissionRequest(name=name)))
        wanted, answer = to_data(answers[0]), answers[1].data
        assert answer["state"] == "SUBMISSION_STATE_CANCELLED" and answer.keys() == wanted.keys()
        assert {field for field in wanted if answer[field] != wanted[field]} == {"name", "create_time", "end_time"}
