"""Says what is wrong with a key of `competition.toml`, and what to write.  Quotes no value: some are secret."""

from __future__ import annotations

from pydantic_core import ErrorDetails

from grader import devices
from grader.formats.validation_messages import describe
from grader.problems.competition_file import CompetitionFile

TomlKey = tuple[str | int, ...]
_TAG_INDEX = 4  # secret, 0, axes, n, and then the kind of size, which is no key
_TIME = "write a time with an offset and without quotes, such as 2026-05-01T18:00:00+02:00"
_LIMIT = "write a whole number from 0 to 1000000"
_AMOUNT = "write a whole number, or arithmetic over the axes in quotes, such as '8 * n'"
_SIZE = "write a whole number from 0 to 2147483647"
_REMEDIES = {
    "name": 'write lower case letters, digits, _ and -, beginning with a letter, such as name = "spring"',
    "title": "write one line of 1 to 200 characters in quotes",
    "statement": "write text in quotes",
    "problems": 'write a list of 1 to 100 ids of problems, such as problems = ["vector_add"]',
    "devices": f"write a list of 1 to 16 of: {devices.FORMS}",
    "start": _TIME,
    "end": _TIME,
    "freeze": _TIME,
    "mode": 'write mode = "ranked", or leave it out',
    "hourly_limit": _LIMIT,
    "daily_limit": _LIMIT,
    "score": 'write "speedup" or "time"',
    "baseline": 'write "eager", "compile" or "max-autotune"',
    "tie_rule": 'write "share" or "earliest"',
    "visibility": 'write "private" or "after_end"',
    "processes": "write a whole number from 1 to 10",
    "secret_seed": "write 32 to 128 hex digits in lower case and in quotes, such as `openssl rand -hex 16` prints",
    "secret": "begin each secret workload with a line [[secret]], below all other keys",
}
_SECRET_REMEDIES = {
    "problem": "write the id of one of 'problems'",
    "axes": "write a size for every axis of the problem, such as axes = { n = 70000 }",
    "count": "write a whole number from 1 to 16",
    "device": 'write "cuda" or "emulated", or leave it out',
    "moved_bytes": _AMOUNT,
    "flops": _AMOUNT,
}
_RANGE_REMEDIES = {"low": _SIZE, "high": _SIZE, "step": "write a whole number, 1 or more"}
_AXIS = "write a size, or a range such as { low = 1000, high = 5000 }"


def key_of(mistake: ErrorDetails) -> TomlKey:
    """The key as the file has it."""
    return tuple(part for index, part in enumerate(mistake["loc"]) if index != _TAG_INDEX)


def sentence(key: TomlKey, mistake: ErrorDetails) -> str:
    """One mistake with its remedy, without its key."""
    text = "is missing" if mistake["type"] == "missing" else describe(mistake, CompetitionFile)
    remedy = _remedy(key)
    return text if ";" in text or not remedy else f"{text}; {remedy}"


def _remedy(key: TomlKey) -> str:
    if not key:
        return ""
    if len(key) == 4 and key[2] == "axes":
        return _AXIS
    depth = _depth(key)
    name = str(key[2] if depth == 1 else key[-1] if depth == 2 else key[0])
    return (_REMEDIES, _SECRET_REMEDIES, _RANGE_REMEDIES)[depth].get(name, "")


def _depth(key: TomlKey) -> int:
    """0: a key of the competition, 1: of a secret, 2: of a range."""
    if not key or key[0] != "secret" or len(key) < 3:
        return 0
    return 2 if len(key) > 4 else 1
