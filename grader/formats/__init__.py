"""Problem formats: native, and those of installed packages. The server side parses without executing.

`ProblemFormat` of `grader/extensions.py` says what a format promises; the judge's half has an entry point of the same name in the group
`grader.references`. Optional are `members(path)`, the problems that a set at path lists;
`with_calling_convention(spec, new)`, where a submission decides how its entry is called; `with_description(problem, found)`, where only the
judge's half knows a problem's arguments; ACCEPTS_ADJUSTMENTS, where `load` takes `adjustments` and `settable(path)` says which constants
they may set; EXPLAINS_SUFFIX, a suffix of files that it loads to say what is missing in them, and so the last of its package that is shown
a path; SECRET_SIZES, where a competition may draw other sizes; LAYOUT, the files of a problem, for messages; `warnings(problem)`, sentences
for those who import it; and `unusable(problem)`, why no judge here could run it, or "".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from grader import extensions
from grader.formats import native
from grader.model import NewSubmission
from sandbox.protocol import wire
from sandbox.protocol.entry_points import load_named


@lru_cache(maxsize=1)
def formats() -> Mapping[str, ModuleType]:
    """All formats by name, in the order in which a path is shown to them: those of other packages before those of ours, since a file of
    theirs may look like one of these, too. EntryPointInvalid for one that can't be used."""

    def place(item: tuple[str, ModuleType]) -> tuple[bool, bool, bool]:
        module = item[1]
        return module is not native, module.__name__.startswith("grader_extensions."), hasattr(module, "EXPLAINS_SUFFIX")

    by_name = load_named(extensions.FORMATS, extensions.ProblemFormat, [native])
    return dict(sorted(by_name.items(), key=place))


def detect_format(path: Path, among: Mapping[str, ModuleType] | None = None) -> ModuleType | None:
    """The format of the problem at path; None where there is none. among: the formats to try; None: all."""
    try:
        return next((module for module in (formats() if among is None else among).values() if module.matches(path)), None)
    except OSError:  # such as a name that is too long
        return None


def expected_layouts(among: Mapping[str, ModuleType]) -> str:
    """Return what files these formats take, for messages."""
    layouts = "; ".join(f"{module.NAME}: {getattr(module, 'LAYOUT', 'see its documentation')}" for module in among.values())
    return layouts + installation_hint()


def installation_hint() -> str:
    """Return what to install for other formats, as the end of a message; "" where they are here."""
    if "kernelbench" in formats():
        return ""
    return f"; for kernelbench, reference_kernels, flashinfer and robust_kbench install {extensions.PACKAGE}"


def with_calling_convention(spec: wire.ProblemSpec, new_submission: NewSubmission) -> wire.ProblemSpec:
    """The problem as a submission's entry takes it, where its format leaves that to the submission."""
    adapt = getattr(formats().get(spec.format), "with_calling_convention", None)
    return spec if adapt is None else adapt(spec, new_submission)
