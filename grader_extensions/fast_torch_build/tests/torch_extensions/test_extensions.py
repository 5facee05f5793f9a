"""Torch extensions as people write them: light headers build them, and no bit of what they do differs from torch's own headers."""

from pathlib import Path

import pytest

from grader_extensions.fast_torch_build.tests.torch_extensions import corpus
from grader_extensions.fast_torch_build.tests.torch_extensions.results import results_of

NAMES = corpus.names()
LIGHT = [name for name in NAMES if corpus.load(name).headers == "light"]
FULL = [name for name in NAMES if corpus.load(name).headers == "full"]
# Of one part, torch's own headers are read once.
LETTERS = "abcdefgh"
PARTS = {f"part{letter}": LIGHT[number :: len(LETTERS)] for number, letter in enumerate(LETTERS)}


def test_the_corpus_is_large_enough() -> None:
    """The other tests claim what they claim of so many sources: light headers carry most."""
    assert len(LIGHT) >= 43
    assert len(FULL) >= 5


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("names", PARTS.values(), ids=PARTS)
def test_no_bit_differs_from_torchs_own_headers(names: list[str], tmp_path: Path) -> None:
    """The builder takes light headers for these, each call ends as its source says, and as with torch's own headers."""
    results = results_of(names, tmp_path)
    assert [wrong for name in names if (wrong := results.wrong_build(name))] == []
    assert [wrong for name in names for wrong in results.wrong_calls(name)] == []
    assert [wrong for name in names if (wrong := results.difference(name))] == []


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", FULL)
def test_what_light_headers_do_not_carry_is_built_with_torchs_own(name: str, tmp_path: Path) -> None:
    """The builder says why, and each call ends as the source says."""
    results = results_of([name], tmp_path)
    assert results.wrong_build(name) == ""
    assert results.wrong_calls(name) == []
