"""Gives imported problems ids of their own: by a prefix, or by their directories' names where two of one import have the same id."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grader.model import ID_LIMIT_CHARS, Problem, problem_id_of

_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,31}")


def is_prefix(text: str) -> bool:
    """Whether ids may begin with this text: lower case letters, digits and `_`, first a letter, at most 32 characters."""
    return _PREFIX.fullmatch(text) is not None


def with_prefix(problem: Problem, prefix: str) -> Problem:
    """The same problem under the id PREFIX_ID. The digest follows: a submission is to one problem of one id.

    ValueError where the id would be too long.
    """
    problem_id = f"{prefix.rstrip('_')}_{problem.problem_id}"
    if len(problem_id) > ID_LIMIT_CHARS:
        raise ValueError(f"has the id {problem_id!r}, which is over {ID_LIMIT_CHARS} characters; take a shorter prefix")
    digest = hashlib.sha256(json.dumps([problem.digest, problem_id]).encode()).hexdigest()
    return replace(problem, problem_id=problem_id, spec=replace(problem.spec, problem_id=problem_id, digest=digest))


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """For each path the name of the nearest directory by which it differs from all others, as part of an id; [] where there is none."""
    parents = [tuple(reversed(path.absolute().parts[:-1])) for path in paths]
    for names in zip(*parents, strict=False):
        slugs = [problem_id_of(name)[:32] for name in names]
        if len(set(slugs)) == len(slugs) and all(is_prefix(slug) for slug in slugs):
            return slugs
    return []
