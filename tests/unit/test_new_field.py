"""A made-up field of the report, and a made-up reason of a verdict, added to copies of the product: four files, and two."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGES = {  # the line behind which lines are put, and these
    "sandbox/protocol/wire.py": (
        "    end: Annotated[MeasurementEnd | None, NOT_HIDDEN] = None\n",
        "    peak_temperature_c: Annotated[SmallCount, NOT_HIDDEN] = 0\n    peak_power_w: SmallCount = 0\n",
    ),
    "sandbox/judge/measure.py": ("        end=times.end,\n", "        peak_temperature_c=71, peak_power_w=355,\n"),
    "proto/grader/v1/report.proto": (
        "  MeasurementEnd end = 23;\n",
        "  // The highest temperature.\n  int32 peak_temperature_c = 25;\n  // The highest power.\n  int32 peak_power_w = 26;\n",
    ),
    "grader/views/formatting.py": (
        '    message = [f"{measurement.turn_count} turns"]\n',
        '    message.append(f"{measurement.peak_temperature_c} C, {measurement.peak_power_w} W")\n',
    ),
}
# What the judge measured, as the server stores it, sends it, and the command line shows it.
TRAVEL = """
from types import SimpleNamespace

from pydantic import TypeAdapter
from rich.console import Console

from grader.api.messages import report_to_proto
from grader.cli.report import render_times
from grader.ledger import records
from grader.model import Report
from grader.rules.disclosure import Redactor
from grader.verdict.fold import fold
from sandbox.judge.timing import OWN_NULL
from sandbox.judge.measure import _measurement
from sandbox.protocol import wire
from tests import fakes
from tests.unit.test_measure import TimingSetup, _times

times = _times([363_000] * 4, [331_000] * 4, [300_000] * 4)
times.taken_ns[OWN_NULL] = [[300_000] * 4] * 12
for hidden in (False, True):
    bench = SimpleNamespace(workload=wire.Workload(workload_id="n64", axes={}, hidden=hidden))
    trial = fakes.trial(hidden=hidden)
    facts = [
        wire.Plan(trials=((trial.workload_id, trial.phase, 1),)),
        wire.Load(outcome=wire.LoadOutcome.LOADED),
        trial,
        _measurement(TimingSetup(alone_ns=30_000), bench, times, {True: [300_000], False: [300_000]}, [290_000]),
        wire.Finished(job_id="job"),
    ]
    report = fold(wire.decode(wire.encode(fact)) for fact in facts)
    stored = TypeAdapter(Report).validate_json(records.judged(report)["report"])
    for part in render_times(report_to_proto(stored, Redactor({})).measurements, {}):
        Console(width=200).print(part)
    print("the next")
"""


def changed(place: Path, changes: dict[str, tuple[str, str]]) -> Path:
    """A copy of the product with these lines behind those."""
    for folder in ("grader", "sandbox", "proto", "tools"):
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (line, lines) in changes.items():
        text = (place / name).read_text("utf-8")
        assert text.count(line) == 1, name
        (place / name).write_text(text.replace(line, line + lines), "utf-8")
    return place


def run(place: Path, *arguments: str) -> str:
    """The output of a program that imports the copy."""
    environment = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}"}
    return subprocess.run([sys.executable, *arguments], cwd=place, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.slow
def test_a_new_field_of_the_report_touches_four_files(tmp_path):
    """The field travels, but not of a hidden workload; and a field that does not say who may see it is never shown."""
    assert len(CHANGES) == 4
    place = changed(tmp_path, CHANGES)
    run(place, "tools/generate_proto.py")
    public, hidden, _ = run(place, "-c", TRAVEL).split("the next")
    assert "12 turns, 71 C, 0 W" in public and "certified" in hidden and "71 C" not in hidden


REASON = {
    "grader/model.py": ('    POLICY = "POLICY"\n', '    TOO_HOT = "TOO_HOT"\n'),
    "grader/verdict/fold.py": (
        "            case wire.Build() if fact.outcome is not BuildOutcome.BUILT:\n                return _build(fact)\n",
        '            case wire.Environment(device="hot"):\n                return Verdict.RUNTIME_ERROR, Reason.TOO_HOT, "Too hot."\n',
    ),
}
SHOWN = """
from grader.api.messages import report_to_proto
from grader.rules.disclosure import Redactor
from grader.verdict.fold import fold
from grader.views import formatting
from sandbox.protocol import wire

facts = (wire.Environment(device="hot", device_kind="cuda", clock=wire.Clock.HOST), wire.Finished(job_id="job"))
report = report_to_proto(fold(facts), Redactor({}))
print(formatting.verdict_name(report), report.reason, report.summary)
"""


@pytest.mark.slow
def test_a_new_reason_of_a_verdict_touches_two_files(tmp_path):
    assert len(REASON) == 2
    assert run(changed(tmp_path, REASON), "-c", SHOWN) == "RUNTIME_ERROR TOO_HOT Too hot.\n"
