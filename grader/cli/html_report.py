"""`grader-cli show --html`: a submission's report as one HTML file."""

from __future__ import annotations

import asyncio

from google.protobuf import json_format

from grader import extensions
from grader.cli.exits import Exit, GraderFailed, UsageError
from grader.cli.output import print_note
from grader.cli.saved_files import STDOUT, write_text
from grader.cli.session import ServerRequirement, Target, connect
from grader.cli.submissions import whole_name
from grader.v1 import submission_pb2
from grader.views import formatting
from grader.views.sanitize import one_line

FINAL = (submission_pb2.SUBMISSION_STATE_SUCCEEDED, submission_pb2.SUBMISSION_STATE_FAILED, submission_pb2.SUBMISSION_STATE_CANCELLED)


async def report(target: Target, name: str, path: str) -> Exit:
    """Write the report of a submission that is over."""
    report_file = extensions.report_files().get("html")
    if report_file is None:
        raise UsageError(f"no installed package writes HTML reports; {extensions.HOW_TO_INSTALL}")
    async with connect(target, ServerRequirement.READ) as client:
        submission = await client.get_submission(await whole_name(client, name), full=True)
        if submission.state not in FINAL:
            state = formatting.state_name(submission)
            raise UsageError(f"{submission.name} is {state}: it has no report yet; 'grader-cli watch {one_line(name)}' waits for its end")
    try:
        text = await asyncio.to_thread(report_file, submission)
    except (TypeError, json_format.SerializeToJsonError) as error:
        raise GraderFailed(f"the server sent what can't be written as JSON: {error}; use a grader-cli of its version") from None
    write_text(path, text)
    if path != STDOUT:
        print_note(f"wrote {path}: {len(text.encode()) / 1e3:.0f} kB, for any browser; it loads nothing and runs nothing")
    return Exit.DONE
