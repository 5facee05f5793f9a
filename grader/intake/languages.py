"""The server's half of the languages: which one a submission is in, and whether its entry point can be there at all.

Only sure misses are reported: a submission that might build goes to the builder, which knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from grader.model import SourceFile
from sandbox.protocol.languages import LanguageInfo, languages
from sandbox.protocol.source_tokens import COMMENT, C, tokens

_CONTINUED_LINE = re.compile(r"\\[ \t]*+\r?\n")


@lru_cache(maxsize=1)  # what language it is and what it lacks are asked one after the other
def _code(sources: tuple[SourceFile, ...]) -> str:
    """All sources as one text without comments, and with continued lines joined."""
    texts = []
    for source in sources:
        parts = tokens(C, _CONTINUED_LINE.sub("", source.content))
        # A comment that is not closed is an error, which the builder reports.
        texts.append("".join(" " if kind == COMMENT and (part.startswith("//") or part.endswith("*/")) else part for kind, part in parts))
    return "\n".join(texts)


def detect(sources: Sequence[SourceFile]) -> str | None:
    """The language's name; None where no file is of a known one. A language without a marker is what remains."""
    suffixes = {PurePosixPath(source.path).suffix for source in sources}
    fitting = [info for info in languages().values() if not suffixes.isdisjoint(info.suffixes)]
    if not fitting:
        return None
    first = min(fitting, key=lambda info: info.is_c)  # a Python module may bring CUDA files along
    rivals = [info for info in fitting if info.suffixes == first.suffixes]
    marked = [info for info in rivals if info.marker is not None and info.marker.search(_text(info, sources))]
    return next((info.name for info in (*marked, *rivals) if info in marked or info.marker is None), None)


def missing_entry(language: str, sources: Sequence[SourceFile], entry: str) -> str | None:
    """Say what to do about an entry point that is surely not there; None where it may be."""
    info = languages().get(language)
    return None if info is None else info.missing_entry(_text(info, sources), entry)


def _text(language: LanguageInfo, sources: Sequence[SourceFile]) -> str:
    return _code(tuple(sources)) if language.is_c else "\n".join(source.content for source in sources)
