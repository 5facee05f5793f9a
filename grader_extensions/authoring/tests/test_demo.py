"""`grader-cli demo`, as a person runs it."""

import re

import pytest

from tests.e2e.conftest import cli, environment  # noqa: F401  # fixtures


@pytest.mark.slow
def test_the_demo_gets_every_verdict_right(cli):  # noqa: F811
    """The six kernels of the story."""
    ended = cli("demo", "--sandbox", "process")
    assert ended.code == 0, ended.stdout + ended.stderr
    assert "all 6 verdicts are as expected" in ended.stdout
    assert "process: UNSAFE" in ended.stdout
    assert re.search(r"stale_memory\s+WRONG_ANSWER\s+UNWRITTEN_OUTPUT", ended.stdout)
