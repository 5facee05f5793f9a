"""The page of a profile."""

from dataclasses import replace

import pytest

from extensions.modes.tests.test_pipeline_sanitize import COUNTS
from extensions.web.pages import site_templates
from extensions.web.report import content
from grader.api import messages
from grader.api.conversion import to_message
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2, submission_pb2
from grader.views import access_counts
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
    message = to_message(report_pb2.Profile, replace(PROFILE, access_counts=COUNTS))
    assert content.profile_view(message)["counts"] == list(access_counts.tables(message.access_counts, row_limit=1))
