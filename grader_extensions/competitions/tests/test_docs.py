"""The page on `competition.toml` says what the code takes, and its example loads."""

import pytest

from grader.problems.store import Problems
from grader_extensions.competitions import competition_file
from grader_extensions.competitions.store import Competitions
from tests.unit import test_docs_fields as pages

PAGE = "competitions.md"
MODELS = [
    (PAGE, "competition", competition_file.CompetitionFile),
    (PAGE, "secret", competition_file.Secret),
    (PAGE, "range", competition_file.SizeRange),
]


@pytest.mark.parametrize(("name", "of", "model"), MODELS)
def test_every_field_has_a_row_with_its_default(name, of, model):
    """And no row is of anything else."""
    pages.check_rows(name, of, model)
    pages.check_defaults(name, of, model)


def test_no_model_and_no_word_is_left_out():
    """A model that is added to the code has to be added here, and a word that a key may be to its page."""
    assert pages.models_of(competition_file) <= {model for _, _, model in MODELS}
    pages.check_words(MODELS)


def test_the_competition_of_the_page_loads(tmp_path):
    """As it is printed, over the problems of kernels_examples."""
    (tmp_path / "competition.toml").write_text(pages.block(PAGE, "toml"))
    (loaded,) = Competitions.load([tmp_path], Problems.load([pages.ROOT / "kernels_examples"])).all()
    assert {key: len(secret) for key, secret in loaded.secret_workloads.items()} == {"vector_add": 1, "row_softmax": 2}
