"""The same answers over HTTP as over gRPC, to the same callers, and what is refused at the door."""

from jsonschema import Draft202012Validator

from grader.api.conversion import to_data
from grader_extensions.http.gateway import _HTTP_STATUS
from grader_extensions.http.tests.served import METHODS, TRACE, requests_of


def plain(message):
    """A message as JSON. Times at which a call is answered differ."""
    return to_data(message)


async def test_every_method_has_the_same_answer_as_over_grpc(serve):
    """Field by field: messages, the events of streams, files, and refusals with their details; and as the OpenAPI document says."""
    async with serve(capacity=0) as here:
        openapi = (await here.curl(*here.bearer, here.url("/v1/openapi.json"))).data
        succeeded = set()
        for name, request in (await requests_of(here)).items():
            wanted, answer = await here.grpc(name, request), await here.http(name, request)
            if name == "DownloadArtifact":
                assert answer.data == TRACE == b"".join(piece.data for piece in wanted)
            elif METHODS[name].server_streaming:
                assert [event["data"] for event in answer.data] == [*map(plain, wanted), {}], name
            else:
                assert answer.data == plain(wanted), name
            if answer.status == 200:
                succeeded.add(name)
            else:
                assert answer.status == _HTTP_STATUS[wanted.code], name
            if answer.status == 200 and not METHODS[name].server_streaming:
                schema = {"$ref": f"#/components/schemas/{METHODS[name].output_type.name}", "components": openapi["components"]}
                Draft202012Validator(schema).validate(answer.data)
        assert METHODS.keys() - succeeded == {"CancelSubmission", "GetRejudge", "ApplyRejudge", "DiscardRejudge"}
