"""The API: any request, and any bytes on the port, are answered with OK or with a status that says why; and the server goes on."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_status import rpc_status
from hypothesis import example, given
from hypothesis import strategies as st

from grader.api.statuses import to_error
from grader.config import Settings
from grader.errors import NotInstalled
from grader.observability import log
from grader.server import request_limits
from grader.server.running import serving
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2
from tests import fakes
from tests.fuzz import values
from tests.requirements import has_extensions
from tests.threaded_server import in_thread

CODE = grpc.StatusCode
# What the API may answer with; of the server itself, RESOURCE_EXHAUSTED is a message over the limit.
REFUSALS = {CODE.INVALID_ARGUMENT, CODE.NOT_FOUND, CODE.ALREADY_EXISTS, CODE.FAILED_PRECONDITION}
SERVICE = api.DESCRIPTOR.services_by_name["GraderService"]
METHODS: dict[str, type[Message]] = {method.name: GetMessageClass(method.input_type) for method in SERVICE.methods}
CALL_S = 300.0  # bounds a hang only


class Served:
    """A server with a fake grade, and a channel to it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])

    def call(self, method: str, data: bytes, timeout_s: float = CALL_S) -> bytes:
        """Call with these bytes; of a stream return all of it, joined."""
        path = f"/grader.v1.GraderService/{method}"
        if method == "WatchSubmissions":
            with contextlib.suppress(DecodeError):  # one that would not end by itself
                request = api.WatchSubmissionsRequest.FromString(data)
                request.until_idle = True
                data = request.SerializeToString()
        if method in METHODS and SERVICE.methods_by_name[method].server_streaming:
            return b"".join(self.channel.unary_stream(path)(data, timeout=timeout_s))
        answer: bytes = self.channel.unary_unary(path)(data, timeout=timeout_s)
        return answer


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    log.configure("json", level=50)
    with tempfile.TemporaryDirectory(prefix="gf-") as directory:
        place = Path(directory)
        for name in ("sum", "other", "third"):
            fakes.write_problem(place / "problems", name)
        settings = Settings(listen="127.0.0.1:0", state_dir=place / "state", problems=(place / "problems",), drain_s=0, queue_limit=10**9)
        with in_thread(serving(settings, fakes.wiring())) as running:
            instance = Served(running.address)
            submit(instance)
            yield instance
            instance.channel.close()


def submit(served: Served, request_id: str = "") -> submission_pb2.Submission:
    source = submission_pb2.SourceFile(path="kernel.cu", content=fakes.SOURCE)
    request = api.SubmitRequest(submission=submission_pb2.Submission(problem="problems/sum", sources=[source]), request_id=request_id)
    return submission_pb2.Submission.FromString(served.call("Submit", request.SerializeToString()))


def answered(served: Served, method: str, data: bytes) -> grpc.StatusCode:
    """The status of a call. Where it is a refusal, it says why in a way that our client understands."""
    try:
        served.call(method, data)
    except grpc.RpcError as error:
        status: Any = rpc_status.from_call(error)
        assert error.details() and status is not None
        answer = to_error(status)
        missing = isinstance(answer, NotInstalled) and not has_extensions()
        assert error.code() in REFUSALS or missing, f"{error.code()}: {error.details()[:500]}"
        assert getattr(answer, "reason", "INTERNAL") != "INTERNAL" and str(answer)
        return error.code()
    return CODE.OK


def strings() -> st.SearchStrategy[str]:
    """Words of the API among any text."""
    names = st.sampled_from(("problems/sum", "problems/other", "problems/none", "submissions/none", "cuda", "torch_extension", "python"))
    oddities = st.sampled_from(
        ("kernel.cu", "a/b.py", "solve", "emulated", "cuda:0", "cuda:H200", fakes.SOURCE, "00000000-0000-4000-8000-000000000000")
    )
    long = st.builds(lambda text, count: text * count, st.sampled_from(("a", "é", "/", "../", "\0", "\U0010ffff")), st.integers(1, 20_000))
    return st.one_of(names, names, oddities, values.unicode_texts(), tokens(), long)


def tokens() -> st.SearchStrategy[str]:
    """Page tokens that anybody can make: the digest in them is of what they ask for."""
    digests = st.sampled_from((("problems",), ("", ()), ("sum", ())))
    plain = st.one_of(values.hostile_values(), st.sampled_from(values.NUMBERS))
    positions = st.builds(lambda position, fields: json.dumps([position, request_limits._digest(fields)]), plain, digests)
    deep = st.integers(1, 30_000).map(lambda count: "[" * count)
    return st.one_of(positions, positions, deep, values.unicode_texts()).map(lambda text: base64.urlsafe_b64encode(text.encode()).decode())


def requests(method: str) -> st.SearchStrategy[tuple[str, bytes]]:
    whole = values.proto_messages(METHODS[method], strings()).map(lambda message: message.SerializeToString())
    likely = {
        "ListSubmissions": st.builds(
            lambda token, problem: api.ListSubmissionsRequest(page_token=token, problem=problem).SerializeToString(),
            tokens(),
            st.sampled_from(("", "problems/sum")),
        ),
        "ListProblems": tokens().map(lambda token: api.ListProblemsRequest(page_token=token).SerializeToString()),
        "Submit": submissions(),
        "BatchSubmit": st.lists(submissions(), max_size=3).map(
            lambda many: api.BatchSubmitRequest(requests=[api.SubmitRequest.FromString(request) for request in many]).SerializeToString()
        ),
    }
    raw = st.binary(max_size=100)
    cut = whole.flatmap(lambda data: st.integers(0, len(data)).map(lambda end: data[:end]))
    return st.one_of(whole, likely.get(method, whole), likely.get(method, whole), cut, raw).map(lambda data: (method, data))


def submissions() -> st.SearchStrategy[bytes]:
    """Such as nearly pass the intake."""
    paths = st.one_of(
        st.sampled_from(("kernel.cu", "a.cpp", "b/c.py", "../x.cu", "a/../b.cu", "a//b.cu", "kernel.cu/x.h", "/a.cu")), strings()
    )
    contents = st.one_of(
        st.just(fakes.SOURCE), strings(), values.garbled(fakes.SOURCE, words=("/*", "*/", '"', "\\\n", "#", "##", "PYBIND11_MODULE"))
    )
    source = st.builds(lambda path, content: submission_pb2.SourceFile(path=path, content=content), paths, contents)
    messages = st.builds(
        lambda sources, problem, language, entry, kind, mode, request_id: api.SubmitRequest(
            submission=submission_pb2.Submission(
                sources=sources, problem=problem, language=language, entry=entry, device_kind=kind, mode=mode
            ),
            request_id=request_id,
        ),
        st.one_of(st.lists(source, max_size=4), st.lists(source, min_size=60, max_size=70)),
        st.one_of(st.just("problems/sum"), strings()),
        st.one_of(st.just(""), strings()),
        st.one_of(st.just(""), strings()),
        st.one_of(st.just(""), strings()),
        st.integers(-1, 6),
        st.one_of(st.just(""), strings()),
    )
    return messages.map(lambda message: message.SerializeToString())


def every_request() -> st.SearchStrategy[tuple[str, bytes]]:
    return st.sampled_from(sorted(METHODS)).flatmap(requests)


@values.examples(40)
@given(every_request())
def test_every_request_is_answered(served: Served, request: tuple[str, bytes]) -> None:
    """With OK, or with a refusal that the client can tell; never UNKNOWN, never INTERNAL."""
    answered(served, *request)


def names(name: str) -> str:
    return f"{name}/" + "x" * 20_000


KERNEL = [submission_pb2.SourceFile(path="kernel.cu", content=fakes.SOURCE)]
LONG_FIELDS: tuple[dict[str, Any], ...] = (
    {
        "parent": names("submissions"),
        "tags": ["\u202e" * 5000] * 16,
        "annotations": {f"{index}" + "\U0010fffe" * 5000: "\0" * 5000 for index in range(16)},
        "sources": KERNEL,
    },
    {"device_kind": "x" * 20_000, "sources": KERNEL},
    {
        "language": "\u202e" * 5000,
        "sources": [submission_pb2.SourceFile(path=f"{index}" + "\U0010fffe" * 40) for index in range(64)],
    },
)
LONG = (
    ("GetProblem", api.GetProblemRequest(name=names("problems"))),
    ("GetProblem", api.GetProblemRequest(name="\U0010ffff" * 20_000)),
    ("GetSubmission", api.GetSubmissionRequest(name=names("submissions"))),
    ("CancelSubmission", api.CancelSubmissionRequest(name=names("submissions"))),
    ("WatchSubmission", api.WatchSubmissionRequest(name=names("submissions"))),
    ("WatchSubmissions", api.WatchSubmissionsRequest(names=[names("submissions")] * 20)),
    ("WatchSubmissions", api.WatchSubmissionsRequest(tag="\U0010ffff" * 20_000)),
    ("Submit", api.SubmitRequest(request_id="x" * 20_000)),
    *(("Submit", api.SubmitRequest(submission=submission_pb2.Submission(problem="problems/sum", **fields))) for fields in LONG_FIELDS),
)


@pytest.mark.parametrize(("method", "request_"), LONG)
def test_a_refusal_of_something_long_arrives(served: Served, method: str, request_: Message) -> None:
    """Found: a status that quotes a long request grew over what a header holds; the caller saw RESOURCE_EXHAUSTED, and nothing of why."""
    assert answered(served, method, request_.SerializeToString()) in REFUSALS


DIGEST = request_limits._digest(("", ()))


@pytest.mark.parametrize(
    "text",
    [*(json.dumps([position, DIGEST]) for position in (2**63, -(2**63) - 1, 10**400, True)), "[" * 30_000],
    ids=["above", "below", "huge", "true", "deep"],
)
def test_a_page_token_made_by_hand_is_refused(served: Served, text: str) -> None:
    """Found: a position that the ledger's integers do not hold was INTERNAL, and so was RecursionError."""
    request = api.ListSubmissionsRequest(page_token=base64.urlsafe_b64encode(text.encode()).decode())
    assert answered(served, "ListSubmissions", request.SerializeToString()) is CODE.INVALID_ARGUMENT


def test_a_status_of_a_bug_is_not_taken_for_a_refusal(served: Served) -> None:
    """The control: `answered` does not pass what it must not, here a method that is not there."""
    with pytest.raises(AssertionError, match="UNIMPLEMENTED"):
        answered(served, "Nothing", b"")


# -- bytes on the port ---------------------------------------------------------------------------------------------------

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = struct.pack(">I", 0)[1:] + b"\x04\x00" + bytes(4)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A frame of HTTP/2, whose length may be a lie."""
    body = draw(
        st.one_of(st.binary(max_size=60), st.sampled_from((b"\x82\x86\x84\x41\x8a\xa0\xe4\x1d\x13\x9d\x09\xb8\xf0\x1e\x07", b"\xff" * 50)))
    )
    length = draw(st.one_of(st.just(len(body)), st.integers(0, 2**24 - 1)))
    kind, flags, stream = draw(st.integers(0, 12)), draw(st.integers(0, 255)), draw(st.sampled_from((0, 1, 2, 3, 2**31 - 1, 2**32 - 1)))
    return struct.pack(">I", length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def streams() -> st.SearchStrategy[list[bytes]]:
    http2 = st.lists(frames(), max_size=8).map(lambda many: [PREFACE + SETTINGS, *many])
    http1 = st.sampled_from(
        ([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], [b"POST " + b"a" * 70_000], [PREFACE[:10]], [b"\x16\x03\x01" + bytes(300)])
    )
    return st.one_of(http2, http2, http1, st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4))


@values.examples(20)
@given(streams(), st.booleans())
@example([PREFACE + SETTINGS + b"\xff\xff\xff\x01\x04\x00\x00\x00\x01"], True)
def test_a_server_that_was_sent_any_bytes_answers_the_next(served: Served, sent: list[bytes], waits: bool) -> None:
    """The next request, on another connection, is answered."""
    host, port = served.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=CALL_S) as connection, contextlib.suppress(OSError):
        for piece in sent:
            connection.sendall(piece)
        if waits:
            connection.settimeout(0.02)
            connection.recv(4096)
    assert api.ListProblemsResponse.FromString(served.call("ListProblems", b"")).problems
