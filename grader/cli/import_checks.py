"""What `grader-cli problems import` runs of the problems before it keeps them: a check of each, or only what tells their arguments."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from grader.admission.check_box import CheckBox
from grader.admission.description import describe
from grader.admission.problem_check import Admission, AdmissionOutcome
from grader.cli.admission import checked, names_of
from grader.cli.check_options import CheckPlace
from grader.cli.check_place import check_box
from grader.cli.exits import GraderFailed
from grader.errors import JudgeBroken
from grader.formats import formats, is_described_by_judge, with_description
from grader.problems.adjusted import constants_of
from grader.problems.store import Imported
from grader.views.sanitize import one_line

BUDGET_S = 30.0
DESCRIBE_BUDGET_S = 120.0  # of all problems together
REASON_CHARS = 300
SHOWN_CONSTANTS = 6
_UNCHECKED = re.compile(r"not checked(?: to the end)?: ")


def usable(one: Imported) -> Imported:
    """The same, refused where no judge here can run it."""
    if not one.fresh or not one.unusable:
        return one
    return Imported(path=one.path, reason=f"can't be judged here: {one.unusable}; --force imports it all the same")


async def checked_all(
    found: Sequence[Imported], place: CheckPlace, kept: Callable[[Imported], Imported], *, force: bool, json: bool
) -> list[Imported]:
    """Check each, and keep it at once unless it is refused. One that there is no memory or time to check is kept, as it is in a set."""
    async with check_box(place) as box:
        return [kept(await _checked(one, box, force=force, json=json)) for one in found]


async def described_all(found: Sequence[Imported], place: CheckPlace) -> list[Imported]:
    """Learn what the entry of each is given, where only its own code knows that. Where that fails they stay as they are."""
    waiting = [one.problem for one in found if one.fresh and one.problem is not None and is_described_by_judge(one.problem)]
    if not waiting or place.trusted:
        return list(found)
    sys.stderr.write(
        f"learning the arguments of {len(waiting)} problems in a sandbox, at most {DESCRIBE_BUDGET_S:.0f} s (not with --no-check)\n"
    )
    try:
        async with check_box(place) as box:
            assert box is not None
            known = await describe(waiting, box, DESCRIBE_BUDGET_S)
    except (GraderFailed, JudgeBroken) as error:
        sys.stderr.write(f"not learned: {one_line(str(error))}\n")
        return list(found)
    described = []
    for one in found:
        learned = known.get(one.problem.digest) if one.problem else None
        described.append(one if one.problem is None or learned is None else replace(one, problem=with_description(one.problem, learned)))
    return described


async def _checked(one: Imported, box: CheckBox | None, *, force: bool, json: bool) -> Imported:
    if one.problem is None or not one.fresh or one.unusable:
        return one
    admission = await checked(one.problem, None, BUDGET_S, box, json=json)
    problem = one.problem if admission.described is None else with_description(one.problem, admission.described)
    match admission.outcome:
        case AdmissionOutcome.ADMITTED:
            return replace(one, problem=problem)
        case AdmissionOutcome.WARNED:
            return replace(one, problem=problem, warnings=(*one.warnings, f"a wrong kernel could pass ({names_of(admission.warnings)})"))
        case AdmissionOutcome.UNCHECKED:
            return replace(one, problem=problem, warnings=(*one.warnings, f"not checked: {_why_unchecked(one, admission)}"))
        case AdmissionOutcome.REFUSED if force:
            return replace(one, problem=problem, warnings=(*one.warnings, f"although refused ({names_of(admission.refusals)})"))
        case AdmissionOutcome.REFUSED:
            reason = one_line(admission.refusals[0].message, most_chars=REASON_CHARS)
            return Imported(path=one.path, reason=f"refused ({names_of(admission.refusals)}): {reason}; --force imports it all the same")


def _why_unchecked(one: Imported, admission: Admission) -> str:
    """The first reason, and the constants that make it smaller."""
    assert one.problem is not None
    reason = _UNCHECKED.sub("", admission.left_out[0].message) if admission.left_out else "nothing was found"
    known = constants_of(formats()[one.problem.spec.format], one.path)
    shown = ", ".join(f"{name} = {value}" for name, value in list(known.items())[:SHOWN_CONSTANTS])
    return one_line(reason, most_chars=REASON_CHARS) + (f"; its constants: {shown}" if shown else "")
