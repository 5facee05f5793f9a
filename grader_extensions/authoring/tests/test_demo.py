"""`grader-cli demo`, as a person runs it."""

import re

import pytest

from tests.e2e.conftest import cli, environment  # noqa: F401  # fixtures


@pytest.mark.slow
def test_the_demo_gets_every_verdict_right(cli):  # noqa: F811
    """The six kernels of the story, one of which deceives a check in its own process. The isolation is known before the first verdict."""
    ended = cli("demo", "--sandbox", "process")
    assert ended.code == 0, ended.stdout + ended.stderr
    assert "all 6 verdicts are as expected" in ended.stdout
    assert ended.stdout.index("process: UNSAFE") < ended.stdout.index("WRONG_ANSWER")
    assert re.search(r"^stale_memory: WRONG_ANSWER, UNWRITTEN_OUTPUT: It never wrote", ended.stdout, re.MULTILINE)
    assert "4 wrong kernels were caught; a check inside the kernel's process would have accepted 1 of them (stale_memory)" in ended.stdout
    assert len(ended.stdout.splitlines()) < 20
