"""Posts each finished submission with a tag to a URL.  Usage: python forward.py TAG URL SEEN_FILE

Needs what submit.py needs, and takes the server and the key from the same variables. The body is the submission as JSON, with its report.
SEEN_FILE has what the URL accepted, so that a restart goes on there. A submission may come twice: the receiver compares its name.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path

import grpc
from google.protobuf.json_format import MessageToJson
from submit import connect, metadata

from grader.v1 import grader_service_pb2 as api
from grader.v1 import grader_service_pb2_grpc, submission_pb2

PAUSE_S = 1.0
FINAL = (submission_pb2.SUBMISSION_STATE_SUCCEEDED, submission_pb2.SUBMISSION_STATE_FAILED, submission_pb2.SUBMISSION_STATE_CANCELLED)
SEEN_LIMIT = 1000  # of the newest submissions, as many as the server tells of


def post(url: str, submission: submission_pb2.Submission) -> None:
    """Send it until the URL accepts it; only then the next one follows."""
    body = MessageToJson(submission, preserving_proto_field_name=True, indent=None).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    while True:
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return
        except OSError as error:  # refused, no answer, or an answer such as 503
            print(f"{submission.name}: {error}", file=sys.stderr)
            time.sleep(PAUSE_S)


def main(tag: str, url: str, seen_file: Path) -> None:
    """Follow the stream; take it up again after the last that the URL accepted where it breaks."""
    revisions: dict[str, int] = json.loads(seen_file.read_text()) if seen_file.exists() else {}
    partial = seen_file.with_suffix(".partial")  # renamed when it is whole: this program may be stopped while it writes
    with connect() as channel:
        stub = grader_service_pb2_grpc.GraderServiceStub(channel)
        while True:
            try:
                for update in stub.WatchSubmissions(api.WatchSubmissionsRequest(tag=tag, seen_revisions=revisions), metadata=metadata()):
                    if update.submission.state in FINAL:
                        post(url, update.submission)
                        revisions[update.submission.name] = update.revision
                        revisions = dict(list(revisions.items())[-SEEN_LIMIT:])
                        partial.write_text(json.dumps(revisions))
                        partial.replace(seen_file)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
