"""Torch extensions as people write them: light headers build them, and no bit of what they do differs from torch's own headers."""

import pytest

from tests.extensions import corpus
from tests.extensions.conftest import Corpus
from tests.sampling import every

NAMES = corpus.names()
LIGHT = [name for name in NAMES if corpus.load(name).headers == "light"]
FULL = [name for name in NAMES if corpus.load(name).headers == "full"]
# The first of these waits for all the builds.
built = [pytest.mark.slow, pytest.mark.timeout(1500)]


def test_the_corpus_is_large_enough() -> None:
    """What the other tests claim, they claim of so many sources."""
    assert len(LIGHT) >= 48
    assert len(FULL) >= 5


@pytest.mark.parametrize("text", ["", "// extension: headers=some\n// call: forward()", "// extension: headers=light\n#include <vector>"])
def test_a_source_must_say_what_it_expects(text: str) -> None:
    """A source that names no call would be compared with nothing."""
    with pytest.raises(corpus.BadLine):
        corpus.expectations(text or "\n")


@pytest.mark.parametrize("call", ["forward", "forward(x)", "forward(float31[2])", "forward(float32[-])", "forward(2 + 3)", "m.forward(1)"])
def test_a_call_is_literals_and_tensors(call: str) -> None:
    """Anything else is a slip of the pen."""
    with pytest.raises(corpus.BadLine):
        corpus.expectations(f"// extension: headers=light\n// call: {call}\n")


@pytest.mark.parametrize("name", every(24, zip(NAMES, NAMES, strict=True), built))
def test_the_builder_says_which_headers_it_took(name: str, built_corpus: Corpus) -> None:
    """Light ones wherever they carry the source; else torch's own, and why."""
    result = built_corpus.built[name]
    assert result.artifact is not None, result.log
    assert result.note is not None
    assert (result.note.headers, bool(result.note.fallback)) == (corpus.load(name).headers, name in FULL), result.note.fallback


@pytest.mark.parametrize("name", every(24, zip(NAMES, NAMES, strict=True), built))
def test_every_call_ends_as_the_source_says(name: str, built_corpus: Corpus) -> None:
    """A corpus that raises by mistake would agree about the mistake."""
    found = built_corpus.outcomes[name]
    assert "outcomes" in found, found
    for call in corpus.load(name).calls:
        outcome = found["outcomes"][call.text]
        assert ("raised" in outcome) == call.raises, (call.text, outcome.get("message"))


@pytest.mark.parametrize("name", every(24, zip(LIGHT, LIGHT, strict=True), built))
def test_no_bit_differs_from_torchs_own_headers(name: str, built_corpus: Corpus) -> None:
    """Results, dtypes, strides, exceptions with their words, and what became of the arguments."""
    ours, full = built_corpus.outcomes[name], built_corpus.full[name]
    assert "outcomes" in full, full
    assert ours == full


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(1500)
def test_light_headers_carry_most(built_corpus: Corpus) -> None:
    """The claim in numbers: so many agree to the last bit, and so many fall back and work."""
    assert sum(map(built_corpus.agree, LIGHT)) >= 48
    assert sum("outcomes" in built_corpus.outcomes.get(name, {}) for name in FULL) >= 5
