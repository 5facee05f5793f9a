"""The same answers over HTTP as over gRPC."""

import uuid

from jsonschema import Draft202012Validator

from grader.api.conversion import to_data
from grader.v1 import grader_service_pb2 as api
from grader.v1 import rejudge_pb2
from grader_extensions.http.gateway import _HTTP_STATUS
from grader_extensions.http.tests.served import METHODS, TRACE, requests_of
from tests.waiting import until


async def ready_rejudge(here):
    """A rejudge that was decided; its name."""
    create = api.CreateRejudgeRequest(rejudge={"cause": "c", "submissions": [here.name]}, request_id=str(uuid.uuid4()))
    name = (await here.grpc("CreateRejudge", create)).name

    async def is_ready():
        return (await here.grpc("GetRejudge", api.GetRejudgeRequest(name=name))).state == rejudge_pb2.REJUDGE_STATE_READY

    await until(is_ready)
    return name


async def test_every_method_has_the_same_answer_as_over_grpc(serve):
    """Field by field: messages, the events of streams, files, and refusals with their details; and as the OpenAPI document says."""
    async with serve(capacity=0) as here:
        openapi = (await here.curl(*here.bearer, here.url("/v1/openapi.json"))).data
        succeeded = set()
        for name, request in (await requests_of(here, [await ready_rejudge(here) for _ in range(2)])).items():
            wanted, answer = await here.grpc(name, request), await here.http(name, request)
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
