"""Hands a kernel in, follows it to its end, and prints the verdict.  Usage: python submit.py PROBLEM FILE

Needs grpcio, grpcio-status and what protoc makes of proto/ (here `grader.v1`), and nothing else of the grader.
GRADER_SERVER: HOST:PORT or unix:/PATH of a server on this host (127.0.0.1:50551), or https://HOST:PORT. GRADER_KEY: the API key.
GRADER_CA: a file of authorities to trust in place of the system's.
Exit code: 0 ACCEPTED, 1 another verdict, 2 the call was refused, 3 the grader failed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from grader.v1 import grader_service_pb2 as api
from grader.v1 import grader_service_pb2_grpc, report_pb2, submission_pb2

DEADLINE_S = 10.0
TRIES = 5
OURS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL)


def connect() -> grpc.Channel:
    """A channel to the server: over TLS where the address says https."""
    server = os.environ.get("GRADER_SERVER", "127.0.0.1:50551")
    if not server.startswith("https://"):
        return grpc.insecure_channel(server)
    authorities = Path(path).read_bytes() if (path := os.environ.get("GRADER_CA")) else None
    return grpc.secure_channel(server.removeprefix("https://"), grpc.ssl_channel_credentials(authorities))


def metadata() -> list[tuple[str, str]]:
    """Metadata of every call."""
    return [("authorization", f"Bearer {key}")] if (key := os.environ.get("GRADER_KEY")) else []


def patiently(call: Callable[[], Any]) -> Any:
    """Retry what may be retried: UNAVAILABLE, after as long as the server asks for."""
    for tries_left in range(TRIES - 1, -1, -1):
        try:
            return call()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or not tries_left:
                raise
            retry = detail(error, error_details_pb2.RetryInfo)
            time.sleep(retry.retry_delay.ToMilliseconds() / 1000 if retry else 0.5)


def watch(stub: Any, name: str) -> Iterator[submission_pb2.SubmissionEvent]:
    """Events to the final one; a stream that breaks is taken up again after the last event seen."""
    after, broken = 0, 0
    while True:
        try:
            for event in stub.WatchSubmission(api.WatchSubmissionRequest(name=name, after_sequence=after), metadata=metadata()):
                after, broken = event.sequence, 0
                yield event
            return
        except grpc.RpcError as error:
            broken += 1
            if error.code() is not grpc.StatusCode.UNAVAILABLE or broken >= TRIES:
                raise
            time.sleep(0.5)


def detail(error: grpc.RpcError, kind: Any) -> Any:
    """The detail of this kind that came with an error, or None."""
    status = rpc_status.from_call(error)
    for packed in status.details if status else ():
        message = kind()
        if packed.Is(message.DESCRIPTOR) and packed.Unpack(message):
            return message
    return None


def explain(error: grpc.RpcError) -> int:
    """Say what is wrong, and return the exit code."""
    info = detail(error, error_details_pb2.ErrorInfo)
    print(f"{error.code().name}{f' ({info.reason})' if info else ''}: {error.details()}", file=sys.stderr)
    bad = detail(error, error_details_pb2.BadRequest)
    for violation in bad.field_violations if bad else ():
        print(f"  {violation.field}: {violation.description}", file=sys.stderr)
    return 3 if error.code() in OURS else 2


def submit(stub: Any, problem: str, file: Path) -> int:
    """From a file to an exit code."""
    source = submission_pb2.SourceFile(path=file.name, content=file.read_text("utf-8"))
    submission = submission_pb2.Submission(problem=f"problems/{problem}", sources=[source])
    request = api.SubmitRequest(submission=submission, request_id=str(uuid.uuid4()))  # the same id at each try: it is taken once
    last = patiently(lambda: stub.Submit(request, timeout=DEADLINE_S, metadata=metadata()))
    print(last.name)
    for event in watch(stub, last.name):
        if event.HasField("progress"):
            stage = submission_pb2.Stage.Name(event.progress.stage).removeprefix("STAGE_").lower()
            print(f"  {stage} {event.progress.workload_id}")
        if event.HasField("submission"):
            last = event.submission
    if last.state != submission_pb2.SUBMISSION_STATE_SUCCEEDED:
        print(f"{submission_pb2.SubmissionState.Name(last.state)}: {last.error.message}", file=sys.stderr)
        return 3
    report = last.report
    print(f"{report_pb2.Verdict.Name(report.verdict).removeprefix('VERDICT_')} {report.reason}".rstrip())
    print(json.dumps(report.summary))  # untrusted text: JSON escapes what a terminal would obey
    for speedup in report.speedups:
        print(f"  {speedup.ratio:.2f}x over {speedup.baseline}")
    return 0 if report.verdict == report_pb2.VERDICT_ACCEPTED else 1


def main(arguments: list[str]) -> int:
    """Read the command line and submit."""
    if len(arguments) != 2:
        print("usage: python submit.py PROBLEM FILE", file=sys.stderr)
        return 2
    with connect() as channel:
        try:
            return submit(grader_service_pb2_grpc.GraderServiceStub(channel), arguments[0], Path(arguments[1]))
        except grpc.RpcError as error:
            return explain(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
