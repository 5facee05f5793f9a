"""Workers, too, are killed while users submit: nothing is lost, nothing is judged twice."""

import pytest

from tests.server.test_chaos import assert_nothing_is_lost


@pytest.mark.slow
def test_every_acknowledged_submission_has_one_verdict(capsys):
    """Of a server to which two workers come."""
    assert_nothing_is_lost(["--workers", "2"], capsys)
