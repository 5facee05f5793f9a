"""Finds what a user meant who wrote a word that is not known.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Such as " Did you mean 'ACCEPTED'?", to be put behind a sentence; "" where nothing is close."""
    by_spelling = {one.casefold(): one for one in known}
    found = get_close_matches(word.casefold(), by_spelling, n=3)
    names = " or ".join(repr(by_spelling[one]) for one in found)
    return f" Did you mean {names}?" if found else ""
