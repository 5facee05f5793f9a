"""The report as one file that needs nothing else: its style is inside, nothing is loaded, and no program can run in it."""

from __future__ import annotations

import base64
import hashlib

from markupsafe import Markup

from grader.html_report import content, raw_data
from grader.html_report.templating import STYLE, environment
from grader.v1 import submission_pb2

# `style` is the hash of the one style sheet. frame-ancestors has no effect in a meta element.
POLICY = "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"


def report_file(found: submission_pb2.Submission, *, autoescape: bool = True) -> str:
    """The HTML of a submission in the full view, with its sources. autoescape False is for the test that shows what it is for."""
    style = STYLE.read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        environment(autoescape=autoescape)
        .get_template("report_file.html")
        .render(
            content.submission(found),
            site=False,
            policy=Markup(POLICY.format(style=digest)),
            style=Markup(style),
            json_link=raw_data.data_link(raw_data.to_json(found), "application/json"),
            csv_link=raw_data.data_link(raw_data.to_csv(found), "text/csv") if found.report.measurements else "",
        )
    )
