"""Names of resources: a collection and an id, such as `problems/vector_add`."""

from __future__ import annotations

import re

from grader.errors import FieldViolation, InvalidRequest

PROBLEMS, SUBMISSIONS, COMPETITIONS, REJUDGES = "problems", "submissions", "competitions", "rejudges"
NAME_LIMIT_BYTES = 300
_PREFIX = re.compile(r"[A-Za-z0-9_-]{0,64}")
_ARTIFACT = re.compile(r"submissions/([^/]+)/artifacts/([^/]+)")


def full_name(collection: str, name: str) -> str:
    """collection/ID for ID and for collection/ID; "" for ""."""
    return name if not name or name.startswith(f"{collection}/") else f"{collection}/{name}"


def resource_id(collection: str, name: str) -> str:
    """ID for ID and for collection/ID."""
    return name.removeprefix(f"{collection}/")


def violation(collection: str, name: str, field: str) -> FieldViolation | None:
    """Return the violation of a full name; None where it is right."""
    if (size := len(name.encode(errors="surrogatepass"))) > NAME_LIMIT_BYTES:
        return FieldViolation(field, f"has {size} bytes; a resource name has at most {NAME_LIMIT_BYTES}")
    last = name.removeprefix(f"{collection}/")
    if last != name and last and "/" not in last:
        return None
    return FieldViolation(field, f"invalid resource name {name!r}; expected '{collection}/<id>'")


def parse(collection: str, name: str, field: str = "name") -> str:
    """The id in a full name. Raises InvalidRequest that names the field."""
    if (wrong := violation(collection, name, field)) is not None:
        raise InvalidRequest([wrong])
    return resource_id(collection, name)


def check_prefix(collection: str, prefix: str, field: str) -> str:
    """The prefix, where an id in the collection may begin with it. Raises InvalidRequest that names the field."""
    if _PREFIX.fullmatch(prefix) is None:
        text = f"no id in {collection} begins with {prefix[:80]!r}; send the beginning of an id, without '{collection}/'"
        raise InvalidRequest([FieldViolation(field, text)])
    return prefix


def artifact_name(submission_id: str, name: str) -> str:
    """The full name of a submission's file."""
    return f"{SUBMISSIONS}/{submission_id}/artifacts/{name}"


def parse_artifact(name: str) -> tuple[str, str]:
    """The submission's id and the file's name in a full name. Raises InvalidRequest."""
    match = _ARTIFACT.fullmatch(name)
    if match is None:
        text = f"invalid resource name {name[:200]!r}; expected 'submissions/<id>/artifacts/<file>'"
        raise InvalidRequest([FieldViolation("name", text)])
    return match[1], match[2]
