"""The languages, by name."""

from __future__ import annotations

from typing import Any

from sandbox.box.languages import cuda, python, torch_extension

LANGUAGES: dict[str, Any] = {language.NAME: language for language in (cuda, torch_extension, python)}
