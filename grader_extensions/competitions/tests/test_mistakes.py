"""Answers of `grader-cli` to mistakes about competitions: what to do, in one sentence."""

from datetime import timedelta

import pytest

from tests.server.competition_files import NOW, toml
from tests.server.test_mistakes import SUBMIT, check_answer, graded, grader_cli, servers  # noqa: F401  # fixtures

HOUR = timedelta(hours=1)
MISTAKES = [
    (f"{SUBMIT} --competition sprint", 2, "take one of: future, past, spring. Did you mean 'spring'?"),
    (f"{SUBMIT} --competition past", 2, "it ended at {past}; a submission without a competition is graded"),
    (f"{SUBMIT} --competition future", 2, "it begins at {future}; submit it then"),
    (f"{SUBMIT} --competition spring", 3, "is spent; try again"),
    ("leaderboard sprin", 2, "there is no competition 'sprin'; take one of: future, past, spring. Did you mean 'spring'?"),
    ("competitions check nope.toml", 1, "can't be read: No such file or directory; name a competition.toml"),
    ("competitions check broken.toml", 1, "broken.toml:"),]  # fmt: skip


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """Addresses and keys of a server with three competitions."""
    root = tmp_path_factory.mktemp("mistakes")
    times = {"past": (-3, -1), "future": (1, 3), "spring": (-1, 1)}
    for name, (start, end) in times.items():
        path = root / "competitions" / name / "competition.toml"
        path.parent.mkdir(parents=True)
        path.write_text(toml(name, start, end, "hourly_limit = 1\n"))
    shown = {"past": f"{NOW - HOUR:%Y-%m-%d %H:%M:%S} UTC", "future": f"{NOW + HOUR:%Y-%m-%d %H:%M:%S} UTC"}
    with servers(root, competitions=(root / "competitions",)) as served:
        yield {**served, **shown}


@pytest.mark.parametrize(("words", "code", "answer"), MISTAKES, ids=[words for words, _, _ in MISTAKES])
def test_a_mistake_is_answered_with_its_remedy(facts, grader_cli, graded, tmp_path, words, code, answer):  # noqa: F811  # fixtures
    """In one sentence, on the command's own terms."""
    (tmp_path / "broken.toml").write_text("[")
    if words.endswith("spring"):
        grader_cli(words)  # which uses the quota of an hour
    check_answer(facts, grader_cli, graded, words, code, answer)
