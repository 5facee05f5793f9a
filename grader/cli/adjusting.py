"""What `--set`, `--tolerance`, `--allow-lower-precision` and `--keep-weights` ask for."""

from __future__ import annotations

from grader.cli.check_options import AdjustOptions
from grader.cli.exits import UsageError
from grader.formats.adjustments import Adjustments
from grader.formats.module_constants import NotALiteral, literal


def adjustments(wanted: AdjustOptions) -> Adjustments:
    """The adjustments that the options ask for; UsageError where they can't be read."""
    constants: dict[str, str] = {}
    for one in wanted.constants:
        name, equals, value = one.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise UsageError(f"--set {one!r} is not NAME=VALUE; write it as batch_size=4")
        if name in constants:
            raise UsageError(f"--set {name} is given twice; give it once")
        try:
            constants[name] = literal(value)
        except NotALiteral as wrong:
            raise UsageError(f"--set {name}: {wrong}") from None
    try:
        return Adjustments(
            constants=constants,
            tolerance=wanted.tolerance,
            allow_lower_precision=wanted.allow_lower_precision,
            keep_weights=wanted.keep_weights,
        )
    except ValueError as wrong:
        raise UsageError(f"--tolerance: {wrong}") from None
