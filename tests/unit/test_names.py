"""Class names are unique in the product, and its names and texts are plain English (STYLE.md)."""

import ast
from pathlib import Path

import pytest

from tools import names


def test_the_product_has_no_duplicate_class_and_no_banned_word():
    assert [*names.duplicate_classes(), *names.banned_names(), *names.banned_texts()] == []


@pytest.mark.parametrize(
    ("source", "check", "found"),
    [
        ("class Part: ...\nclass _Part: ...", names.duplicate_classes, "class Part is defined 2 times"),
        ("def _told_at_once(): ...", names.banned_names, "avoid 'told'"),
        ("def f(lately=0): ...", names.banned_names, "avoid 'lately'"),
        ("raise ValueError('no size; mend the file')", names.banned_texts, "'mend' in"),
        ('"""Tells whoever asks."""', names.banned_texts, "'whoever' in"),
    ],
)
def test_what_is_not_allowed_is_found(source, check, found):
    """The control of the test above."""
    (only,) = check([(Path("grader/x.py"), ast.parse(source))])
    assert found in only
