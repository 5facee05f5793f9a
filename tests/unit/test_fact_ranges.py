"""Values of facts have ranges: what a worker sends is refused where it could not be shown, and what is accepted can be shown."""

import json
import math
from dataclasses import replace

import pytest

from grader.api.messages import report_to_proto
from grader.model import Report, Verdict
from grader.rules.disclosure import Redactor
from sandbox.protocol import wire
from tests import fakes

HALF = "\ud800"
INT64_MAX = 2**63 - 1
TIMES = fakes.measurement()
OUT_OF_RANGE = {
    "too many elements": replace(fakes.trial(), element_count=2**70),
    "fewer than none": replace(fakes.trial(), element_count=-1),
    "an index before the first": replace(fakes.trial(), index=-1),
    "an index of more than 32 bits": replace(fakes.trial(), index=2**31),
    "a time of centuries": replace(fakes.trial(), duration_ns=2**80),
    "more runs than can be": replace(fakes.trial(), run_count=2**64),
    "half of a character": replace(fakes.trial(), message=HALF),
    "half of a character in a name": replace(fakes.ENVIRONMENT, versions={HALF: "1"}),
    "a device": replace(fakes.ENVIRONMENT, device=HALF),
    "a huge sample": replace(TIMES, certified=wire.Samples(durations_ns=(2**90,))),
    "a hugely negative sample": replace(TIMES, certified=wire.Samples(durations_ns=(-(2**70),))),
    "a huge bound": replace(TIMES, bound_ns=2**80),
    "bytes moved": replace(TIMES, moved_bytes=2**70),
    "fewer turns than none": replace(TIMES, turn_count=-1),
    "an infinite speedup": replace(TIMES, speedups=(wire.Speedup(baseline="eager", ratio=math.inf, ratio_low=0.0, ratio_high=math.nan),)),
    "an exit code": wire.RunEnd(cause=wire.BoxCause.EXITED, exit_code=2**40),
}


@pytest.mark.parametrize("fact", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_a_fact_out_of_range_is_no_message(fact: object) -> None:
    """The control is `test_facts_at_the_ends_of_their_ranges_are_shown`."""
    with pytest.raises(wire.WireError):
        wire.decode(wire.encode(fact))


def test_times_without_a_sample_are_no_message() -> None:
    line = json.loads(wire.encode(TIMES))
    line["certified"]["durations_ns"] = []
    with pytest.raises(wire.WireError, match="at least one"):
        wire.decode(json.dumps(line).encode())


def test_a_job_out_of_range_is_no_message_either() -> None:
    """Messages from a server to a worker have the same ranges."""
    spec = fakes.problem().spec
    for changed in ({"trial_count": 2**70}, {"trial_s": math.inf}, {"reference": HALF}):
        with pytest.raises(wire.WireError):
            wire.decode(wire.encode(wire.Prepare(job_id="j", problem=replace(spec, **changed))))


def test_facts_at_the_ends_of_their_ranges_are_shown() -> None:
    """An error may be infinite and an element NaN; a difference of times may be negative."""
    wrong = wire.WrongElement(output="c", index=(INT64_MAX,), expected=math.nan, actual=math.inf)
    trial = replace(fakes.trial(), element_count=INT64_MAX, index=10**9, wrong_elements=(wrong,), max_absolute_error=math.nan)
    times = replace(TIMES, certified=wire.Samples(durations_ns=(-INT64_MAX, INT64_MAX)), bound_ns=INT64_MAX, moved_bytes=INT64_MAX)
    facts = [wire.decode(wire.encode(fact)) for fact in (trial, times)]
    assert shown(trials=(facts[0],), measurements=(facts[1],))


def shown(**fields: object) -> bytes:
    report = Report(verdict=Verdict.ACCEPTED, reason="", summary="", **fields)  # type: ignore[arg-type]
    return report_to_proto(report, Redactor({}), full=True).SerializeToString()
