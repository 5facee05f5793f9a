"""The languages, by name."""

from __future__ import annotations

from sandbox.box.languages import cuda, torch_extension

LANGUAGES = {language.NAME: language for language in (cuda, torch_extension)}
