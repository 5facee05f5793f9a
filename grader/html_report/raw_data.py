"""A submission's data for programs: all of it as JSON, its samples as CSV, and both as links within a page."""

from __future__ import annotations

import base64
import csv
import io

from grader.api import stable_json
from grader.v1 import submission_pb2

COLUMNS = ("workload", "provider", "clock", "sample", "duration_ns")


def to_json(found: submission_pb2.Submission) -> str:
    """Protobuf JSON with proto field names. TypeError or SerializeToJsonError where it holds what is not known here."""
    return stable_json.to_text(stable_json.to_data(found), indent=1)


def to_csv(found: submission_pb2.Submission) -> str:
    """A row for each sample, in nanoseconds: the certified ones, do_bench's, and those of the baselines."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for one in found.report.measurements:
        providers = [("kernel", "certified", one.certified), ("kernel", "do_bench", one.reported), ("kernel", "batch", one.batch)]
        providers += [(name, "certified", one.baselines[name]) for name in sorted(one.baselines)]
        providers += [(name, "do_bench", one.reported_baselines[name]) for name in sorted(one.reported_baselines)]
        for provider, clock, samples in providers:
            for number, duration_ns in enumerate(samples.sample_durations_ns, 1):
                table.writerow([_cell(one.workload_id), _cell(provider), clock, number, duration_ns])
    return text.getvalue()


def data_link(text: str, content_type: str) -> str:
    """The text as the address of a link."""
    return f"data:{content_type};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
