"""The report as one file that needs nothing else: its style is inside, nothing is loaded, and no program can run in it."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from grader.api import conversion
from grader.v1 import submission_pb2
from grader.views.sanitize import escape_unprintable
from grader_extensions.export_file import csv_text
from grader_extensions.web.report import content

# `style` is the hash of the one style sheet. frame-ancestors has no effect in a meta element.
POLICY = "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"
HERE = Path(__file__).parent
STYLE = HERE / "static" / "style.css"


def report_file(submission: submission_pb2.Submission, *, autoescape: bool = True) -> str:
    """The HTML of a submission in the full view, with its sources. autoescape False is for the test that shows what it is for."""
    style = STYLE.read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        environment(autoescape=autoescape)
        .get_template("report_file.html")
        .render(
            content.submission(submission),
            site=False,
            policy=Markup(POLICY.format(style=digest)),
            style=Markup(style),
            json_link=data_link(conversion.to_text(conversion.to_data(submission), indent=1), "application/json"),
            csv_link=data_link(to_csv(submission), "text/csv") if submission.report.measurements else "",
        )
    )


COLUMNS = ("workload", "provider", "clock", "sample", "duration_ns")


def to_csv(submission: submission_pb2.Submission) -> str:
    """A row for each sample, in nanoseconds: the certified ones, do_bench's, and those of the baselines."""
    rows = list[tuple[object, ...]]()
    for measurement in submission.report.measurements:
        providers = [("kernel", "certified", measurement.certified), ("kernel", "do_bench", measurement.reported)]
        providers += [(name, "certified", measurement.baselines[name]) for name in sorted(measurement.baselines)]
        providers += [(name, "do_bench", measurement.reported_baselines[name]) for name in sorted(measurement.reported_baselines)]
        for provider, clock, samples in providers:
            for number, duration_ns in enumerate(samples.sample_durations_ns, 1):
                rows.append((_cell(measurement.workload_id), _cell(provider), clock, number, duration_ns))
    return csv_text(COLUMNS, *rows)


def data_link(text: str, content_type: str) -> str:
    """The text as the address of a link."""
    return f"data:{content_type};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def environment(autoescape: bool = True) -> jinja2.Environment:
    """The templates of pages and of reports: every value is escaped. autoescape False is for the test that shows what it is for."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE.parent / "templates", HERE / "templates"]),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        finalize=_harmless if autoescape else None,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _harmless(value: Any) -> Any:
    """A value as a template shows it, with every character that could hide or reorder text written as its escape."""
    return escape_unprintable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
