"""The page of a profile."""

from dataclasses import replace

import pytest
from markupsafe import escape

from grader.api import messages
from grader.api.conversion import to_message
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2, submission_pb2
from grader.views import access_counts
from grader_extensions.modes.tests.test_pipeline_sanitize import COUNTS
from grader_extensions.web.pages import site_templates
from grader_extensions.web.report import content
from grader_extensions.web.report.report_file import report_file
from tests import fakes
from tests.unit.test_profile_views import EVIL, PROFILE


@pytest.mark.parametrize("escaped", [True, False])
def test_the_page_escapes_every_text_of_a_profile(escaped) -> None:
    """The control is the same page without escaping."""
    report = replace(fakes.report(), profile=PROFILE)
    message = submission_pb2.Submission(
        name="submissions/s1", problem="problems/sum", mode="MODE_PROFILE", report=messages.report_to_proto(report, Redactor({}))
    )
    files = [{"name": EVIL, "tool": EVIL, "size": "1 B", "available": True}]
    of_site = {"site": True, "artifacts": files, "problem_known": True, "running": False, "live": None, "scripted": False}
    of_site |= {"notice": "", "reader": {"user": "", "can_sign_in": False, "has_submissions": False, "can_submit": False}}
    context = {**content.submission(message), **of_site}
    text = site_templates(escaped).get_template("submission.html").render(context)
    assert ("<script>" in text) is not escaped and ("\x1b[2J" in text) is not escaped
    assert "31 x 1 x 1" in text and "not available" in text


def test_counts_of_accesses_are_the_terminals_tables() -> None:
    """The page shows what the command line does."""
    profile = to_message(report_pb2.Profile, replace(PROFILE, access_counts=COUNTS))
    text = report_file(submission_pb2.Submission(report=report_pb2.Report(profile=profile)))
    counts = access_counts.table(profile.access_counts, row_limit=1)
    assert counts is not None and escape(counts.title) in text and escape(access_counts.NOTE) in text
