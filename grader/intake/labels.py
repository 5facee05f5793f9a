"""Checks the tags, the parent's name and the annotations of a submission.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from grader.api.resource_names import SUBMISSIONS, violation
from grader.errors import FieldViolation

TAG_LIMIT, ANNOTATION_LIMIT = 16, 16
TAG_LIMIT_CHARS, ID_LIMIT_CHARS, VALUE_LIMIT_CHARS = 64, 64, 256
_TAG = re.compile(rf"[A-Za-z0-9._/:=-]{{1,{TAG_LIMIT_CHARS}}}")
_PLAIN = f"write 1 to {TAG_LIMIT_CHARS} letters, digits and characters of '._/:=-'"


def check_labels(tags: Sequence[str], parent: str, annotations: Mapping[str, str]) -> list[FieldViolation]:
    """Return their violations, by field."""
    violations: list[FieldViolation] = []
    if len(tags) > TAG_LIMIT:
        violations.append(FieldViolation("tags", f"there are {len(tags)}; send at most {TAG_LIMIT}"))
    for index, tag in enumerate(tags if len(tags) <= TAG_LIMIT else ()):
        violations += check_tag(tag, f"tags[{index}]")
        if tag in tags[:index]:
            violations.append(FieldViolation(f"tags[{index}]", f"{tag[:TAG_LIMIT_CHARS]!r} is sent twice; send it once"))
    if parent and (wrong := violation(SUBMISSIONS, parent, "parent")) is not None:
        violations.append(wrong)
    elif len(parent) > len(SUBMISSIONS) + 1 + ID_LIMIT_CHARS or "\0" in parent:
        violations.append(FieldViolation("parent", "is not the name of a submission; send one as Submit returned it"))
    if len(annotations) > ANNOTATION_LIMIT:
        return [*violations, FieldViolation("annotations", f"there are {len(annotations)}; send at most {ANNOTATION_LIMIT}")]
    for key, value in sorted(annotations.items()):
        field = f"annotations[{key[:TAG_LIMIT_CHARS]!r}]"
        if not _TAG.fullmatch(key):
            violations.append(FieldViolation(field, f"this key is not plain; {_PLAIN}"))
        elif len(value) > VALUE_LIMIT_CHARS:
            violations.append(FieldViolation(field, f"its value has {len(value)} characters; send at most {VALUE_LIMIT_CHARS}"))
        elif not value.isprintable():
            violations.append(FieldViolation(field, "its value has a character that does not print, such as a line end; leave it out"))
    return violations


def check_tag(tag: str, field: str) -> list[FieldViolation]:
    """Return the violations of a tag."""
    return [] if _TAG.fullmatch(tag) else [FieldViolation(field, f"{tag[:TAG_LIMIT_CHARS]!r} is not a tag; {_PLAIN}")]
