"""The templates of pages and of reports: every value is escaped, and shows what could hide or reorder text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from grader.views.sanitize import escape_unprintable

HERE = Path(__file__).parent
STYLE = HERE / "static" / "style.css"


def environment(*directories: Path, autoescape: bool = True) -> jinja2.Environment:
    """The templates of this package, after those of directories. autoescape False is for the test that shows what it is for."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*directories, HERE / "templates"]),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        finalize=_harmless if autoescape else None,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _harmless(value: Any) -> Any:
    """A value as a template shows it, with every character that could hide or reorder text written as its escape."""
    return escape_unprintable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
