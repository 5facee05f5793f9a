"""Languages, a file each: how a kernel is built in the build box, and loaded and launched in the run box.

A language promises: `headers` yields ways to answer the includes of a job's sources, best first, a sentence in the place of one that is
not to be had; the last is headers, and decides. `libraries` says what is linked: flags, and by their paths those that are loaded before
the artifact. Neither runs anything of the submission. `note`, which may be left out, finds in the sources how the entry is called, and
what their author should know. `check` says from the artifact's bytes alone what is missing; `load` returns a
function that does a call, and is the first place where untrusted code runs. Everything else that has to be known of a language is in its
`LanguageInfo` (`sandbox/protocol/languages.py`).

A language that is not compiled file by file has `build` in the place of `headers`, `libraries` and `check`: from the job, the directory of
its files, an empty one and the builder's own to the attempt and its note. It may run the submission, in processes of its own.
"""

from __future__ import annotations

import importlib
from typing import Any

from sandbox.protocol.languages import BUILT_IN

MODULES = {language.name: language.module for language in BUILT_IN}


def implementation(name: str, module: str = "") -> Any:
    """The language's module. module: its full name, for a language of another package. Raises KeyError or ModuleNotFoundError."""
    return importlib.import_module(module or MODULES[name])
